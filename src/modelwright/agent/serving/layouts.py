"""Telling a server its models, in the way that it wants to be told. Everything is replaced in one step.

modelwright   CONFIG_FILE: our server's configuration, which it watches.
tensorflow    MODELS_CONFIG_FILE: a ModelServerConfig as protobuf text, with the wanted versions and the label `stable`.
              TensorFlow Serving wants a folder for each version, named by its number: they are links in
              RUN_FOLDER/tensorflow. It finds versions by the names in the folder, and opens them as any path, so that
              links do. (tensorflow_serving/config/model_server_config.proto, sources/storage_path.)
plain         PLAIN_FOLDER: a link to the default version, or to the one folder that it consists of. Who follows it
              once, at its start, goes on with the former version until it is started anew.
"""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

import msgspec

from modelwright.agent.serving.choice import STABLE, Choice, Listed
from modelwright.agent.serving.places import Places
from modelwright.oci.disk import disk_errors
from modelwright.ports.serving import Layout

_PLAIN = re.compile(r"[ !#-\[\]-~]")
_NUMBER = re.compile(r"[0-9]{1,18}")
_SAVED_MODEL = "saved_model.pb"


class VersionConfig(msgspec.Struct, frozen=True, rename="camel"):
    version: str
    number: int
    path: str
    labels: tuple[str, ...] = ()


class ServerConfig(msgspec.Struct, frozen=True, rename="camel"):
    """The file given to our server by --config (`serve.config` is the other side)."""

    model_name: str
    framework_type: str
    versions: tuple[VersionConfig, ...]
    default_version: str
    threads: int = 0


def write(layout: Layout, choice: Choice, places: Places) -> str:
    """Tell the server. Returns the SHA-256 (hex) of what it was told. Raises OSError, Unavailable (DiskFull)."""
    with disk_errors():
        if layout == "plain":
            default = choice.find(choice.default)
            return _link(places.plain, str(only_folder(Path(default.path))) if default else "")
        if layout == "tensorflow":
            folder = places.run / "tensorflow"
            folder.mkdir(mode=0o755, exist_ok=True)
            for version in choice.versions:
                _link(folder / str(version.number), str(saved_model(Path(version.path))))
            return _replace(places.models_config, models_config(choice, folder).encode())
        return _replace(places.config, server_config(choice))


def server_config(choice: Choice) -> bytes:
    """The configuration of our server."""
    return msgspec.json.encode(
        ServerConfig(
            model_name=choice.model_name,
            framework_type=choice.framework,
            versions=tuple(_version_config(version, choice) for version in choice.versions),
            default_version=choice.default,
            threads=choice.threads,
        )
    )


def models_config(choice: Choice, folder: Path) -> str:
    """The configuration of TensorFlow Serving; `folder` has an entry for each version, by number."""
    numbers = sorted(version.number for version in choice.versions)
    stable = choice.find(choice.stable)
    lines = [
        "model_config_list {",
        "  config {",
        f"    name: {_quoted(choice.model_name)}",
        f"    base_path: {_quoted(str(folder))}",
        '    model_platform: "tensorflow"',
        "    model_version_policy {",
        "      specific {",
        *(f"        versions: {number}" for number in numbers),
        "      }",
        "    }",
        *([f'    version_labels {{ key: "{STABLE}" value: {stable.number} }}'] if stable else []),
        "  }",
        "}",
    ]
    return "\n".join(lines) + "\n"


def forget_links(choice: Choice, places: Places) -> None:
    """Remove the links of versions that TensorFlow Serving has left behind."""
    kept = {str(version.number) for version in choice.versions}
    folder = places.run / "tensorflow"
    for entry in list(folder.iterdir()) if folder.is_dir() else []:
        if entry.is_symlink() and entry.name not in kept:
            entry.unlink()


def saved_model(path: Path) -> Path:
    """The folder with the SavedModel: this one, or the one top folder in it, or of numbered ones the highest.

    As it is if there is none: who loads it says so.
    """
    found = path
    for _ in range(3):
        if (found / _SAVED_MODEL).is_file():
            return found
        inner = _inner(found)
        if inner is None:
            break
        found = inner
    return path


def only_folder(path: Path) -> Path:
    """The one top folder in it where there is nothing else, else itself: archives are packed in both ways."""
    try:
        entries = _visible(path)
    except OSError:
        return path
    return entries[0] if len(entries) == 1 and _is_folder(entries[0]) else path


def _visible(path: Path) -> list[Path]:
    return [entry for entry in path.iterdir() if not entry.name.startswith(".")]


def _inner(path: Path) -> Path | None:
    try:
        folders = [entry for entry in _visible(path) if _is_folder(entry)]
    except OSError:
        return None
    numbered = [folder for folder in folders if _NUMBER.fullmatch(folder.name)]
    if len(folders) == 1:
        return folders[0]
    return max(numbered, key=lambda folder: (int(folder.name), folder.name), default=None)


def _is_folder(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink()


def _version_config(listed: Listed, choice: Choice) -> VersionConfig:
    labels = (STABLE,) if listed.version == choice.stable else ()
    return VersionConfig(listed.version, listed.number, listed.path, labels)


def _replace(path: Path, content: bytes) -> str:
    fresh = path.with_name(f".{path.name}.new")
    fresh.write_bytes(content)
    fresh.chmod(0o644)
    fresh.replace(path)
    return hashlib.sha256(content).hexdigest()


def _link(path: Path, target: str) -> str:
    if not (path.is_symlink() and path.readlink() == Path(target)):
        fresh = path.with_name(f".{path.name}.new")
        fresh.unlink(missing_ok=True)
        fresh.symlink_to(target)
        fresh.replace(path)
    return hashlib.sha256(target.encode()).hexdigest()


def _quoted(text: str) -> str:
    """A string of protobuf's text format, bytes outside of ASCII as octal escapes."""
    data = text.encode("utf-8", "surrogateescape")
    return '"' + "".join(chr(byte) if _PLAIN.match(chr(byte)) else f"\\{byte:03o}" for byte in data) + '"'
