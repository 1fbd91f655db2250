"""A model at the edge as its Pod: the agent that keeps models on the node, and beside it the server."""

from __future__ import annotations

from pathlib import PurePosixPath

import msgspec

from modelwright.adapters.kubernetes.client import JSON
from modelwright.adapters.kubernetes.servers import edge_pod as pod
from modelwright.adapters.kubernetes.servers.catalogue import (
    Runtime,
    check_secured,
    command_of,
    live_path_of,
    ready_path_of,
)
from modelwright.adapters.kubernetes.servers.edge_pod import Rendered, edge_pod
from modelwright.adapters.kubernetes.servers.settings import ServerSettings
from modelwright.ports.errors import Invalid
from modelwright.ports.serving import (
    DOWNLOAD_SECRET_FOLDER,
    MODELS_FOLDER,
    PULL_SECRET_FOLDER,
    RUN_FOLDER,
    TASK_ANNOTATION,
    TASK_FILE,
    TLS_FOLDER,
    TOKEN_FOLDER,
    ServeTask,
)
from modelwright.ports.workloads import Container, Download, ModelImage, ModelServer, Resources, Server

KEEPER, SERVER = "keeper", "server"
TASK_LIMIT = 200 << 10
"""Bytes: all annotations of an object together may have 256 KiB."""
_VERSION_OF_PATH = "/versions/$(VERSION)"


def render(server: Server, node: str, settings: ServerSettings) -> Rendered:
    """The Pod. Raises Invalid (TaskTooLarge), and what the catalogue raises."""
    program = server.program
    if isinstance(program, ModelServer):
        return _model(server, program, node, settings)
    if isinstance(program, Container):
        return edge_pod(server, node, settings, [_image(server, program)], [])
    raise Invalid("a server at the edge is a model or a serving image")


def models_folder(settings: ServerSettings, namespace: str, owner_uid: str = "") -> str:
    """Where on a node the models of an owner are, or of all owners in a namespace."""
    return str(PurePosixPath(settings.edge_folder, "models", namespace, owner_uid))


def task_of(server: Server, program: ModelServer, runtime: Runtime, settings: ServerSettings) -> str:
    """What the agent is told, as it stands in the annotation. Raises Invalid (TaskTooLarge)."""
    task = ServeTask(
        model_name=program.model_name,
        framework=program.framework,
        versions=program.versions,
        default=program.default,
        port=server.port,
        layout=runtime.layout,
        plain_http=settings.plain_http,
        ready_path=ready_path_of(runtime, model_name=program.model_name),
    )
    text = msgspec.json.encode(task).decode()
    if len(text.encode()) > TASK_LIMIT:
        raise Invalid(
            f"what the Pod is told takes {len(text)} bytes, and {TASK_LIMIT} is the most: give shorter URLs",
            reason="TaskTooLarge",
        )
    return text


def _model(server: Server, program: ModelServer, node: str, settings: ServerSettings) -> Rendered:
    runtime = settings.catalogue.runtime(program.framework)
    check_secured(server, runtime)
    owner = server.owner
    secrets = _secrets(program)
    volumes = [
        pod.node_folder("models", models_folder(settings, owner.namespace, owner.uid)),
        pod.scratch("run"),
        pod.scratch("scratch"),
        pod.annotation_file("task", TASK_ANNOTATION, PurePosixPath(TASK_FILE).name),
        *(pod.secret(name, each) for name, (each, _) in secrets.items()),
        *_guards(server),
    ]
    containers = [_keeper(settings, secrets), _server(server, program, runtime, settings)]
    told = {TASK_ANNOTATION: task_of(server, program, runtime, settings)}
    return edge_pod(server, node, settings, containers, volumes, told=told, keeps=True)


def _secrets(program: ModelServer) -> dict[str, tuple[str, str]]:
    """The Secrets that the agent needs, by volume: which one, and where it is mounted."""
    sources = [version.source for version in program.versions]
    pull = next((each.pull_secret for each in sources if isinstance(each, ModelImage) and each.pull_secret), "")
    download = next((each.secret for each in sources if isinstance(each, Download) and each.secret), "")
    found = {"pull-secret": (pull, PULL_SECRET_FOLDER), "download-secret": (download, DOWNLOAD_SECRET_FOLDER)}
    return {name: each for name, each in found.items() if each[0]}


