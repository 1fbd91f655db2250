"""A gateway as its Pod: one container, which is told whom to ask by an annotation that may change while it runs."""

from __future__ import annotations

from pathlib import PurePosixPath

import msgspec

from modelwright.adapters.kubernetes.client import JSON
from modelwright.adapters.kubernetes.servers import edge_pod as pod
from modelwright.adapters.kubernetes.servers.edge_pod import Rendered, edge_pod
from modelwright.adapters.kubernetes.servers.labels import GATEWAY
from modelwright.adapters.kubernetes.servers.settings import ServerSettings
from modelwright.ports.errors import Invalid
from modelwright.ports.serving import GATEWAY_ANNOTATION, GATEWAY_FILE
from modelwright.ports.workloads import Gateway, Resources, Server, Upstream

CONTAINER = "gateway"
KEPT_FOLDER = "/var/lib/modelwright/kept"
SECRETS_FOLDER = "/var/run/modelwright"
TOKEN_KEYS = ("token",)
TRUST_KEYS = ("ca.crt", "tls.crt")
"""Of a Secret with a certificate; its key is none of the gateway's business."""


class _Model(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """`gateway.config.ModelConfig`."""

    url: str = ""
    token_file: str = ""
    ca_file: str = ""


class _Config(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """`gateway.config.GatewayConfig`."""

    name: str
    edge: _Model
    cloud: _Model
    policy: str
    parameters: dict[str, float]
    timeout_seconds: float
    keep_folder: str
    keep_max_bytes: int


def render(server: Server, node: str, settings: ServerSettings) -> Rendered:
    """The Pod."""
    program = server.program
    if not isinstance(program, Gateway):
        raise Invalid("this is no gateway")
    secrets = _secrets(program)
    volumes = [
        pod.scratch("scratch"),
        pod.annotation_file("config", GATEWAY_ANNOTATION, PurePosixPath(GATEWAY_FILE).name),
        *(pod.secret(name, each, keys) for name, (each, keys) in secrets.items()),
    ]
    if program.kept is not None:
        volumes.append(pod.node_folder("kept", kept_path(program, settings)))
    container = _container(server, program, settings, list(secrets))
    told = {GATEWAY_ANNOTATION: config_of(program)}
    return edge_pod(server, node, settings, [container], volumes, told=told, component=GATEWAY)


def kept_path(program: Gateway, settings: ServerSettings) -> str:
    """Where on its node it keeps hard rows; empty if it keeps none."""
    kept = program.kept
    return str(PurePosixPath(settings.edge_folder, "kept", kept.name)) if kept is not None else ""


def config_of(program: Gateway) -> str:
    """What it is told, as it stands in the annotation."""
    config = _Config(
        name=program.name,
        edge=_model("edge", program.edge_url, program.edge),
        cloud=_model("cloud", program.cloud_url, program.cloud),
        policy=program.policy,
        parameters=program.parameters,
        timeout_seconds=program.timeout_seconds,
        keep_folder=KEPT_FOLDER if program.kept is not None else "",
        keep_max_bytes=program.keep_max_bytes,
    )
    return msgspec.json.encode(config, order="deterministic").decode()


def _model(side: str, url: str, upstream: Upstream) -> _Model:
    return _Model(
        url=url,
        token_file=f"{SECRETS_FOLDER}/{side}-token/token" if upstream.token_secret else "",
        ca_file=f"{SECRETS_FOLDER}/{side}-tls" if upstream.tls_secret else "",
    )


def _secrets(program: Gateway) -> dict[str, tuple[str, tuple[str, ...]]]:
    """What it needs to ask the models: Secret and keys, by volume."""
    found: dict[str, tuple[str, tuple[str, ...]]] = {}
    for side, upstream in (("edge", program.edge), ("cloud", program.cloud)):
        found[f"{side}-token"] = upstream.token_secret, TOKEN_KEYS
        found[f"{side}-tls"] = upstream.tls_secret, TRUST_KEYS
    return {name: each for name, each in found.items() if each[0]}


def _container(server: Server, program: Gateway, settings: ServerSettings, secrets: list[str]) -> JSON:
    keeps = program.kept is not None
    mounts = [
        pod.mount("scratch", pod.SCRATCH_FOLDER, read_only=False),
        pod.mount("config", str(PurePosixPath(GATEWAY_FILE).parent)),
        *(pod.mount(name, f"{SECRETS_FOLDER}/{name}") for name in secrets),
        *([pod.mount("kept", KEPT_FOLDER, read_only=False)] if keeps else []),
    ]
    port = str(server.port)
    return {
        "name": CONTAINER,
        "image": settings.gateway_image,
        "imagePullPolicy": "IfNotPresent",
        "command": ["modelwright", "gateway"],
        "args": [
            *("--config", GATEWAY_FILE, "--host", "::", "--port", port),
            *("--report", "--stay", "--termination-file", pod.TERMINATION_FILE),
        ],
        "env": pod.environment({}),
        "ports": pod.port_of(server),
        "resources": pod.resources(server.resources if server.resources != Resources() else settings.gateway_resources),
        "volumeMounts": mounts,
        "readinessProbe": pod.http_probe("/v2/health/ready", server, period=1, failures=2),
        "livenessProbe": pod.http_probe("/v2/health/live", server, period=10, failures=6),
        "securityContext": pod.root_without_rights() if keeps else pod.not_root(settings),
        "terminationMessagePolicy": "FallbackToLogsOnError",
    }
