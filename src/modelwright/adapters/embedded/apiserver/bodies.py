"""What clients send: objects, patches and options, as JSON or YAML."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from typing import Any

import msgspec
import yaml

from modelwright.adapters.embedded.apiserver.asgi import Request
from modelwright.adapters.embedded.apiserver.protobuf import MEDIA_TYPE, decode_namespace
from modelwright.adapters.embedded.definitions import Definition
from modelwright.adapters.embedded.editing import Deletion, Validation
from modelwright.adapters.embedded.garbage import Policy
from modelwright.adapters.embedded.patches import apply_operations, merge
from modelwright.adapters.embedded.refusals import BadRequest, TooLarge, UnsupportedMediaType, invalid
from modelwright.adapters.embedded.resources import Update
from modelwright.api.faults import Fault

Object = dict[str, Any]
MAX_YAML_BYTES = 64 * 1024
_YAML = ("application/yaml", "application/x-yaml", "text/yaml")
_SERVER_SIDE_APPLY = "server-side apply is not supported by the embedded server; use client-side apply"
_STRATEGIC = "application/strategic-merge-patch+json"
_NO_STRATEGY = "strategic merge patch is not supported for custom kinds; use --type merge or --type json"


def media_type(request: Request) -> str:
    """The Content-Type without its parameters; JSON if none is given."""
    return request.header(b"content-type").partition(";")[0].strip().lower() or "application/json"


async def read_object(request: Request, validation: Validation) -> Object:
    """The object in a body. Raises BadRequest, TooLarge, UnsupportedMediaType."""
    media = media_type(request)
    if media == MEDIA_TYPE:
        return decode_namespace(await request.body())
    if media != "application/json" and media not in _YAML:
        text = f"the body is in an unknown format ({media[:80]}): send application/json or application/yaml"
        raise UnsupportedMediaType(text, reason="UnsupportedMediaType")
    body = await request.body()
    value = await _decode(body, media)
    if not isinstance(value, dict):
        raise BadRequest("the body must be an object", reason="BadRequest")
    if validation == "Strict" and media == "application/json":
        _refuse_duplicates(body)
    return value


async def read_patch(request: Request, definition: Definition) -> Update:
    """The change that a patch makes. Raises BadRequest, TooLarge, UnsupportedMediaType."""
    media = media_type(request)
    if media in ("application/apply-patch+yaml", "application/apply-patch+cbor"):
        raise UnsupportedMediaType(_SERVER_SIDE_APPLY, reason="UnsupportedMediaType")
    if media not in ("application/json-patch+json", "application/merge-patch+json", _STRATEGIC):
        text = f"unknown patch format {media[:80]}: send application/merge-patch+json or application/json-patch+json"
        raise UnsupportedMediaType(text, reason="UnsupportedMediaType")
    patch = _json(await request.body())
    if media == "application/json-patch+json":
        return lambda value: _object(apply_operations(value, patch))
    if not isinstance(patch, dict):
        raise BadRequest("a merge patch must be an object", reason="BadRequest")
    # Clients know namespaces from Kubernetes and patch them strategically; without lists that is a merge patch.
    if media == _STRATEGIC and (definition.group or _has_lists(patch)):
        raise UnsupportedMediaType(_NO_STRATEGY, reason="UnsupportedMediaType")
    return lambda value: _object(merge(value, patch))


async def read_deletion(request: Request) -> Deletion:
    """The options of a deletion, of the body or else of the query. Raises BadRequest, Invalid, UnsupportedMediaType."""
    body = await request.body()
    options: Object = {}
    if body:
        options = _object(await _decode(body, media_type(request)))
    policy = _policy(options.get("propagationPolicy") or request.query.get("propagationPolicy") or "Background")
    required = options.get("preconditions") or {}
    if not isinstance(required, dict):
        raise BadRequest("preconditions must be an object", reason="BadRequest")
    uid, version = str(required.get("uid") or ""), str(required.get("resourceVersion") or "")
    return Deletion(policy, uid, version, is_dry_run(request, options.get("dryRun")))


def _policy(name: Any) -> Policy:
    match name:
        case "Background":
            return "Background"
        case "Foreground":
            return "Foreground"
        case "Orphan":
            return "Orphan"
    text = f'Unsupported value: "{name}": supported values: "Background", "Foreground", "Orphan"'
    raise invalid("DeleteOptions.meta.k8s.io", "", [Fault("propagationPolicy", "FieldValueNotSupported", text)])


def is_dry_run(request: Request, in_body: Any = None) -> bool:
    """Whether nothing shall be kept. Raises Invalid for a value other than All."""
    values = in_body if in_body is not None else [request.query["dryRun"]] if request.query.get("dryRun") else []
    if values in ([], ["All"]):
        return bool(values)
    text = f'Unsupported value: "{values}": supported values: "All"'
    raise invalid("Options.meta.k8s.io", "", [Fault("dryRun", "FieldValueNotSupported", text)])


def validation_of(request: Request) -> Validation:
    """What to do about unknown fields; Warn if not said. Raises Invalid."""
    match request.query.get("fieldValidation", ""):
        case "Strict":
            return "Strict"
        case "Ignore":
            return "Ignore"
        case "" | "Warn":
            return "Warn"
        case other:
            text = f'Unsupported value: "{other[:40]}": supported values: "Ignore", "Warn", "Strict"'
            raise invalid("Options.meta.k8s.io", "", [Fault("fieldValidation", "FieldValueNotSupported", text)])


def _object(value: Any) -> Object:
    if not isinstance(value, dict):
        raise BadRequest("the result must be an object", reason="BadRequest")
    return value


def _has_lists(value: Any) -> bool:
    if isinstance(value, dict):
        return any(key.startswith("$") or _has_lists(inner) for key, inner in value.items())
    return isinstance(value, list)


async def _decode(body: bytes, media: str) -> Any:
    # YAML is read slowly: others get their turn meanwhile.
    return await asyncio.to_thread(_yaml, body) if media in _YAML else _json(body)


def _json(body: bytes) -> Any:
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BadRequest(f"the body is no valid JSON: {error}", reason="BadRequest") from error
    except RecursionError as error:
        raise BadRequest("the body is nested too deeply", reason="BadRequest") from error


def _yaml(body: bytes) -> Any:
    if len(body) > MAX_YAML_BYTES:
        text = f"a YAML body may have at most {MAX_YAML_BYTES} bytes: send JSON"
        raise TooLarge(text, reason="RequestEntityTooLarge")
    try:
        value = yaml.load(body, Loader=_Loader)  # noqa: S506
        # Only what JSON can say is stored, and this also settles dates and such.
        return msgspec.json.decode(msgspec.json.encode(value))
    except (yaml.YAMLError, TypeError, ValueError, msgspec.MsgspecError) as error:
        raise BadRequest(f"the body is no valid YAML: {error}", reason="BadRequest") from error
    except RecursionError as error:
        raise BadRequest("the body is nested too deeply", reason="BadRequest") from error


class _Loader(yaml.SafeLoader):
    """YAML without anchors: an alias is the way to make a small body huge; and dates stay text."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):
            raise yaml.YAMLError("anchors and aliases are not supported")
        return super().compose_node(parent, index)


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def _refuse_duplicates(body: bytes) -> None:
    """kube-apiserver's Strict also refuses a field that is given twice; msgspec takes the last one."""
    duplicates: set[str] = set()

    def pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(items)
        if len(found) < len(items):
            duplicates.update(name for name, count in Counter(name for name, _ in items).items() if count > 1)
        return found

    json.loads(body, object_pairs_hook=pairs)
    if duplicates:
        listed = ", ".join(f'duplicate field "{name}"' for name in sorted(duplicates)[:10])
        raise BadRequest(f"strict decoding error: {listed}", reason="BadRequest")
