"""The runtime catalogue: which container serves the models of a framework, and how it is told what to serve.

Templates hold placeholders, which `command_of` and `ready_path_of` replace:

    $(MODEL_NAME)   the model's name, as URLs have it
    $(MODEL_DIR)    layout plain: the folder of the default version; else the folder with the configuration
    $(PORT)         where to listen
    $(VERSION)      in paths of probes: the number of the default version

`$(NAME)` of a variable of the template is left to Kubernetes, and `$$(NAME)` is the text `$(NAME)`, as there.

A runtime of the layout `modelwright` is our server, or an image built upon it: whoever makes the Pod adds to `args`
what is particular to it: `--token-file` and `--tls-folder` (what `secured` promises), `--termination-file`, and at the
edge `--stay`. Other servers are started as their template says.
"""

from __future__ import annotations

import re
from typing import Protocol

import msgspec

from modelwright.ports.errors import Invalid, NotFound
from modelwright.ports.serving import CONFIG_FILE, PLAIN_FOLDER, RUN_FOLDER, STATE_FILE, Layout
from modelwright.ports.workloads import Resources, Server

MODEL_NAME, MODEL_DIR, PORT, VERSION = "MODEL_NAME", "MODEL_DIR", "PORT", "VERSION"
IN_COMMANDS = frozenset({MODEL_NAME, MODEL_DIR, PORT})
IN_PATHS = frozenset({MODEL_NAME, VERSION})
PLACEHOLDER = re.compile(r"\$\$|\$\(([^()$]*)\)")
SERVER_COMMAND = ("modelwright", "server")
SERVER_ARGS = ("--config", CONFIG_FILE, "--state", STATE_FILE, "--host", "::", "--port", "$(PORT)")
SERVER_READY, SERVER_LIVE = "/v2/health/ready", "/v2/health/live"


class Runtime(msgspec.Struct, frozen=True, kw_only=True):
    """How a framework's models are served: a template of a container.

    An empty `command` is the image's entry point. `ready_path` answers 200 once the default version is loaded, and not
    before; `live_path` empty: a port that can be connected to is alive. `resources` are those of a model that asks for
    none.
    """

    framework: str
    image: str
    command: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    env: dict[str, str] = {}
    layout: Layout = "plain"
    ready_path: str = ""
    live_path: str = ""
    resources: Resources = Resources()

    @property
    def secured(self) -> bool:
        """Whether the server asks for a bearer token and speaks TLS where that is wanted: ours does."""
        return self.layout == "modelwright"


class Launch(msgspec.Struct, frozen=True, kw_only=True):
    """A container's command, arguments and variables, as its Pod has them."""

    command: tuple[str, ...]
    args: tuple[str, ...]
    env: dict[str, str]


class Fault(msgspec.Struct, frozen=True):
    """What is wrong with the template of a framework; `message` says where."""

    framework: str
    message: str


class Catalogue(Protocol):
    """The runtimes that there are, at this moment: an admin may change them."""

    @property
    def frameworks(self) -> frozenset[str]:
        """All that there is a template for, faulty ones too: `runtime` says what is wrong with them."""
        ...

    @property
    def secured(self) -> frozenset[str]:
        """Those whose server asks for a bearer token and speaks TLS where that is wanted; faulty ones too."""
        ...

    def runtime(self, framework: str) -> Runtime:
        """How a framework is served. Raises NotFound (FrameworkUnavailable), Invalid (RuntimeInvalid)."""
        ...

    def fault(self, framework: str) -> Fault | None:
        """What is wrong with its template; None: nothing."""
        ...


class FixedCatalogue(msgspec.Struct, frozen=True):
    """A catalogue that does not change; who is in `faults` is not in `runtimes`. Both are by framework."""

    runtimes: dict[str, Runtime]
    faults: dict[str, Fault] = {}

    @property
    def frameworks(self) -> frozenset[str]:
        return frozenset(self.runtimes) | frozenset(self.faults)

    @property
    def secured(self) -> frozenset[str]:
        return frozenset(name for name, runtime in self.runtimes.items() if runtime.secured) | frozenset(self.faults)

    def runtime(self, framework: str) -> Runtime:
        if (fault := self.fault(framework)) is not None:
            raise Invalid(
                f"the runtime for frameworkType {framework} is not usable: {fault.message}. An admin mends it, see"
                " docs/runtimes.md",
                reason="RuntimeInvalid",
            )
        if framework not in self.runtimes:
            known = ", ".join(sorted(self.frameworks)) or "none"
            raise NotFound(
                f"frameworkType {framework or '(empty)'} cannot be served here; there is: {known}",
                reason="FrameworkUnavailable",
            )
        return self.runtimes[framework]

    def fault(self, framework: str) -> Fault | None:
        return self.faults.get(framework)


def check_secured(server: Server, runtime: Runtime) -> None:
    """Raises Invalid (SecurityNotSupported): who wants a token or TLS gets no server that is open to all, whatever an
    admin has made of the catalogue since it was asked who can have them."""
    if (server.token_secret or server.tls_secret) and not runtime.secured:
        raise Invalid(
            f"auth and tls cannot be had: the server for frameworkType {runtime.framework} has no such thing; remove"
            " them, or have an admin choose our server for it in the runtime catalogue of the operator",
            reason="SecurityNotSupported",
        )


# Templates ----------------------------------------------------------------------------------------------------------


def command_of(runtime: Runtime, *, model_name: str, port: int) -> Launch:
    """What the container runs."""
    values = {MODEL_NAME: model_name, MODEL_DIR: model_dir_of(runtime), PORT: str(port)}
    return Launch(
        command=tuple(_filled(word, values) for word in runtime.command),
        args=tuple(_filled(word, values) for word in runtime.args),
        env={name: _filled(value, values) for name, value in runtime.env.items()},
    )


def model_dir_of(runtime: Runtime) -> str:
    """Where in the container the server finds what it is to serve."""
    return PLAIN_FOLDER if runtime.layout == "plain" else RUN_FOLDER


def ready_path_of(runtime: Runtime, *, model_name: str, number: int | None = None) -> str:
    """Where a probe asks; None leaves `$(VERSION)` as it is, for who asks with the number of the day."""
    values = {MODEL_NAME: model_name} | ({} if number is None else {VERSION: str(number)})
    return _filled(runtime.ready_path, values, in_path=True)


def live_path_of(runtime: Runtime, *, model_name: str) -> str:
    """Where a liveness probe asks; empty: whether the port can be connected to."""
    return _filled(runtime.live_path, {MODEL_NAME: model_name}, in_path=True)


def unknown_placeholders(text: str, known: frozenset[str]) -> tuple[str, ...]:
    """The placeholders in a text that nobody would replace, as they are spelled, in order."""
    found = (match for match in PLACEHOLDER.finditer(text) if match[0] != "$$")
    return tuple(match[0] for match in found if match[1] not in known)


def _filled(text: str, values: dict[str, str], *, in_path: bool = False) -> str:
    """With values for placeholders. Kubernetes expands commands once more, and paths not: in a command a value's `$` is
    doubled, so that it comes out as it is."""

    def replaced(match: re.Match[str]) -> str:
        if match[0] == "$$":
            return "$" if in_path else match[0]
        value = values.get(match[1])
        if value is None:
            return match[0]
        return value if in_path else value.replace("$", "$$")

    return PLACEHOLDER.sub(replaced, text)
