"""`modelwright predict`: ask a served model."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from modelwright.cli.context import Connection, ContextOption, KubeconfigOption, NamespaceOption, run
from modelwright.cli.served import AnsweringArgument

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
    namespace: NamespaceOption = None,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
) -> None:
    """Send rows to a served model and print what it answers, as JSON.

    Of a JointInferenceService, a remark says which of its models answered.

    Example: modelwright predict iris --data @rows.json
    """
    body = request_body(data)

    async def verb() -> int:
        from modelwright.cli import served
        from modelwright.cli.output import note, print_tensors, report

        async with Connection(kubeconfig, context, namespace).client() as client:
            model = await served.find_answering(client, name)
        if not model.status.url:
            report(f"{model.metadata.name} does not answer now: {why_not(model)}")
            return 1
        answer, side = await ask(model.status.url, body)
        if side:
            note(f"answered by: {side}")
        print_tensors(answer)
        return 0

    run(verb())


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


async def ask(url: str, body: dict[str, Any]) -> tuple[Any, str]:
    """The answer, and which side gave it where a gateway says so.

    Raises Unavailable if there is none, Invalid if the model refuses the request.
    """
    import httpx2
    import msgspec

    from modelwright.ports.errors import Invalid, Unavailable

    try:
        async with httpx2.AsyncClient(trust_env=False, timeout=TIMEOUT_SECONDS) as client:
            answer = await client.post(f"{url}:predict", content=msgspec.json.encode(body))
        value = msgspec.json.decode(answer.content)
    except httpx2.HTTPError as error:
        raise Unavailable(f"{url} gave no answer: {str(error) or type(error).__name__}") from None
    except msgspec.DecodeError:
        raise Unavailable(f"{url} gave an answer that is no JSON (HTTP {answer.status_code})") from None
    if answer.is_error:
        told = value.get("error", value) if isinstance(value, dict) else value
        raise Invalid(f"{url} refused the request (HTTP {answer.status_code}): {told}")
    return value, answer.headers.get(SERVED_BY, "")
