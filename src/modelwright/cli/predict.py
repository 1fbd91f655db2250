"""`modelwright predict`: ask a served model."""

from __future__ import annotations

import sys
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from modelwright.cli.context import Connection, ContextOption, KubeconfigOption, NamespaceOption, run
from modelwright.cli.served import AnsweringArgument

if TYPE_CHECKING:
    import ssl

TIMEOUT_SECONDS = 60.0
SERVED_BY = "X-Served-By"


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("predict")(predict)


def predict(
    name: AnsweringArgument,
    data: Annotated[
        str,
        typer.Option(
            "--data",
            "-d",
            metavar="JSON|@FILE|@-",
            help="Rows (a JSON list), or a whole request of TensorFlow Serving's REST: instances or inputs.",
        ),
    ],
    token_file: Annotated[
        Path | None, typer.Option("--token-file", metavar="FILE", help="The bearer token that the model asks for.")
    ] = None,
    ca_file: Annotated[
        Path | None,
        typer.Option("--ca-file", metavar="FILE", help="PEM: who signed a model's certificate, beside the usual."),
    ] = None,
    server_name: Annotated[
        str, typer.Option("--server-name", metavar="NAME", help="The name in the certificate, if not the URL's host.")
    ] = "",
    namespace: NamespaceOption = None,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
) -> None:
    """Send rows to a served model and print what it answers, as JSON.

    Of a JointInferenceService, a remark says which of its models answered.

    Example: modelwright predict iris --data @rows.json
    """
    body = request_body(data)
    access = access_of(token_file, ca_file, server_name)

    async def verb() -> int:
        from modelwright.cli import served
        from modelwright.cli.output import note, print_tensors, report

        async with Connection(kubeconfig, context, namespace).client() as client:
            model = await served.find_answering(client, name)
        if not model.status.url:
            report(f"{model.metadata.name} does not answer now: {why_not(model)}")
            return 1
        answer, side = await ask(model.status.url, body, access)
        if side:
            note(f"answered by: {side}")
        print_tensors(answer)
        return 0

    run(verb())


class Access(NamedTuple):
    """What a model may ask of who asks it: a bearer token, and to be trusted under this name."""

    token: str = ""
    trust: ssl.SSLContext | None = None
    server_name: str = ""


def access_of(token_file: Path | None, ca_file: Path | None, server_name: str) -> Access:
    """What the options mean. Raises a usage error."""
    try:
        token = token_file.read_text().strip() if token_file is not None else ""
    except (OSError, UnicodeDecodeError) as error:
        raise typer.BadParameter(f"cannot read {token_file}: {error}", param_hint="--token-file") from None
    if token_file is not None and not (token.isascii() and token.isprintable() and token):
        raise typer.BadParameter(f"{token_file} holds no token", param_hint="--token-file")
    return Access(token, trusting(ca_file) if ca_file is not None else None, server_name)


def trusting(ca_file: Path) -> ssl.SSLContext:
    """The usual authorities, and those of the file."""
    import ssl

    context = ssl.create_default_context()
    try:
        context.load_verify_locations(cafile=ca_file)
    except OSError as error:  # an SSLError is one
        text = f"cannot read certificates from {ca_file}: {error.strerror or error}"
        raise typer.BadParameter(text, param_hint="--ca-file") from None
    return context


def request_body(data: str) -> dict[str, Any]:
    """The request that the option means. Raises a usage error."""
    import msgspec

    try:
        value = msgspec.json.decode(read(data))
    except OSError as error:
        raise typer.BadParameter(f"cannot read {data[1:]}: {error.strerror}", param_hint="--data") from None
    except msgspec.DecodeError as error:
        raise typer.BadParameter(f"not JSON: {error}", param_hint="--data") from None
    if isinstance(value, dict) and ("instances" in value or "inputs" in value):
        return value
    if not isinstance(value, list):
        text = "give a list of rows, or an object with instances or inputs"
        raise typer.BadParameter(text, param_hint="--data")
    return {"instances": value}


def read(data: str) -> bytes:
    if not data.startswith("@"):
        return data.encode()
    return sys.stdin.buffer.read() if data == "@-" else Path(data[1:]).read_bytes()


def why_not(model: Any) -> str:
    """What the conditions say, told shortly."""
    from modelwright.reconcile.conditions import headline

    condition = headline(model.status.conditions)
    return f"{condition.reason}: {condition.message}" if condition else "it has not been looked at yet"


async def ask(url: str, body: dict[str, Any], access: Access = Access()) -> tuple[Any, str]:  # noqa: B008 - frozen
    """The answer, and which side gave it where a gateway says so.

    Raises Unavailable if there is none, Invalid if the model refuses the request.
    """
    import httpx2
    import msgspec

    from modelwright.ports.errors import Forbidden, Invalid, Unavailable

    headers = {"Authorization": f"Bearer {access.token}"} if access.token else {}
    extensions = {"sni_hostname": access.server_name} if access.server_name else {}
    verify = access.trust or True
    try:
        async with httpx2.AsyncClient(trust_env=False, timeout=TIMEOUT_SECONDS, verify=verify) as client:
            content = msgspec.json.encode(body)
            answer = await client.post(f"{url}:predict", content=content, headers=headers, extensions=extensions)
        value = msgspec.json.decode(answer.content)
    except httpx2.HTTPError as error:
        raise Unavailable(f"{url} gave no answer: {str(error) or type(error).__name__}") from None
    except msgspec.DecodeError:
        raise Unavailable(f"{url} gave an answer that is no JSON (HTTP {answer.status_code})") from None
    if answer.status_code == HTTPStatus.UNAUTHORIZED:
        why = "it knows another token" if access.token else "it asks for a token"
        raise Forbidden(f"{url} refused the request (HTTP 401): {why}, see --token-file")
    if answer.is_error:
        told = value.get("error", value) if isinstance(value, dict) else value
        raise Invalid(f"{url} refused the request (HTTP {answer.status_code}): {told}")
    return value, answer.headers.get(SERVED_BY, "")
