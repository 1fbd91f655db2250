"""Where a model answers, from the URL of an InferenceModel."""

from __future__ import annotations

import re
from typing import NamedTuple
from urllib.parse import quote, unquote, urlsplit

from modelwright.ports.errors import Invalid

_PATH = re.compile(r"(?P<prefix>(?:/[^/?#]+)*)/v[12]/models/(?P<model>[^/?#:]+)/?")


class Address(NamedTuple):
    """A model on a server; `prefix` is a path before every request's, `model` is plain and `quoted` fit for a path."""

    scheme: str
    host: str
    port: int
    authority: str
    prefix: str
    model: str

    @property
    def quoted(self) -> str:
        return quote(self.model, safe="")


def parse_url(url: str) -> Address:
    """Raises Invalid (ConfigInvalid) for what is not `http[s]://HOST[:PORT]/v1/models/NAME`."""
    fault = Invalid(f"the URL {url!r} is not of the form http://HOST:PORT/v1/models/NAME", reason="ConfigInvalid")
    try:
        parts = urlsplit(url)
        port = parts.port or (443 if parts.scheme == "https" else 80)
        path = _PATH.fullmatch(parts.path)
    except ValueError:
        raise fault from None
    wrong = parts.query or parts.fragment or parts.username or parts.password or not url.isprintable() or " " in url
    if parts.scheme not in ("http", "https") or not parts.hostname or path is None or wrong:
        raise fault
    if not (parts.netloc + path["prefix"]).isascii():  # they stand in the heads of requests as they are
        raise fault
    return Address(parts.scheme, parts.hostname, port, parts.netloc, path["prefix"], unquote(path["model"]))