def _keeper(settings: ServerSettings, secrets: dict[str, tuple[str, str]]) -> JSON:
    return {
        "name": KEEPER,
        "image": settings.agent_image,
        "imagePullPolicy": "IfNotPresent",
        "command": ["modelwright", "agent", "keep"],
        "env": pod.environment({}),
        "resources": pod.resources(settings.agent_resources),
        "volumeMounts": [
            pod.mount("models", MODELS_FOLDER, read_only=False),
            pod.mount("run", RUN_FOLDER, read_only=False),
            pod.mount("scratch", pod.SCRATCH_FOLDER, read_only=False),
            pod.mount("task", str(PurePosixPath(TASK_FILE).parent)),
            *(pod.mount(name, path) for name, (_, path) in secrets.items()),
        ],
        "securityContext": pod.root_without_rights(),
        "terminationMessagePolicy": "FallbackToLogsOnError",
    }


def _server(server: Server, program: ModelServer, runtime: Runtime, settings: ServerSettings) -> JSON:
    launch = command_of(runtime, model_name=program.model_name, port=server.port)
    ours = runtime.layout == "modelwright"
    own = [*_options(server), "--stay", "--termination-file", pod.TERMINATION_FILE] if ours else []
    wanted = server.resources if server.resources != Resources() else runtime.resources
    mounts = [
        pod.mount("models", MODELS_FOLDER),
        pod.mount("run", RUN_FOLDER, read_only=not ours),
        pod.mount("scratch", pod.SCRATCH_FOLDER, read_only=False),
        *(pod.mount(name, path) for name, (each, path) in _guard_places(server).items() if each),
    ]
    return {
        "name": SERVER,
        "image": runtime.image,
        "imagePullPolicy": "IfNotPresent",
        **({"command": list(launch.command)} if launch.command else {}),
        "args": [*launch.args, *own],
        "env": pod.environment(launch.env),
        "ports": pod.port_of(server),
        "resources": pod.resources(wanted),
        "volumeMounts": mounts,
        **_probes(server, program, runtime),
        "securityContext": pod.not_root(settings),
        "terminationMessagePolicy": "FallbackToLogsOnError",
    }


def _probes(server: Server, program: ModelServer, runtime: Runtime) -> JSON:
    """Ready is asked often, since nothing else tells that a model is loaded. A server of somebody else's may listen
    late, after a long load: it is not ended for that."""
    name = program.model_name
    # The version changes while the Pod stays: without its number, such a path is about the version by default.
    steady = msgspec.structs.replace(runtime, ready_path=runtime.ready_path.replace(_VERSION_OF_PATH, ""))
    path = ready_path_of(steady, model_name=name)
    usable = path and "$(" not in path
    ready = (
        pod.http_probe(path, server, period=1, failures=2) if usable else pod.tcp_probe(server, period=1, failures=2)
    )
    if not runtime.live_path:
        return {"readinessProbe": ready}
    if server.tls_secret:  # while its certificate is missing it waits, and is not to be ended for that
        return {"readinessProbe": ready, "livenessProbe": pod.tcp_probe(server, period=10, failures=6)}
    live_path = live_path_of(runtime, model_name=name)
    return {"readinessProbe": ready, "livenessProbe": pod.http_probe(live_path, server, period=10, failures=6)}


def _options(server: Server) -> list[str]:
    """What guards the port."""
    token = ["--token-file", f"{TOKEN_FOLDER}/token"] if server.token_secret else []
    return [*token, *(["--tls-folder", TLS_FOLDER] if server.tls_secret else [])]


def _guard_places(server: Server) -> dict[str, tuple[str, str]]:
    return {"token": (server.token_secret, TOKEN_FOLDER), "tls": (server.tls_secret, TLS_FOLDER)}


def _guards(server: Server) -> list[JSON]:
    return [pod.secret(name, each) for name, (each, _) in _guard_places(server).items() if each]


def _image(server: Server, program: Container) -> JSON:
    """A user's image as it is: who it runs as is for the image to say."""
    return {
        "name": SERVER,
        "image": program.image,
        "imagePullPolicy": "IfNotPresent",
        "env": [{"name": name, "value": value} for name, value in program.env.items()],
        "ports": pod.port_of(server),
        "resources": pod.resources(server.resources),
        "readinessProbe": pod.tcp_probe(server, period=1, failures=2),
        "securityContext": {"allowPrivilegeEscalation": False},
        "terminationMessagePolicy": "FallbackToLogsOnError",
    }
