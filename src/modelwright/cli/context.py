"""What all client verbs have in common: the options that say which control plane is meant, and how verbs are run."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from modelwright.cli.output import report
from modelwright.ports.errors import ModelwrightError

if TYPE_CHECKING:
    from modelwright.adapters.kubernetes.access import Access
    from modelwright.adapters.kubernetes.client import KubernetesClient

KubeconfigOption = Annotated[
    Path | None,
    typer.Option(
        "--kubeconfig",
        metavar="FILE",
        help="The kubeconfig to use; by default $KUBECONFIG, else ~/.kube/config, else what `modelwright up` wrote.",
        show_default=False,
    ),
]
ContextOption = Annotated[
    str | None,
    typer.Option("--context", metavar="NAME", help="The context of the kubeconfig to use.", show_default=False),
]
NamespaceOption = Annotated[
    str | None,
    typer.Option(
        "--namespace", "-n", metavar="NAME", help="The namespace; by default that of the context.", show_default=False
    ),
]

FAILED = 1
INTERRUPTED = 130


class Connection(NamedTuple):
    """Which control plane is meant, as the options say it."""

    kubeconfig: Path | None = None
    context: str | None = None
    namespace: str | None = None

    def access(self) -> Access:
        """How to reach it. Raises NotFound, Invalid."""
        from modelwright.adapters.kubernetes.locate import find_access

        return find_access(self.kubeconfig, self.context or "", self.namespace or "")

    @asynccontextmanager
    async def client(self) -> AsyncIterator[KubernetesClient]:
        """A client of it, whose `namespace` is the one that is meant."""
        from modelwright.adapters.kubernetes.client import KubernetesClient

        async with KubernetesClient(self.access(), field_manager="modelwright-cli") as client:
            yield client


def run(verb: Coroutine[Any, Any, int | None]) -> None:
    """Run an async verb, which returns its exit code or None for 0; an error is told in a few lines, exit 1."""
    import asyncio

    with failing_clearly():
        code = asyncio.run(verb)
    if code:
        raise typer.Exit(code)


@contextmanager
def failing_clearly() -> Iterator[None]:
    """Tell an error in a few lines, exit 1; exit 130 at Ctrl-C."""
    try:
        yield
    except ModelwrightError as error:
        report(explain(error))
        raise typer.Exit(FAILED) from None
    except KeyboardInterrupt:
        raise typer.Exit(INTERRUPTED) from None


def explain(error: ModelwrightError, what: str = "") -> str:
    """The message of an error, with each fault of a refused object on a line, and what to do where we know it.

    `what` names the object, where the message may not.
    """
    faults = [*_causes(error), *_unknown_fields(error.message)]
    if faults:
        return "\n".join([f"{what or 'the object'} is invalid:", *(f"  {fault}" for fault in faults)])
    message = f"{what}: {error.message}" if what else error.message
    hint = HINTS.get(error.reason, "")
    if "the server could not find the requested resource" in message or "404 page not found" in message:
        install = "modelwright crds | kubectl apply --server-side --field-manager=modelwright -f -"
        hint = f"is it a Modelwright control plane? On a cluster: {install}"
    return f"{message}\n  {hint}" if hint else message


def _causes(error: ModelwrightError) -> list[str]:
    causes = [cause for cause in getattr(error, "causes", ()) if cause.message]
    return [f"{cause.field}: {cause.message}" if cause.field else str(cause.message) for cause in causes]


def _unknown_fields(message: str) -> list[str]:
    """A server that decodes strictly tells unknown fields in one line, and without causes."""
    if "strict decoding error" not in message:
        return []
    return [f"{path}: {kind} field" for kind, path in _STRICT.findall(message)]


_STRICT = re.compile(r'(unknown|duplicate) field "([^"]+)"')
HINTS = {
    "ConnectionFailed": "is the control plane running? `modelwright up` starts one on this machine",
    "ConnectionLost": "the control plane may have been stopped: once it runs again, ask again; nothing is lost",
    "CertificateNotTrusted": "the kubeconfig may be of another or an older control plane",
    "Unauthorized": "the kubeconfig's login is not accepted: it may be of another control plane, or have run out",
}
