"""Turns what a Kubernetes API server refuses into the errors of the ports."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from modelwright.ports.errors import (
    AlreadyExists,
    Conflict,
    Expired,
    Forbidden,
    Invalid,
    ModelwrightError,
    NotFound,
    Unavailable,
)


class Cause(msgspec.Struct, frozen=True):
    """One fault of a refused object: `field` is a path such as `spec.storage.nfs`."""

    field: str = ""
    message: str = ""
    reason: str = ""


class _Details(msgspec.Struct, frozen=True, rename="camel"):
    causes: tuple[Cause, ...] | None = None
    retry_after_seconds: int | None = None


class Status(msgspec.Struct, frozen=True):
    """meta/v1 Status, as far as we read it."""

    code: int = 0
    reason: str = ""
    message: str = ""
    details: _Details | None = None

    @property
    def causes(self) -> tuple[Cause, ...]:
        return (self.details and self.details.causes) or ()


class InvalidResource(Invalid):
    """An object that breaks rules; `causes` has each with its field."""

    def __init__(self, message: str, causes: tuple[Cause, ...], *, reason: str = "Invalid") -> None:
        super().__init__(message, reason=reason)
        self.causes = causes


TERMINAL: dict[int, type[ModelwrightError]] = {
    401: Forbidden,
    403: Forbidden,
    404: NotFound,
    405: Invalid,
    406: Invalid,
    413: Invalid,
    415: Invalid,
}
DEFAULT_REASONS = {
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    405: "MethodNotAllowed",
    413: "RequestEntityTooLarge",
    415: "UnsupportedMediaType",
    429: "TooManyRequests",
}
UNPROCESSABLE, BAD_REQUEST, CONFLICT, GONE = 422, 400, 409, 410


def refusal(status: int, headers: Mapping[str, str], body: bytes, what: str) -> ModelwrightError:
    """The error for an answer of 400 or more; `what` says what was asked, such as `get modelversions "x"`."""
    return from_status(_read(status, body), what, after=_seconds(headers.get("retry-after", "")))


def from_status(status: Status, what: str, *, after: float | None = None) -> ModelwrightError:
    """The error for a Status object."""
    code = status.code
    # A Status says by itself what it is about; anything else comes from a proxy in between, or is no Kubernetes.
    message = status.message if status.reason and status.message else f"{what}: HTTP {code} {status.message}".rstrip()
    reason = status.reason or DEFAULT_REASONS.get(code, "")
    if code == GONE:
        return Expired(message, reason="Expired")
    if code == CONFLICT:
        return AlreadyExists(message) if reason == "AlreadyExists" else Conflict(message, reason=reason)
    if code in (UNPROCESSABLE, BAD_REQUEST):
        return InvalidResource(message, status.causes, reason=reason or "Invalid")
    if code in TERMINAL:
        return TERMINAL[code](message, reason=reason)
    if after is None and status.details is not None:
        after = status.details.retry_after_seconds
    return Unavailable(message, reason=reason or "Unavailable", after=after)


def _read(status: int, body: bytes) -> Status:
    try:
        read = msgspec.json.decode(body, type=Status)
    except msgspec.DecodeError:
        return Status(code=status, message=body[:200].decode("utf-8", "replace").strip())
    return msgspec.structs.replace(read, code=status)


def _seconds(text: str) -> float | None:
    return float(text) if text.isascii() and text.isdigit() else None
