"""The part of the image that comes from Debian: packages resolved and checked by apt, unpacked, and not run.

apt works in a folder of its own, so that neither root nor the architecture of this machine matters. Mirrors, proxies
and keys are those that this machine is configured with.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

RELEASE = "bookworm"
PYTHON = "3.11"
SUITES = {RELEASE, f"{RELEASE}-updates", f"{RELEASE}-security"}
# The C++ library is what frameworks need; it is in every image, so that all have the same base.
PACKAGES = ("base-files", "ca-certificates", "libstdc++6", "netbase", f"python{PYTHON}")
# What only maintainer scripts would use.
LEFT_OUT = {
    "debconf",
    "dpkg",
    "libacl1",
    "libmd0",
    "libpcre2-8-0",
    "libselinux1",
    "libzstd1",
    "mawk",
    "openssl",
    "original-awk",
    "readline-common",
    "tar",
}
MERGED = ("bin", "lib", "lib64", "sbin")
# What stays of /usr/share; licences are among the documents.
SHARED = {"ca-certificates", "common-licenses", "doc"}
USELESS = (
    "etc/update-motd.d",
    f"usr/lib/python{PYTHON}/ensurepip",
    f"usr/lib/python{PYTHON}/lib2to3",
    f"usr/lib/python{PYTHON}/pydoc_data",
    f"usr/lib/python{PYTHON}/test",
    "usr/lib/mime",
    "usr/lib/valgrind",
    "usr/sbin",
    "var/backups",
    "var/cache",
    "var/spool",
)


def unpack(root: Path, architecture: str, work: Path, sources: Path | None) -> None:
    """Fill the empty folder `root`. What is in it stands in /var/lib/dpkg/status.d, where scanners look for it."""
    for name in MERGED:
        (root / "usr" / name).mkdir(parents=True)
        (root / name).symlink_to(f"usr/{name}")
    status = root / "var/lib/dpkg/status.d"
    status.mkdir(parents=True)
    for package in _download(architecture, work, sources):
        name = package.name.partition("_")[0]
        if name not in LEFT_OUT:
            _extract(package, root)
            (status / name).write_bytes(_run("dpkg-deb", "--field", str(package)))
    _prune(root)
    _trust(root)


def _download(architecture: str, work: Path, sources: Path | None) -> list[Path]:
    """The packages and all that they depend on, by name, each checked by apt against the archive's signature."""
    state = work / f"apt-{architecture}"
    for folder in ("lists/partial", "archives/partial"):
        (state / folder).mkdir(parents=True)
    (state / "status").touch()
    (state / "debian.sources").write_text(sources.read_text() if sources else machine_sources())
    options = {
        "Acquire::IndexTargets::deb::DEP-11::DefaultEnabled": "false",
        "Acquire::Languages": "none",
        "APT::Architecture": architecture,
        "APT::Architectures": architecture,
        "APT::Install-Recommends": "false",
        "APT::Sandbox::User": "",
        "Debug::NoLocking": "true",
        "Dir::Cache": str(state),
        "Dir::Cache::archives": str(state / "archives"),
        "Dir::Etc::sourcelist": str(state / "debian.sources"),
        "Dir::Etc::sourceparts": "/dev/null",
        "Dir::State": str(state),
        "Dir::State::lists": str(state / "lists"),
        "Dir::State::status": str(state / "status"),
    }
    apt = ["apt-get", "-qq", *(part for name, value in options.items() for part in ("-o", f"{name}={value}"))]
    subprocess.run([*apt, "update"], check=True, stdout=sys.stderr)
    subprocess.run([*apt, "--yes", "--download-only", "install", *PACKAGES], check=True, stdout=sys.stderr)
    return sorted((state / "archives").glob("*.deb"))


def machine_sources(folder: Path = Path("/etc/apt")) -> str:
    """This machine's apt sources for the release, in the deb822 style. Exits with advice where it has none."""
    stanzas = []
    for file in sorted(folder.glob("sources.list.d/*.sources")):
        stanzas += [kept for text in re.split(r"\n\s*\n", file.read_text()) if (kept := _stanza(text))]
    for file in (folder / "sources.list", *sorted(folder.glob("sources.list.d/*.list"))):
        lines = file.read_text().splitlines() if file.is_file() else []
        stanzas += [kept for line in lines if (kept := _from_line(line))]
    if not stanzas:
        raise SystemExit(f"image: this machine has no apt sources for Debian {RELEASE}: give some with --apt-sources")
    return "\n\n".join(stanzas) + "\n"


def _stanza(text: str) -> str:
    """A stanza without its comments and its choice of architectures; empty if it is for other suites."""
    lines = [line for line in text.strip().splitlines() if not line.startswith(("#", "Architectures:"))]
    fields = {key.lower(): value.split() for key, _, value in (line.partition(":") for line in lines)}
    suites, types = fields.get("suites", []), fields.get("types", [])
    disabled = fields.get("enabled") == ["no"]
    return "\n".join(lines) if suites and SUITES.issuperset(suites) and "deb" in types and not disabled else ""


def _from_line(line: str) -> str:
    """The one-line style as a stanza; empty if it is something else, or for another suite."""
    found = re.match(r"deb\s+(?:\[(?P<options>[^]]*)\]\s+)?(?P<uri>\S+)\s+(?P<suite>\S+)\s+(?P<components>[^#]+)", line)
    if not found or found["suite"] not in SUITES:
        return ""
    signed = re.search(r"signed-by=(\S+)", found["options"] or "")
    fields = {"Types": "deb", "URIs": found["uri"], "Suites": found["suite"], "Components": found["components"].strip()}
    if signed:
        fields["Signed-By"] = signed[1]
    return "\n".join(f"{name}: {value}" for name, value in fields.items())


def _extract(package: Path, root: Path) -> None:
    """Unpack one package; /lib and its like stay links into /usr."""
    archive = subprocess.Popen(["dpkg-deb", "--fsys-tarfile", str(package)], stdout=subprocess.PIPE)
    tar = ["tar", "-x", "-C", str(root), "--keep-directory-symlink", "--no-same-owner", "--no-same-permissions"]
    with archive:
        subprocess.run(tar, stdin=archive.stdout, check=True)
    if archive.returncode:
        raise SystemExit(f"image: {package.name} cannot be unpacked")


def _prune(root: Path) -> None:
    for useless in USELESS:
        shutil.rmtree(root / useless, ignore_errors=True)
    for gconv in root.glob("usr/lib/*/gconv"):  # Python brings its own encodings
        shutil.rmtree(gconv)
    for path in (root / "usr/share").iterdir():
        if path.name not in SHARED:
            shutil.rmtree(path)
    for path in (root / "usr/share/doc").rglob("*"):
        if path.is_file() and path.name != "copyright":
            path.unlink()
    for path in root.rglob("*"):  # links to what was taken away, or to what a maintainer script would have made
        if path.is_symlink() and not path.exists() and not str(path.readlink()).startswith("/"):
            path.unlink()


def _trust(root: Path) -> None:
    """The bundle of authorities that ca-certificates' maintainer script would have made."""
    authorities = sorted((root / "usr/share/ca-certificates").rglob("*.crt"))
    bundle = root / "etc/ssl/certs/ca-certificates.crt"
    bundle.parent.mkdir(parents=True, exist_ok=True)
    bundle.write_text("".join(authority.read_text().rstrip("\n") + "\n" for authority in authorities))
    shutil.rmtree(root / "usr/share/ca-certificates")


def _run(*command: str) -> bytes:
    return subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout
