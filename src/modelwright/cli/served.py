"""What the verbs about served models share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from modelwright.adapters.kubernetes.client import KubernetesClient
    from modelwright.api.inference_model import InferenceModel
    from modelwright.api.joint_inference_service import JointInferenceService
    from modelwright.api.kind import Kind

ServedArgument = Annotated[
    str, typer.Argument(metavar="NAME", help="An InferenceModel: NAME, or infm/NAME.", show_default=False)
]
AnsweringArgument = Annotated[
    str,
    typer.Argument(
        metavar="NAME",
        help="An InferenceModel: NAME, or infm/NAME; a JointInferenceService: jis/NAME.",
        show_default=False,
    ),
]


async def find(client: KubernetesClient, word: str) -> InferenceModel:
    """The InferenceModel that a word names. Raises NotFound."""
    from modelwright.api.inference_model import InferenceModel
    from modelwright.api.kinds import INFERENCE_MODEL

    found = await _get(client, word, INFERENCE_MODEL)
    assert isinstance(found, InferenceModel)  # noqa: S101 - what the kind says
    return found


async def find_answering(client: KubernetesClient, word: str) -> InferenceModel | JointInferenceService:
    """What answers requests and bears this name: an InferenceModel, unless the word says otherwise. Raises NotFound."""
    from modelwright.api.kinds import INFERENCE_MODEL, JOINT_INFERENCE_SERVICE

    return await _get(client, word, INFERENCE_MODEL, JOINT_INFERENCE_SERVICE)


async def _get(client: KubernetesClient, word: str, *kinds: Kind) -> InferenceModel | JointInferenceService:
    from modelwright.adapters.kubernetes.resource import of_kind
    from modelwright.api.kinds import decode

    kind, name = _meant(word, kinds)
    found: InferenceModel | JointInferenceService = decode(
        kind, await client.get_bytes(of_kind(kind), client.namespace, name)
    )
    return found


def _meant(word: str, kinds: tuple[Kind, ...]) -> tuple[Kind, str]:
    """The kind and the name in NAME (of the first kind) or KIND/NAME. Raises a usage error for another kind."""
    called, slash, name = word.rpartition("/")
    if not slash:
        return kinds[0], name
    for kind in kinds:
        if called.lower().partition(".")[0] in (kind.plural, kind.singular, *kind.short_names):
            return kind, name
    of = " or ".join(kind.kind for kind in kinds)
    ways = " or ".join(f"{kind.short_names[0]}/NAME" for kind in kinds)
    raise typer.BadParameter(f"{word!r} is no {of}: write {ways}", param_hint="NAME")
