"""How data sets, images and source code are spelled in statements: digest sets, package URLs, git URIs.

in-toto attestation v1 (DigestSet, ResourceURI), package-url type `oci`, SPDX download locations.
"""

from __future__ import annotations

import re
from urllib.parse import parse_qs, quote, urlsplit

from modelwright.lineage import redaction

_DIGEST = re.compile(r"([A-Za-z0-9_+.-]{1,32}):([0-9A-Za-z=_-]{1,256})\Z")
_COMMIT = re.compile(r"(?:[0-9a-f]{40}|[0-9a-f]{64})\Z")
_SCP = re.compile(r"([\w.-]+@[\w.-]+):(?!//)(.+)\Z")


def digest_set(digest: str) -> dict[str, str]:
    """`sha256:HEX` as `{"sha256": "HEX"}`; nothing for what is no digest."""
    found = _DIGEST.match(digest)
    return {found[1]: found[2]} if found else {}


def digest_of(digests: dict[str, str]) -> str:
    """The digest in a set as `ALGORITHM:HEX`: SHA-256 if it is there, else the first by name."""
    for name in ("sha256", *sorted(digests)):
        if name in digests:
            return f"{name}:{digests[name]}"
    return ""


def is_commit(revision: str) -> bool:
    """Whether a revision is the full name of a git commit."""
    return _COMMIT.match(revision) is not None


def image_purl(image: str, digest: str) -> str:
    """The package URL of an image `HOST/REPOSITORY[@DIGEST]`."""
    repository = image.partition("@")[0]
    name = repository.rpartition("/")[2]
    return f"pkg:oci/{quote(name, safe='')}@{quote(digest, safe='')}?repository_url={quote(repository, safe='/')}"


def repository_of(purl: str) -> str:
    """`HOST/REPOSITORY` in the package URL of an image, empty if it says none."""
    try:
        parts = urlsplit(purl)
        named = parse_qs(parts.query).get("repository_url", [""])[0]
    except ValueError:
        return ""
    return named if parts.scheme == "pkg" and parts.path.startswith("oci/") else ""


def git_uri(repository: str, revision: str) -> str:
    """Where source code is, as `git+URL@REVISION`; what is no URL stays as it is."""
    scp = _SCP.match(repository)
    base = f"git+ssh://{scp[1]}/{scp[2]}" if scp else redaction.uri(repository)
    if "://" in base and not base.startswith(("git+", "hg+", "svn+", "bzr+")):
        base = f"git+{base}"
    return f"{base}@{revision}" if base and revision else base or revision


def split_git_uri(uri: str, commit: str) -> tuple[str, str]:
    """Repository and revision of what `git_uri` spells."""
    base = uri.removeprefix("git+")
    if commit and base.endswith(f"@{commit}"):
        return base.removesuffix(f"@{commit}"), commit
    head, at, revision = base.rpartition("@")
    if at and ("://" not in head or head.count("/") > 2):
        return head, commit or revision
    return base, commit
