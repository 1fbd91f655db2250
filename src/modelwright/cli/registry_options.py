"""What verbs that read from a registry are told about it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

if TYPE_CHECKING:
    from modelwright.oci.session import Session

PlainOption = Annotated[
    bool,
    typer.Option(
        "--plain-http", metavar="", help="Speak http with the registry; registries on this machine need no such option."
    ),
]
CAOption = Annotated[
    Path | None, typer.Option("--ca-file", metavar="FILE", help="CA certificate (PEM) of the registry to trust.")
]
TokenHostOption = Annotated[
    list[str] | None,
    typer.Option("--token-host", metavar="HOST", help="Token service of the registry under another domain, to trust."),
]


class RegistryOptions(NamedTuple):
    """How to speak with a registry; credentials are docker's."""

    plain_http: bool = False
    ca_file: Path | None = None
    token_hosts: tuple[str, ...] = ()

    @contextmanager
    def session(self, host: str) -> Iterator[Session]:
        """Connections to one registry, closed at the end. Raises what connecting raises."""
        from modelwright.oci.session import Options, Session

        options = Options(
            plain_http=self.plain_http or None, ca_file=self.ca_file, token_hosts=self.token_hosts, attempts=3
        )
        with Session(host, options) as session:
            yield session
