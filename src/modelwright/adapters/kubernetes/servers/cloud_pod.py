"""The Pod of a Server in the cloud, as an object. It passes the Pod Security Standard *restricted*.

https://kubernetes.io/docs/concepts/security/pod-security-standards/
"""

from __future__ import annotations

import msgspec

from modelwright.adapters.kubernetes.client import JSON
from modelwright.adapters.kubernetes.servers import catalogue, labels
from modelwright.adapters.kubernetes.servers import cloud_parts as parts
from modelwright.adapters.kubernetes.servers.catalogue import Runtime
from modelwright.adapters.kubernetes.servers.cloud_probes import probes, probes_of_port
from modelwright.adapters.kubernetes.servers.node_choice import EDGE_LABEL
from modelwright.adapters.kubernetes.servers.settings import ServerSettings
from modelwright.adapters.kubernetes.workloads import render_pod
from modelwright.ports.errors import Invalid
from modelwright.ports.job import TERMINATION_FILE
from modelwright.ports.serving import (
    DOWNLOAD_SECRET_FOLDER,
    IMAGES_FOLDER,
    MODELS_FOLDER,
    PULL_SECRET_FOLDER,
    RUN_FOLDER,
    TASK_VARIABLE,
    TLS_FOLDER,
    TOKEN_FOLDER,
    ServeTask,
)
from modelwright.ports.workloads import Container, ModelImage, ModelServer, Placement, Resources, Server

FETCH, SERVER = "fetch", "server"
"""The containers."""
PORT_NAME = "serving"
DRAIN_SECONDS = 10
GRACE_SECONDS = 60
"""All of it: closing, draining, and the last requests."""
TMP_FOLDER = "/tmp"  # noqa: S108 - a volume of the Pod's own


def pod_template(server: Server, settings: ServerSettings, *, mounted: bool) -> JSON:
    """The Pod template; `mounted`: models in images are mounted, not fetched. Raises what the catalogue raises, and
    Invalid (TaskTooLarge)."""
    if isinstance(server.program, Container):
        return _template(server, {}, _of_image(server, server.program, settings))
    program = server.program
    if not isinstance(program, ModelServer):
        raise Invalid(f"a {type(program).__name__} is no server of the cloud", reason="NotImplemented")
    runtime = settings.catalogue.runtime(program.framework)
    catalogue.check_secured(server, runtime)
    spec = _of_model(server, program, runtime, settings, mounted=mounted)
    return _template(server, {labels.VERSION: program.default}, spec)


def _template(server: Server, annotations: dict[str, str], spec: JSON) -> JSON:
    shared: JSON = {
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": GRACE_SECONDS,
        **_placed(server.placement),
        "topologySpreadConstraints": [
            {
                "maxSkew": 1,
                "topologyKey": "kubernetes.io/hostname",
                "whenUnsatisfiable": "ScheduleAnyway",
                "labelSelector": {"matchLabels": labels.selector(server)},
                "matchLabelKeys": ["pod-template-hash"],
            }
        ],
    }
    template = {"metadata": {"labels": labels.labels(server), "annotations": annotations}, "spec": {**shared, **spec}}
    annotations[labels.RENDERED] = labels.digest(template)
    return template


