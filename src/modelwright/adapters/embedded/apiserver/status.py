"""Errors as the API's Status objects."""

from __future__ import annotations

import math
from typing import Any

import msgspec

from modelwright.adapters.embedded.apiserver.asgi import Response
from modelwright.adapters.embedded.refusals import BadRequest, TooLarge, Unprocessable, UnsupportedMediaType
from modelwright.ports.errors import (
    AlreadyExists,
    Conflict,
    Expired,
    Forbidden,
    Invalid,
    ModelwrightError,
    NotFound,
    Retryable,
    Unavailable,
)


class Unauthorized(Forbidden):
    """No token, or not ours (401)."""


class MethodNotAllowed(Invalid):
    """The path exists, the method does not (405)."""


class NotAcceptable(Invalid):
    """None of the formats in Accept is served (406)."""


class TooNew(Retryable):
    """A resource version that does not exist yet (504)."""


# The most specific class first.
_CODES: tuple[tuple[type[ModelwrightError], int, str], ...] = (
    (Unauthorized, 401, "Unauthorized"),
    (MethodNotAllowed, 405, "MethodNotAllowed"),
    (NotAcceptable, 406, "NotAcceptable"),
    (UnsupportedMediaType, 415, "UnsupportedMediaType"),
    (TooLarge, 413, "RequestEntityTooLarge"),
    (BadRequest, 400, "BadRequest"),
    (TooNew, 504, "Timeout"),
    (Invalid, 422, "Invalid"),
    (NotFound, 404, "NotFound"),
    (AlreadyExists, 409, "AlreadyExists"),
    (Conflict, 409, "Conflict"),
    (Expired, 410, "Expired"),
    (Forbidden, 403, "Forbidden"),
    (Unavailable, 503, "ServiceUnavailable"),
)


class Subject(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a request was about, for `details`."""

    name: str = ""
    group: str = ""
    kind: str = ""
    uid: str = ""


def failure(error: ModelwrightError, subject: Subject | None = None) -> dict[str, Any]:
    """The Status of an error."""
    code, reason = next(
        ((code, reason) for type_, code, reason in _CODES if isinstance(error, type_)), (500, "InternalError")
    )
    details = msgspec.to_builtins(subject or Subject())
    causes = _causes(error)
    if causes:
        details["causes"] = causes
    if isinstance(error, Retryable) and error.after is not None:
        details["retryAfterSeconds"] = math.ceil(error.after)
    status = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure"}
    status |= {"message": error.message, "reason": reason}
    return {**status, **({"details": details} if details else {}), "code": code}


def success(subject: Subject) -> dict[str, Any]:
    """The Status of a deletion that is done."""
    status = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}
    return {**status, "details": msgspec.to_builtins(subject)}


def refuse(error: ModelwrightError, subject: Subject | None = None) -> Response:
    """The response to a request that failed."""
    status = failure(error, subject)
    headers = [(b"www-authenticate", b"Bearer")] if status["code"] == 401 else []
    if "retryAfterSeconds" in status.get("details", {}):
        headers.append((b"retry-after", b"%d" % status["details"]["retryAfterSeconds"]))
    # What is left of a body that was not read would be taken for the next request.
    return Response(msgspec.json.encode(status), status["code"], headers=tuple(headers), close=status["code"] == 413)


def _causes(error: ModelwrightError) -> list[dict[str, str]]:
    if isinstance(error, Unprocessable):
        return [fault.cause() for fault in error.faults]
    if type(error) is Invalid:
        # kubectl shows the causes of what is invalid, and not the message.
        return [{"reason": "FieldValueInvalid", "message": error.message, "field": ""}]
    if isinstance(error, TooNew):
        return [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}]
    if isinstance(error, Unavailable):
        return [{"reason": error.reason, "message": error.message}]
    return []
