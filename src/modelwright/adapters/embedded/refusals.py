"""Refusals of the API, with what an API Status needs beside the message."""

from __future__ import annotations

from collections.abc import Sequence

from modelwright.api.faults import Fault
from modelwright.ports.errors import AlreadyExists, Conflict, Invalid, NotFound, Rejected


class BadRequest(Invalid):
    """The request cannot be understood (400)."""


class Unprocessable(Invalid):
    """The object, or an option of the request, breaks rules (422): all of them, each with its field."""

    def __init__(self, message: str, faults: Sequence[Fault]) -> None:
        super().__init__(message, reason="Invalid")
        self.faults = tuple(faults)


class UnsupportedMediaType(Invalid):
    """The body is in a format that is not served (415)."""


class TooLarge(Rejected):
    """The body or the object is larger than is stored (413)."""


def not_found(resource: str, name: str) -> NotFound:
    return NotFound(f'{resource} "{name}" not found', reason="NotFound")


def already_exists(resource: str, name: str) -> AlreadyExists:
    return AlreadyExists(f'{resource} "{name}" already exists', reason="AlreadyExists")


def conflict(resource: str, name: str, why: str) -> Conflict:
    return Conflict(f'Operation cannot be fulfilled on {resource} "{name}": {why}', reason="Conflict")


def modified(resource: str, name: str) -> Conflict:
    why = "the object has been modified; please apply your changes to the latest version and try again"
    return conflict(resource, name, why)


def invalid(what: str, name: str, faults: Sequence[Fault]) -> Unprocessable:
    """The refusal of an object of a kind, spelled `Kind.group`."""
    said = [f"{fault.field}: {fault.message}" if fault.field else fault.message for fault in faults]
    listed = said[0] if len(said) == 1 else f"[{', '.join(said)}]"
    return Unprocessable(f'{what} "{name}" is invalid: {listed}', faults)


def invalid_options(field: str, type_: str, message: str) -> Unprocessable:
    """The refusal of the options of a list or watch."""
    return invalid("ListOptions.meta.k8s.io", "", [Fault(field, type_, message)])
