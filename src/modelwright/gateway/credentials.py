"""What the gateway shows a model server, and whom it trusts to be one."""

from __future__ import annotations

from pathlib import Path
from ssl import SSLContext

from modelwright.gateway.config import ModelConfig
from modelwright.gateway.failed import Failed
from modelwright.http.bearer import read_tokens
from modelwright.http.files import Watched
from modelwright.http.tls import Trust
from modelwright.ports.errors import Unavailable


class Credentials:
    """A token and authorities, from files that are read again when they change."""

    def __init__(self, config: ModelConfig) -> None:
        self._server_name = config.server_name
        self._token_file = Path(config.token_file) if config.token_file else None
        self._watched = Watched(*([self._token_file] if self._token_file else []))
        self._headers: tuple[tuple[str, str], ...] | None = () if self._token_file is None else None
        self._trust = Trust(Path(config.ca_file) if config.ca_file else None)

    def headers(self) -> tuple[tuple[str, str], ...]:
        """What a request carries; raises Failed (TokenNotUsable)."""
        if self._token_file is not None and (self._watched.changed() or self._headers is None):
            self._headers = None
            try:
                token = read_tokens(self._token_file)[0].decode("ascii")
            except Unavailable as error:
                raise Failed("TokenNotUsable", error.message) from None
            self._headers = (("Authorization", f"Bearer {token}"),)
        return self._headers or ()

    def name(self, host: str) -> str:
        """The name that the certificate must be for; once `context` is known."""
        return self._server_name or self._trust.name(host)

    def context(self) -> SSLContext:
        """For a new connection that speaks TLS; raises Failed (CertificateNotUsable)."""
        try:
            return self._trust.context()
        except Unavailable as error:
            raise Failed("CertificateNotUsable", error.message) from None
