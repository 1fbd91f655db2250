"""GET of a collection: everything at one version, joined from stored bytes, in pages where that is asked for."""

from __future__ import annotations

import base64
import binascii
from typing import Any

import msgspec

from modelwright.adapters.embedded.apiserver import rendering
from modelwright.adapters.embedded.apiserver.asgi import Request, Stream
from modelwright.adapters.embedded.apiserver.negotiation import format_of
from modelwright.adapters.embedded.apiserver.status import TooNew
from modelwright.adapters.embedded.definitions import Definition
from modelwright.adapters.embedded.history import Entry
from modelwright.adapters.embedded.objects import Objects
from modelwright.adapters.embedded.refusals import BadRequest, invalid_options
from modelwright.adapters.embedded.selectors import Selector, selector

WHOLE = 500
"""A limit from here on is answered whole.

Clients page by 500 and more to spare a server to which a list is dear, and slow themselves down between pages.
Here a list is a join of bytes in memory; the API's conventions allow a server to return everything.
"""


class _Continue(msgspec.Struct, frozen=True):
    """Where the next page begins, and the version that all pages show."""

    version: int
    namespace: str
    name: str


class Listed(msgspec.Struct, frozen=True):
    """The objects of one page at one version."""

    entries: list[Entry]
    version: int
    next_page: str = ""
    remaining: int | None = None


def selector_of(definition: Definition, request: Request) -> Selector:
    """The selector in a request. Raises BadRequest."""
    query = request.query
    return selector(query.get("labelSelector", ""), query.get("fieldSelector", ""), definition.fields)


def find(objects: Objects, definition: Definition, namespace: str, request: Request) -> Listed:
    """The objects that a list request asks for. Raises BadRequest, Invalid, Expired, TooNew."""
    query = request.query
    if "sendInitialEvents" in query:
        text = "Forbidden: sendInitialEvents is forbidden for list"
        raise invalid_options("sendInitialEvents", "FieldValueForbidden", text)
    page = _decode(query["continue"]) if query.get("continue") else None
    version = page.version if page else _version(objects, request)
    entries = objects.snapshot(definition.resource, namespace, version)
    chosen = selector_of(definition, request)
    if chosen:
        entries = [entry for entry in entries if chosen.matches(entry)]
    return _paged(entries, version, page, request.number("limit") or 0, counted=not chosen)


def list_(objects: Objects, definition: Definition, namespace: str, request: Request) -> Stream:
    """The response to a list request."""
    format_ = format_of(request)
    listed = find(objects, definition, namespace, request)
    metadata: dict[str, Any] = {"resourceVersion": str(listed.version)}
    if listed.next_page:
        metadata["continue"] = listed.next_page
        if listed.remaining is not None:
            metadata["remainingItemCount"] = listed.remaining
    return Stream(rendering.parts(definition, format_, listed.entries, metadata))


def _version(objects: Objects, request: Request) -> int:
    """The version to list at: the newest, unless an exact one is demanded."""
    wanted, match = request.number("resourceVersion"), request.query.get("resourceVersionMatch", "")
    if match not in ("", "Exact", "NotOlderThan"):
        text = f'Unsupported value: "{match[:40]}": supported values: "Exact", "NotOlderThan"'
        raise invalid_options("resourceVersionMatch", "FieldValueNotSupported", text)
    if match and wanted is None:
        text = "Forbidden: resourceVersionMatch is forbidden unless resourceVersion is provided"
        raise invalid_options("resourceVersionMatch", "FieldValueForbidden", text)
    if wanted is not None:
        not_newer(objects, wanted)
    return wanted if match == "Exact" and wanted else objects.version


def not_newer(objects: Objects, wanted: int) -> None:
    """Raises TooNew for a version that does not exist yet."""
    if wanted > objects.version:
        text = f"Too large resource version: {wanted}, current: {objects.version}"
        raise TooNew(text, reason="Timeout", after=1)


def _paged(entries: list[Entry], version: int, page: _Continue | None, limit: int, *, counted: bool) -> Listed:
    if page is not None:
        begin = (page.namespace, page.name)
        entries = [entry for entry in entries if _position(entry) >= begin]
    if not limit or limit >= WHOLE or len(entries) <= limit:
        return Listed(entries, version)
    token = _Continue(version, *_position(entries[limit]))
    encoded = base64.urlsafe_b64encode(msgspec.json.encode(token)).decode().rstrip("=")
    return Listed(entries[:limit], version, encoded, len(entries) - limit if counted else None)


def _position(entry: Entry) -> tuple[str, str]:
    metadata = msgspec.json.decode(entry.value)["metadata"]
    return metadata.get("namespace", ""), metadata["name"]


def _decode(text: str) -> _Continue:
    try:
        padded = text + "=" * (-len(text) % 4)
        return msgspec.json.decode(base64.urlsafe_b64decode(padded), type=_Continue)
    except (msgspec.MsgspecError, binascii.Error, ValueError) as error:
        raise BadRequest("the continue token is not one of this server: list again", reason="BadRequest") from error
