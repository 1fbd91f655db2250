"""Secrets as the kubelet shows them to a container, and certificates to put into them."""

from __future__ import annotations

import ssl
from pathlib import Path

from tests.contract.pki import Authority


class Secret:
    """A folder with files as the kubelet shows a Secret: links to a folder that is exchanged as a whole."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._count = 0
        folder.mkdir()

    def hold(self, **files: bytes | None) -> None:
        """From one instant on it holds these; `tls_crt` is the file tls.crt."""
        self._count += 1
        real = self.folder / f"..{self._count}"
        real.mkdir()
        named = {name.replace("_", "."): content for name, content in files.items()}
        for name, content in named.items():
            if content is not None:
                (real / name).write_bytes(content)
            if not (self.folder / name).is_symlink():
                (self.folder / name).symlink_to(Path("..data", name))
        link = self.folder / "..new"
        link.symlink_to(real.name)
        link.replace(self.folder / "..data")

    def __truediv__(self, name: str) -> Path:
        return self.folder / name


def trusting(authority: Authority) -> ssl.SSLContext:
    """What a client of such a server needs."""
    return ssl.create_default_context(cafile=str(authority.ca_file))


def pair(authority: Authority, name: str, *hosts: str) -> dict[str, bytes]:
    """The keys of a TLS Secret for loopback and these hosts."""
    certificate, key = authority.issue(name, hosts=hosts)
    return {"tls_crt": certificate.read_bytes(), "tls_key": key.read_bytes()}
