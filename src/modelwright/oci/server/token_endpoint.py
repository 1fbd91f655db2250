"""Giving tokens: by GET as distribution's token specification says, by POST as its OAuth2 one does (RFC 6749).

Those who log in get a token for what they ask for; strangers get one that pulls.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from urllib.parse import parse_qsl

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from modelwright.oci.server import scopes
from modelwright.oci.server.access import WRONG, AccessControl
from modelwright.oci.server.faults import Fault
from modelwright.oci.server.tokens import LIFETIME

_MAX_FORM_BYTES = 64 << 10
_MAX_FIELDS = 64
_NOT_KEPT = {"Cache-Control": "no-store"}
_BASIC = {"WWW-Authenticate": 'Basic realm="modelwright", charset="UTF-8"'}
_SECRET_FIELDS = {"password": "password", "refresh_token": "refresh_token"}
"""By grant type, the field that must be the server's secret. It never expires, so it is its own refresh token."""


class _Answer(msgspec.Struct, frozen=True):
    """`token` is docker's name for it, `access_token` OAuth2's."""

    token: str
    access_token: str
    expires_in: int
    issued_at: datetime
    scope: str
    token_type: str = "Bearer"  # noqa: S105 - the name of a scheme


class _GrantRefused(Fault):
    """An error as RFC 6749, 5.2 writes it, and as distribution-spec does: clients of both kinds come here."""

    def __init__(self, status: int, error: str, message: str) -> None:
        code = "UNAUTHORIZED" if status == 401 else "UNSUPPORTED"
        super().__init__(status, code, message, _NOT_KEPT | (_BASIC if status == 401 else {}))
        self.error = error

    def response(self) -> Response:
        """The answer."""
        errors = [{"code": self.code, "message": self.message}]
        body = {"error": self.error, "error_description": self.message, "errors": errors}
        return Response(msgspec.json.encode(body), self.status, self.headers, "application/json")


async def answer(control: AccessControl, request: Request) -> Response:
    """A token. Raises Fault: 401 for a wrong password, 400 for what is no such request."""
    if request.method == "GET":
        return _by_get(control, request)
    if request.method == "POST":
        return await _by_post(control, request)
    raise Fault(405, "UNSUPPORTED", f"{request.method} is not supported here", {"Allow": "GET, POST"})


def _by_get(control: AccessControl, request: Request) -> Response:
    header = request.headers.get("authorization", "")
    if header and not control.logged_in(header):
        raise Fault(401, "UNAUTHORIZED", WRONG, _NOT_KEPT | _BASIC)
    return _given(control, request.query_params.getlist("scope"), scopes.ACTIONS if header else (scopes.PULL,))


async def _by_post(control: AccessControl, request: Request) -> Response:
    form = await _form(request)
    kind = form.get("grant_type")
    if kind is None:
        raise _GrantRefused(400, "invalid_request", "a form with a grant_type is needed")
    if kind not in _SECRET_FIELDS:
        raise _GrantRefused(400, "unsupported_grant_type", "grant_type is password or refresh_token")
    secret = form.get(_SECRET_FIELDS[kind])
    if secret is None:
        raise _GrantRefused(400, "invalid_request", f"the grant_type {kind} needs the field {_SECRET_FIELDS[kind]}")
    if not control.is_secret(secret):
        raise _GrantRefused(401, "invalid_grant", WRONG)
    return _given(control, [form.get("scope", "")], scopes.ACTIONS)


def _given(control: AccessControl, asked: Iterable[str], allowed: Iterable[str]) -> Response:
    access = scopes.limited(scopes.parse(asked), allowed)
    token, issued = control.tokens.issue(access)
    body = _Answer(token, token, LIFETIME, datetime.fromtimestamp(issued, UTC), scopes.spell(access))
    return Response(msgspec.json.encode(body), headers=_NOT_KEPT, media_type="application/json")


async def _form(request: Request) -> dict[str, str]:
    data = bytearray()
    async for chunk in request.stream():
        data += chunk
        if len(data) > _MAX_FORM_BYTES:
            raise Fault(413, "UNSUPPORTED", f"a form may have {_MAX_FORM_BYTES} bytes at most")
    try:
        fields = parse_qsl(data.decode("utf-8", "replace"), keep_blank_values=True, max_num_fields=_MAX_FIELDS)
    except ValueError as error:
        raise _GrantRefused(400, "invalid_request", f"a form may have {_MAX_FIELDS} fields at most") from error
    return dict(fields)
