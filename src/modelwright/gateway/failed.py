"""Why a model gave no answer of use."""

from __future__ import annotations

from modelwright.http.connection import Response

_AWAY = (
    "ConnectionFailed",
    "NotReady",
    "ModelNotFound",
    "CertificateNotTrusted",
    "CertificateNotUsable",
    "TokenNotUsable",
    "Forbidden",
    "LoopDetected",
)


class Failed(Exception):
    """A model gave no answer that can be used; `reason` is CamelCase.

    `lasting` says whether the next request is likely to fail as well, `answer` is what the model said, if that may be
    what the client should hear.
    """

    def __init__(self, reason: str, message: str, *, lasting: bool = True, answer: Response | None = None) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message
        self.lasting = lasting
        self.answer = answer

    @property
    def away(self) -> bool:
        """Whether there was nobody to ask, so that it is over as soon as there is somebody."""
        return self.reason in _AWAY
