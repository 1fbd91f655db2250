"""What the verbs about served models share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from modelwright.adapters.kubernetes.client import KubernetesClient
    from modelwright.api.inference_model import InferenceModel

ServedArgument = Annotated[
    str, typer.Argument(metavar="NAME", help="An InferenceModel: NAME, or infm/NAME.", show_default=False)
]


def name_of(word: str) -> str:
    """The name in NAME or infm/NAME. Raises a usage error for another kind."""
    from modelwright.api.kinds import INFERENCE_MODEL

    kind, slash, name = word.rpartition("/")
    names = (INFERENCE_MODEL.plural, INFERENCE_MODEL.singular, *INFERENCE_MODEL.short_names)
    if slash and kind.lower().partition(".")[0] not in names:
        raise typer.BadParameter(f"{word!r} is no InferenceModel: write NAME or infm/NAME", param_hint="NAME")
    return name


async def find(client: KubernetesClient, word: str) -> InferenceModel:
    """The InferenceModel that a word names. Raises NotFound."""
    from modelwright.adapters.kubernetes.resource import of_kind
    from modelwright.api.inference_model import InferenceModel
    from modelwright.api.kinds import INFERENCE_MODEL, decode

    body = await client.get_bytes(of_kind(INFERENCE_MODEL), client.namespace, name_of(word))
    found = decode(INFERENCE_MODEL, body)
    assert isinstance(found, InferenceModel)  # noqa: S101 - what the kind says
    return found