def _placed(placement: Placement) -> JSON:
    """Where it is asked to be; else anywhere but on nodes of the edge, which no Service reaches."""
    placed = render_pod.placement(placement)
    if placement.node_name or EDGE_LABEL in placement.node_selector:
        return placed
    terms = {"nodeSelectorTerms": [{"matchExpressions": [{"key": EDGE_LABEL, "operator": "DoesNotExist"}]}]}
    return {**placed, "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}}


# A model ------------------------------------------------------------------------------------------------------------


def _of_model(
    server: Server, program: ModelServer, runtime: Runtime, settings: ServerSettings, *, mounted: bool
) -> JSON:
    images = parts.images(program) if mounted else {}
    pull, download = parts.secrets(program)
    volumes = [
        {"name": "models", "emptyDir": {}},
        {"name": "run", "emptyDir": {}},
        {"name": "tmp", "emptyDir": {}},
        *(parts.image_volume(number, image) for number, image in images.items()),
        *parts.secret_volumes({"pull-secret": pull, "download-secret": download}),
        *parts.guards(server),
    ]
    spec: JSON = {
        "securityContext": {**parts.user(settings), "seccompProfile": {"type": "RuntimeDefault"}},
        "initContainers": [_fetch(server, program, runtime, settings, images)],
        "containers": [_serve(server, program, runtime, settings, images)],
        "volumes": volumes,
    }
    secrets = (*settings.image_pull_secrets, *([pull] if pull and images else []))
    return {**spec, **parts.pull_secrets(secrets)}


def _fetch(
    server: Server, program: ModelServer, runtime: Runtime, settings: ServerSettings, images: dict[int, ModelImage]
) -> JSON:
    pull, download = parts.secrets(program)
    return {
        "name": FETCH,
        "image": settings.agent_image,
        "imagePullPolicy": "IfNotPresent",
        "command": ["modelwright", "agent", "fetch"],
        "env": [
            {"name": TASK_VARIABLE, "value": _task(server, program, runtime, settings, images)},
            {"name": "HOME", "value": TMP_FOLDER},
            {"name": "TMPDIR", "value": TMP_FOLDER},
        ],
        "resources": parts.resources(settings.agent_resources),
        "volumeMounts": [
            {"name": "models", "mountPath": MODELS_FOLDER},
            {"name": "run", "mountPath": RUN_FOLDER},
            {"name": "tmp", "mountPath": TMP_FOLDER},
            *parts.image_mounts(images),
            *parts.secret_mounts({PULL_SECRET_FOLDER: ("pull-secret", pull)}),
            *parts.secret_mounts({DOWNLOAD_SECRET_FOLDER: ("download-secret", download)}),
        ],
        "securityContext": parts.restricted(settings),
        "terminationMessagePolicy": "FallbackToLogsOnError",
    }


def _serve(
    server: Server, program: ModelServer, runtime: Runtime, settings: ServerSettings, images: dict[int, ModelImage]
) -> JSON:
    launch = catalogue.command_of(runtime, model_name=program.model_name, port=server.port)
    wanted = server.resources if server.resources != Resources() else runtime.resources
    container: JSON = {
        "name": SERVER,
        "image": runtime.image,
        "imagePullPolicy": "IfNotPresent",
        "args": [*launch.args, *_ours(server, runtime)],
        "env": [
            {"name": "HOME", "value": TMP_FOLDER},
            {"name": "TMPDIR", "value": TMP_FOLDER},
            *({"name": name, "value": value} for name, value in sorted(launch.env.items())),
        ],
        "ports": [{"name": PORT_NAME, "containerPort": server.port}],
        "resources": parts.resources(wanted),
        "volumeMounts": [
            {"name": "models", "mountPath": MODELS_FOLDER, "readOnly": True},
            {"name": "run", "mountPath": RUN_FOLDER},
            {"name": "tmp", "mountPath": TMP_FOLDER},
            *parts.image_mounts(images),
            *parts.secret_mounts(
                {TOKEN_FOLDER: ("token", server.token_secret), TLS_FOLDER: ("tls", server.tls_secret)}
            ),
        ],
        "securityContext": parts.restricted(settings),
        "lifecycle": parts.closing(),
        "terminationMessagePolicy": "FallbackToLogsOnError",
        **probes(server, program, runtime, settings),
    }
    if launch.command:
        container["command"] = list(launch.command)
    return container


def _ours(server: Server, runtime: Runtime) -> list[str]:
    """What our server is told beside the template."""
    if runtime.layout != "modelwright":
        return []
    told = ["--termination-file", TERMINATION_FILE, "--drain-seconds", str(DRAIN_SECONDS)]
    if server.token_secret:
        told += ["--token-file", f"{TOKEN_FOLDER}/token"]
    if server.tls_secret:
        told += ["--tls-folder", TLS_FOLDER]
    return told


def _task(
    server: Server, program: ModelServer, runtime: Runtime, settings: ServerSettings, images: dict[int, ModelImage]
) -> str:
    """What `agent fetch` is to do. Two dollars are one: Kubernetes expands $(NAME) in values."""
    numbers = {version.version: version.number for version in program.versions if version.number in images}
    task = ServeTask(
        model_name=program.model_name,
        framework=program.framework,
        versions=program.versions,
        default=program.default,
        port=server.port,
        layout=runtime.layout,
        mounted={version: f"{IMAGES_FOLDER}/{number}" for version, number in numbers.items()},
        plain_http=settings.plain_http,
        ready_path=catalogue.ready_path_of(runtime, model_name=program.model_name),
    )
    value = msgspec.json.encode(task).decode()
    if len(value) > render_pod.TASK_LIMIT:
        raise Invalid(
            f"what is to be served takes {len(value)} bytes, and a Pod can be told {render_pod.TASK_LIMIT}: serve "
            "fewer versions",
            reason="TaskTooLarge",
        )
    return value.replace("$", "$$")


# An image -----------------------------------------------------------------------------------------------------------


def _of_image(server: Server, program: Container, settings: ServerSettings) -> JSON:
    """A complete serving image. Whoever has made it says who it runs as: nobody but root is refused."""
    container: JSON = {
        "name": SERVER,
        "image": program.image,
        "env": [{"name": name, "value": value} for name, value in sorted(program.env.items())],
        "ports": [{"name": PORT_NAME, "containerPort": server.port}],
        "resources": parts.resources(server.resources),
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
        "lifecycle": parts.closing(),
        "terminationMessagePolicy": "FallbackToLogsOnError",
        **probes_of_port(settings),
    }
    secrets = (*settings.image_pull_secrets, *([program.pull_secret] if program.pull_secret else []))
    return {
        "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [container],
        **parts.pull_secrets(secrets),
    }


def mountable(server: Server) -> tuple[ModelImage, ...]:
    """The models in images that it serves, which could be mounted."""
    return tuple(parts.images(server.program).values()) if isinstance(server.program, ModelServer) else ()
