"""Reading statements that anybody may have attached: nothing in them is trusted but what it claims of itself.

Unknown fields are passed over and null equals absent, as in-toto's parsing rules say.
"""

from __future__ import annotations

import base64
import binascii
from typing import TypeVar

import msgspec

from modelwright.lineage import materials
from modelwright.lineage.statement import (
    BASE,
    BUILD_TYPE,
    DATASET,
    METRICS,
    PREDICATE_TYPE,
    SOURCE,
    STATEMENT_TYPE,
)
from modelwright.ports.errors import Mismatch, Rejected
from modelwright.ports.workloads import Material

MAX_BYTES = 1 << 20
"""Larger statements are not read."""
_MAX_LISTED = 256

T = TypeVar("T")


class Attestation(msgspec.Struct, frozen=True, kw_only=True):
    """What one statement says of an image; `others` are dependencies that builders of other kinds name."""

    builder: str
    build_type: str
    invocation: str = ""
    namespace: str = ""
    version: str = ""
    model: str = ""
    created_by: str = ""
    training_model: str = ""
    command: str = ""
    parameters: dict[str, str] = {}
    parents: tuple[Material, ...] = ()
    datasets: tuple[Material, ...] = ()
    source: Material | None = None
    others: tuple[Material, ...] = ()
    metrics: dict[str, float] = {}


class _Resource(msgspec.Struct, frozen=True, rename="camel"):
    name: str | None = None
    uri: str | None = None
    digest: dict[str, str] | None = None
    content: str | None = None


class _External(msgspec.Struct, frozen=True, rename="camel"):
    model: str | None = None
    version: str | None = None
    namespace: str | None = None
    created_by: str | None = None
    training_model: str | None = None
    command: str | None = None
    parameters: dict[str, str] | None = None
    parents: list[str] | None = None
    datasets: list[str] | None = None


class _Definition(msgspec.Struct, frozen=True, rename="camel"):
    build_type: str = ""
    external_parameters: msgspec.Raw = msgspec.Raw(b"{}")
    resolved_dependencies: list[_Resource] | None = None


class _Builder(msgspec.Struct, frozen=True):
    id: str = ""


class _Metadata(msgspec.Struct, frozen=True, rename="camel"):
    invocation_id: str | None = None


class _Run(msgspec.Struct, frozen=True):
    builder: _Builder = _Builder()
    metadata: _Metadata | None = None
    byproducts: list[_Resource] | None = None


class _Predicate(msgspec.Struct, frozen=True, rename="camel"):
    build_definition: _Definition
    run_details: _Run


class _Statement(msgspec.Struct, frozen=True, rename="camel"):
    type_: str = msgspec.field(default="", name="_type")
    subject: list[_Resource] | None = None
    predicate_type: str = ""
    predicate: msgspec.Raw = msgspec.Raw(b"{}")


def predicate_type(data: bytes) -> str:
    """What kind of statement it is. Raises Rejected if it is no in-toto Statement v1."""
    return _statement(data).predicate_type


def read(data: bytes, digest: str) -> Attestation:
    """The SLSA provenance of the image with this digest.

    Raises Rejected (StatementInvalid) for what cannot be read, Mismatch (StatementOfAnother) if it is about another.
    """
    found = _statement(data)
    if found.predicate_type != PREDICATE_TYPE:
        raise _invalid(f"its predicate is {found.predicate_type[:100]!r}, not {PREDICATE_TYPE}")
    _, _, wanted = digest.partition(":")
    if all((subject.digest or {}).get("sha256") != wanted for subject in found.subject or ()):
        raise Mismatch(f"the statement is not about {digest}", reason="StatementOfAnother")
    predicate = _decode(found.predicate, _Predicate)
    return _attestation(predicate.build_definition, predicate.run_details)


def _statement(data: bytes) -> _Statement:
    if len(data) > MAX_BYTES:
        raise _invalid(f"it is over {MAX_BYTES} bytes")
    found = _decode(data, _Statement)
    if found.type_ != STATEMENT_TYPE:
        raise _invalid(f"its type is {found.type_[:100]!r}, not {STATEMENT_TYPE}")
    return found


def _attestation(definition: _Definition, run: _Run) -> Attestation:
    listed = definition.resolved_dependencies or []
    if len(listed) > _MAX_LISTED:
        raise _invalid(f"it lists {len(listed)} dependencies, more than {_MAX_LISTED}")
    common = Attestation(
        builder=run.builder.id,
        build_type=definition.build_type,
        invocation=(run.metadata and run.metadata.invocation_id) or "",
    )
    if definition.build_type != BUILD_TYPE:
        return msgspec.structs.replace(common, others=tuple(_material(each, "") for each in listed))
    return _ours(common, _decode(definition.external_parameters, _External), listed, run)


def _ours(common: Attestation, said: _External, listed: list[_Resource], run: _Run) -> Attestation:
    known = (BASE, DATASET)
    rest = [each for each in listed if each.name != SOURCE and not (each.name or "").startswith(known)]
    return msgspec.structs.replace(
        common,
        namespace=said.namespace or "",
        version=said.version or "",
        model=said.model or "",
        created_by=said.created_by or "",
        training_model=said.training_model or "",
        command=said.command or "",
        parameters=said.parameters or {},
        parents=_named(said.parents, listed, BASE),
        datasets=_named(said.datasets, listed, DATASET),
        source=next((_code(each) for each in listed if each.name == SOURCE), None),
        others=tuple(_material(each, "") for each in rest),
        metrics=_metrics(run.byproducts or []),
    )


def _named(names: list[str] | None, listed: list[_Resource], prefix: str) -> tuple[Material, ...]:
    """What the parameters name, with place and digest where a dependency has them; then dependencies beside those."""
    if len(names or ()) > _MAX_LISTED:
        raise _invalid(f"it names more than {_MAX_LISTED} parents or data sets")
    found = [_material(each, prefix) for each in listed if (each.name or "").startswith(prefix)]
    by_name = {each.name: each for each in found}
    ordered = {name: by_name.pop(name, Material(name=name)) for name in names or ()}
    return (*ordered.values(), *by_name.values())


def _material(resource: _Resource, prefix: str) -> Material:
    uri = resource.uri or ""
    if uri.startswith("pkg:oci/"):
        uri = materials.repository_of(uri) or uri
    name = (resource.name or "").removeprefix(prefix)
    return Material(name=name, uri=uri, digest=materials.digest_of(resource.digest or {}))


def _code(resource: _Resource) -> Material:
    commit = (resource.digest or {}).get("gitCommit", "")
    repository, revision = materials.split_git_uri(resource.uri or "", commit)
    return Material(name=revision, uri=repository, digest=f"gitCommit:{commit}" if commit else "")


def _metrics(byproducts: list[_Resource]) -> dict[str, float]:
    content = next((each.content or "" for each in byproducts if each.name == METRICS), "")
    try:
        data = base64.b64decode(content, validate=True)
    except (binascii.Error, ValueError):
        raise _invalid(f"its {METRICS} is not base64") from None
    return _decode(data, dict[str, float]) if data else {}


def _decode(data: bytes | msgspec.Raw, type_: type[T]) -> T:
    try:
        return msgspec.json.decode(data, type=type_)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise _invalid(str(error)[:200]) from None


def _invalid(why: str) -> Rejected:
    return Rejected(f"the statement cannot be read: {why}", reason="StatementInvalid")
