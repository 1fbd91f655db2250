"""The file that says which models a gateway joins, and how."""

from __future__ import annotations

import hashlib
from pathlib import Path

import msgspec

from modelwright.gateway import policies
from modelwright.gateway.address import parse_url
from modelwright.ports.errors import Invalid

DEFAULT_MAX_REQUEST_BYTES = 64 * 1024 * 1024
LONGEST_TIMEOUT = 600.0


class ModelConfig(msgspec.Struct, frozen=True, rename="camel"):
    """One of the two models; `url` is `http[s]://HOST:PORT/v1/models/NAME`, empty while it is not known.

    `token_file` holds the bearer token that it asks for, in its first line. `ca_file` has whom to trust (PEM, or a
    folder with `ca.crt` or `tls.crt`), empty: the system's authorities. `server_name` is the name in its certificate,
    empty: the URL's host, or a name in the folder's `tls.crt`, where that is for others only. The files are read again
    when they change.
    """

    url: str = ""
    token_file: str = ""
    ca_file: str = ""
    server_name: str = ""


class GatewayConfig(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """What a gateway does; unknown fields are ignored, so that a newer control plane can write it.

    `timeout_seconds` is how long the edge model may take, and how long the cloud model is waited for before the edge
    model's answer is given. `scores` names the edge model's output that holds its scores, empty: the gateway finds it.
    Hard examples are kept in `keep_folder` (empty: they are not kept), `keep_max_bytes` of them.
    """

    name: str
    edge: ModelConfig = ModelConfig()
    cloud: ModelConfig = ModelConfig()
    policy: str = "confidence"
    parameters: dict[str, float] = {}
    timeout_seconds: float = 2.0
    scores: str = ""
    keep_folder: str = ""
    keep_max_bytes: int = 0
    max_request_bytes: int = DEFAULT_MAX_REQUEST_BYTES


def parse(content: bytes, origin: str) -> GatewayConfig:
    """Decode and check a configuration; raises Invalid (ConfigInvalid) that names `origin`."""
    try:
        config = msgspec.json.decode(content, type=GatewayConfig)
    except (msgspec.DecodeError, RecursionError) as error:
        raise Invalid(f"the gateway configuration {origin} cannot be read: {error}", reason="ConfigInvalid") from error
    try:
        check(config)
    except Invalid as error:
        message = f"the gateway configuration {origin} is wrong: {error.message}"
        raise Invalid(message, reason="ConfigInvalid") from error
    return config


def read(path: Path) -> tuple[GatewayConfig, str]:
    """The configuration in the file and the SHA-256 of the file's bytes, in hex; raises Invalid (ConfigInvalid)."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise Invalid(f"the gateway configuration {path} cannot be read: {error}", reason="ConfigInvalid") from error
    return parse(content, str(path)), hashlib.sha256(content).hexdigest()


def check(config: GatewayConfig) -> None:
    """Raises Invalid (ConfigInvalid) for values that make no sense."""
    keeps = bool(config.keep_folder)
    checks = (
        (not config.name or "/" in config.name, "name must be a name without '/'"),
        (not 0 < config.timeout_seconds <= LONGEST_TIMEOUT, "timeoutSeconds must be above 0, up to 600"),
        (keeps and config.keep_max_bytes < 1, "keepMaxBytes must be at least 1 where there is a keepFolder"),
        (config.max_request_bytes < 1, "maxRequestBytes must be at least 1"),
    )
    fault = next((message for wrong, message in checks if wrong), "")
    if fault:
        raise Invalid(fault, reason="ConfigInvalid")
    for model in (config.edge, config.cloud):
        if model.url:
            parse_url(model.url)
    policies.make(config.policy, config.parameters)
