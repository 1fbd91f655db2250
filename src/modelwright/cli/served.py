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
        help="An InferenceModel or a JointInferenceService: NAME, infm/NAME or jis/NAME.",
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
    """What answers requests and bears this name: an InferenceModel, else a JointInferenceService. Raises NotFound."""
    from modelwright.api.kinds import INFERENCE_MODEL, JOINT_INFERENCE_SERVICE

    return await _get(client, word, INFERENCE_MODEL, JOINT_INFERENCE_SERVICE)


async def _get(client: KubernetesClient, word: str, *kinds: Kind) -> InferenceModel | JointInferenceService:
    """The first that is there. Raises NotFound, of the first kind that was meant."""
    from modelwright.adapters.kubernetes.resource import of_kind
    from modelwright.api.kinds import decode
    from modelwright.ports.errors import NotFound

    meant, name = _meant(word, kinds)
    missing: list[NotFound] = []
    for kind in meant:
        try:
            body = await client.get_bytes(of_kind(kind), client.namespace, name)
        except NotFound as error:
            missing.append(error)
        else:
            found: InferenceModel | JointInferenceService = decode(kind, body)
            return found
    raise missing[0]


def _meant(word: str, kinds: tuple[Kind, ...]) -> tuple[tuple[Kind, ...], str]:
    """The kinds to try and the name in NAME or KIND/NAME. Raises a usage error for another kind."""
    called, slash, name = word.rpartition("/")
    if not slash:
        return kinds, name
    for kind in kinds:
        if called.lower().partition(".")[0] in (kind.plural, kind.singular, *kind.short_names):
            return (kind,), name
    of = " or ".join(kind.kind for kind in kinds)
    ways = " or ".join(f"{kind.short_names[0]}/NAME" for kind in kinds)
    raise typer.BadParameter(f"{word!r} is no {of}: write {ways}", param_hint="NAME")
