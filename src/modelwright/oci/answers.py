"""What a registry's answer, or its silence, means to the user."""

from __future__ import annotations

import ssl
from collections.abc import Mapping

import msgspec

from modelwright.ports.errors import Forbidden, Invalid, Mismatch, ModelwrightError, NotFound, Unavailable

_MAX_SHOWN = 300
_FULL = ("no space left", "disk quota", "enospc", "insufficient storage", "quota exceeded")


class Answer(msgspec.Struct, frozen=True):
    """A registry's answer, read to its end; header names are in lower case."""

    status: int
    headers: dict[str, str]
    body: bytes = b""

    def header(self, name: str) -> str:
        """The header, or an empty string."""
        return self.headers.get(name, "")


class _Fault(msgspec.Struct, frozen=True):
    code: str = ""
    message: str = ""


class _Faults(msgspec.Struct, frozen=True):
    errors: list[_Fault] = []


_FAULTS = msgspec.json.Decoder(_Faults)  # here, for the reason in `manifests`


def codes(answer: Answer) -> frozenset[str]:
    """The error codes of distribution-spec in an answer."""
    return frozenset(fault.code for fault in _faults(answer))


def refusal(answer: Answer, what: str, host: str) -> ModelwrightError:
    """The error for an answer that is none of those expected; `what` was to be done, such as `push a/b`."""
    said = _said(answer)
    text = f"{host} refused to {what}: status {answer.status}{said}"
    status = answer.status
    if status == 401:
        return Forbidden(
            f"{text}; log in with an account that has access (docker login {host}, or a registry secret)",
            reason="RegistryUnauthorized",
        )
    if status == 403:
        return Forbidden(f"{text}; ask for access to the repository", reason="RegistryDenied")
    if status == 404:
        return NotFound(f"{text}; check the spelling of the repository and tag", reason="ImageNotFound")
    if status == 413:
        return Invalid(f"{text}; raise the limit of request bodies in front of the registry", reason="RegistryLimit")
    if _is_full(answer, said):
        return Unavailable(f"{text}; make room on the registry's disk", reason="RegistryFull")
    if status == 429 or status >= 500:
        reason = "RegistryBusy" if status == 429 else "RegistryUnavailable"
        return Unavailable(f"{text}; try again later", reason=reason, after=retry_after(answer.headers))
    if "DIGEST_INVALID" in codes(answer):
        return Mismatch(f"{text}; the bytes that arrived are not those that were sent", reason="DigestMismatch")
    return Invalid(text, reason="RegistryRefused")


def silence(error: Exception, host: str) -> ModelwrightError:
    """The error for a registry that did not answer, or broke off."""
    import httpx2

    tls = _ssl_error(error)
    if isinstance(tls, ssl.SSLCertVerificationError):
        return Forbidden(
            f"the certificate of {host} is not trusted ({tls.verify_message}): give its CA with --ca-file, "
            f"or put it into /etc/docker/certs.d/{host}/ca.crt",
            reason="RegistryCertificateInvalid",
        )
    if tls is not None and "WRONG_VERSION_NUMBER" in str(tls):
        return Forbidden(
            f"{host} does not speak https: if it may be used without (--plain-http), say so", reason="RegistryNotTLS"
        )
    if isinstance(error, httpx2.TimeoutException):
        return Unavailable(
            f"{host} does not answer in time: check that it is up, or try again later", reason="RegistrySlow"
        )
    if isinstance(error, httpx2.ConnectError):
        return Unavailable(
            f"{host} cannot be reached ({error}): check the name and that it is up", reason="RegistryUnreachable"
        )
    return Unavailable(
        f"the connection to {host} broke ({str(error) or type(error).__name__}): try again", reason="RegistryBroke"
    )


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds of a Retry-After header, where it gives seconds."""
    value = headers.get("retry-after", "")
    return float(value) if value.isascii() and value.isdigit() and len(value) < 7 else None


def _faults(answer: Answer) -> list[_Fault]:
    try:
        return _FAULTS.decode(answer.body).errors
    except (msgspec.DecodeError, UnicodeDecodeError):
        return []


def _said(answer: Answer) -> str:
    text = "; ".join(f"{fault.code} {fault.message}".strip() for fault in _faults(answer))
    shown = "".join(letter if letter.isprintable() else " " for letter in text)[:_MAX_SHOWN]
    return f" ({shown})" if shown else ""


def _is_full(answer: Answer, said: str) -> bool:
    text = said.lower() + answer.body[:2000].decode("utf-8", "replace").lower()
    return answer.status == 507 or (answer.status >= 500 and any(sign in text for sign in _FULL))


def _ssl_error(error: BaseException | None) -> ssl.SSLError | None:
    while error is not None:
        if isinstance(error, ssl.SSLError):
            return error
        error = error.__cause__ or error.__context__
    return None
