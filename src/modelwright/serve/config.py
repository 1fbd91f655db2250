"""The file that says which versions of the model a server process holds."""

from __future__ import annotations

import hashlib
from pathlib import Path

import msgspec

from modelwright.ports.errors import Invalid

DEFAULT_MAX_REQUEST_BYTES = 64 * 1024 * 1024
DEFAULT_MAX_QUEUE = 128


class VersionConfig(msgspec.Struct, frozen=True, rename="camel"):
    """One version to hold.

    `version` is any string, `number` what TensorFlow Serving's REST shows for it,
    `path` the folder (or single file) that holds the model.
    """

    version: str
    number: int
    path: str
    labels: tuple[str, ...] = ()


class ServerConfig(msgspec.Struct, frozen=True, rename="camel"):
    """What a server process should serve; unknown fields are ignored, so that a newer control plane can write it.

    `threads` is the framework's threads for one request (0: one), `max_request_bytes` the longest body,
    `max_queue` how many requests may wait for a free thread before others are refused with 503.
    """

    model_name: str
    framework_type: str
    versions: tuple[VersionConfig, ...]
    default_version: str
    threads: int = 0
    max_request_bytes: int = DEFAULT_MAX_REQUEST_BYTES
    max_queue: int = DEFAULT_MAX_QUEUE


def parse(content: bytes, origin: str) -> ServerConfig:
    """Decode and check a configuration; raises Invalid (ConfigInvalid) that names `origin`."""
    try:
        config = msgspec.json.decode(content, type=ServerConfig)
    except msgspec.DecodeError as error:
        raise Invalid(f"the server configuration {origin} cannot be read: {error}", reason="ConfigInvalid") from error
    fault = _fault(config)
    if fault:
        raise Invalid(f"the server configuration {origin} is wrong: {fault}", reason="ConfigInvalid")
    return config


def read(path: Path) -> tuple[ServerConfig, str]:
    """The configuration in the file and the SHA-256 of the file's bytes, in hex; raises Invalid (ConfigInvalid)."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise Invalid(f"the server configuration {path} cannot be read: {error}", reason="ConfigInvalid") from error
    return parse(content, str(path)), hashlib.sha256(content).hexdigest()


def _fault(config: ServerConfig) -> str:
    names = [version.version for version in config.versions]
    numbers = [version.number for version in config.versions]
    labels = [label for version in config.versions for label in version.labels]
    checks = (
        (not config.model_name or "/" in config.model_name, "modelName must be a name without '/'"),
        (not names, "versions is empty; list at least one version"),
        ("" in names, "a version has an empty name"),
        (len(set(names)) < len(names), "a version is listed twice"),
        (len(set(numbers)) < len(numbers), "two versions have the same number"),
        (any(number < 0 for number in numbers), "a number is negative"),
        (len(set(labels)) < len(labels), "a label is on two versions"),
        (config.default_version not in names, f"defaultVersion {config.default_version!r} is not listed in versions"),
        (config.threads < 0, "threads is negative"),
        (config.max_request_bytes < 1, "maxRequestBytes must be at least 1"),
        (config.max_queue < 0, "maxQueue is negative"),
    )
    return next((message for wrong, message in checks if wrong), "")
