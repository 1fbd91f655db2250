"""Lineage: what a model version was made from."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from modelwright.api.fields import Digest, Line, Metrics, Name, Url, doc, keyed_by


class LineageDataset(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True):
    """A dataset that the training read."""

    name: Annotated[Name, doc("The dataset's name, unique in the list.")]
    uri: Annotated[Url, doc("Where it lies.")] = ""
    digest: Annotated[Digest, doc("What it held, such as `sha256:` and 64 hexadecimal digits.")] = ""


class SourceCode(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True):
    """The code that trained."""

    repo: Annotated[Url, doc("The repository of the code.")] = ""
    revision: Annotated[Line, doc("The commit or tag.")] = ""


class Lineage(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True):
    """What a model version was made from."""

    training_model: Annotated[Name, doc("The TrainingModel that made it.")] = ""
    parents: Annotated[
        tuple[Name, ...],
        Meta(max_length=16, extra_json_schema={"x-kubernetes-list-type": "set"}),
        doc("ModelVersions that the training started from."),
    ] = ()
    datasets: Annotated[tuple[LineageDataset, ...], keyed_by("name", 64), doc("Datasets that the training read.")] = ()
    source: Annotated[SourceCode | None, doc("The code that trained.")] = None
    parameters: Annotated[
        dict[str, Line], Meta(max_length=128), doc("Parameters of the training. Values are strings: quote numbers.")
    ] = {}
    metrics: Annotated[Metrics, doc("Numbers that say how good it is.")] = {}
