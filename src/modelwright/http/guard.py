"""What stands between a port and who reaches it: a token, and TLS."""

from __future__ import annotations

from modelwright.http.bearer import Application, Guarded, Tokens
from modelwright.http.options import ProcessOptions
from modelwright.http.tls import Certificate
from modelwright.ports.errors import Unavailable


class Guard:
    """Asks for what the options say: for nothing, a token, TLS, or both."""

    def __init__(self, options: ProcessOptions) -> None:
        self._tokens = Tokens(options.token_file) if options.token_file else None
        self.certificate: Certificate | None = None
        if options.tls_certificate is not None and options.tls_key is not None:
            self.certificate = Certificate(options.tls_certificate, options.tls_key)
        self.refresh()

    @property
    def fault(self) -> Unavailable | None:
        """What cannot be used of it."""
        parts = (self._tokens, self.certificate)
        return next((part.fault for part in parts if part is not None and part.fault is not None), None)

    @property
    def scheme(self) -> str:
        return "http" if self.certificate is None else "https"

    def refresh(self) -> bool:
        """Reads the files that have changed; whether `fault` is another one."""
        before = self.fault
        for part in (self._tokens, self.certificate):
            if part is not None:
                part.refresh()
        return self.fault is not before

    def check(self) -> None:
        """Raises Unavailable (CertificateNotUsable) if nobody could be shown a certificate."""
        if self.certificate is not None and self.certificate.context is None and self.certificate.fault is not None:
            raise self.certificate.fault

    def around(self, application: Application) -> Application:
        """The application as it is, or behind the token."""
        return application if self._tokens is None else Guarded(application, self._tokens)
