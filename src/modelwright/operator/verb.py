"""`modelwright operator`: the operator of a cluster, in the foreground."""

from __future__ import annotations

import logging
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

if TYPE_CHECKING:
    from modelwright.operator.settings import OperatorSettings

T = TypeVar("T")
CLUSTER, BUILDS, STORAGE, ELECTION, PROCESS = "Cluster", "Builds", "Storage", "Leader election", "Process"
SERVING = "Serving"


class LogFormat(StrEnum):
    """How lines of the log are written."""

    TEXT = "text"
    JSON = "json"


class TensorflowServer(StrEnum):
    """What serves TensorFlow models."""

    TENSORFLOW_SERVING = "tensorflow-serving"
    MODELWRIGHT = "modelwright"


class LogLevel(StrEnum):
    """What is logged."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("operator")(operator)


def option(name: str, panel: str, help_: str, metavar: str | None = None, **more: Any) -> Any:
    """An option `--some-thing` that can also be given as MODELWRIGHT_SOME_THING."""
    variable = "MODELWRIGHT_" + name.partition("/")[0].lstrip("-").upper().replace("-", "_")
    return typer.Option(
        name,
        envvar=variable,
        help=help_,
        metavar=metavar,
        rich_help_panel=panel,
        show_default=False,
        show_envvar=False,
        **more,
    )


def operator(
    agent_image: Annotated[
        str, option("--agent-image", BUILDS, "Image of the build agent: the operator's own.", "IMAGE")
    ],
    kubeconfig: Annotated[
        Path | None, option("--kubeconfig", CLUSTER, "Kubeconfig; by default the service account of the Pod.", "FILE")
    ] = None,
    context: Annotated[str, option("--context", CLUSTER, "Context of the kubeconfig.", "NAME")] = "",
    registry: Annotated[
        str, option("--registry", BUILDS, "Registry of an imageRepo without a host.", "HOST[:PORT][/PREFIX]")
    ] = "",
    plain_http: Annotated[
        list[str] | None, option("--plain-http", BUILDS, "Registries to speak to without TLS.", "HOST[:PORT],...")
    ] = None,
    kaniko_image: Annotated[
        str, option("--kaniko-image", BUILDS, "Image of Kaniko's executor; by default a maintained fork's.", "IMAGE")
    ] = "",
    image_pull_secret: Annotated[
        list[str] | None,
        option("--image-pull-secret", BUILDS, "Secrets of a ModelVersion's namespace to pull these with.", "NAME,..."),
    ] = None,
    run_as_user: Annotated[
        int, option("--run-as-user", BUILDS, "User that reads the model (65532).", "UID", min=1, max=2**31 - 1)
    ] = 65532,
    run_as_group: Annotated[
        int, option("--run-as-group", BUILDS, "Group that reads the model (65532).", "GID", min=1, max=2**31 - 1)
    ] = 65532,
    build_requests: Annotated[
        str | None, option("--build-requests", BUILDS, "What a build sets aside.", "cpu=100m,memory=128Mi")
    ] = None,
    build_limits: Annotated[str | None, option("--build-limits", BUILDS, "What a build may use.", "memory=1Gi")] = None,
    create_volumes: Annotated[
        bool,
        option("--create-volumes/--no-create-volumes", STORAGE, "Make PersistentVolumes for builds; else only claims."),
    ] = True,
    allow_host_path: Annotated[
        list[str] | None,
        option(
            "--allow-host-path", STORAGE, "The only folders of nodes to build from (any but the system's).", "PATH,..."
        ),
    ] = None,
    allow_nfs_server: Annotated[
        list[str] | None,
        option("--allow-nfs-server", STORAGE, "The only NFS servers to build from (any).", "HOST,..."),
    ] = None,
    serving: Annotated[
        bool, option("--serving/--no-serving", SERVING, "Serve models; without, the operator only builds images.")
    ] = True,
    gateway_image: Annotated[str, option("--gateway-image", SERVING, "Image of the gateway.", "IMAGE")] = "",
    onnx_image: Annotated[str, option("--onnx-image", SERVING, "Image of the server for onnx.", "IMAGE")] = "",
    sklearn_image: Annotated[str, option("--sklearn-image", SERVING, "Image of the server for sklearn.", "IMAGE")] = "",
    tensorflow_image: Annotated[
        str, option("--tensorflow-image", SERVING, "Image of the server for tensorflow.", "IMAGE")
    ] = "",
    tensorflow_server: Annotated[
        TensorflowServer, option("--tensorflow-server", SERVING, "Which server that is (tensorflow-serving).")
    ] = TensorflowServer.TENSORFLOW_SERVING,
    runtimes: Annotated[
        Path | None,
        option("--runtimes", SERVING, "Folder with an admin's own runtimes (/etc/modelwright/runtimes).", "FOLDER"),
    ] = None,
    server_pull_secret: Annotated[
        list[str] | None,
        option("--server-pull-secret", SERVING, "Secrets of the model's namespace to pull these with.", "NAME,..."),
    ] = None,
    agent_requests: Annotated[
        str | None,
        option("--agent-requests", SERVING, "What the agent in a serving Pod sets aside.", "cpu=10m,memory=64Mi"),
    ] = None,
    agent_limits: Annotated[str | None, option("--agent-limits", SERVING, "What it may use.", "memory=512Mi")] = None,
    gateway_requests: Annotated[
        str | None, option("--gateway-requests", SERVING, "What a gateway sets aside.", "cpu=50m,memory=64Mi")
    ] = None,
    gateway_limits: Annotated[str | None, option("--gateway-limits", SERVING, "What it may use.", "memory=1Gi")] = None,
    edge_folder: Annotated[
        str, option("--edge-folder", SERVING, "Where edge nodes keep models (/var/lib/modelwright).", "PATH")
    ] = "/var/lib/modelwright",
    image_volumes: Annotated[
        bool,
        option(
            "--image-volumes/--no-image-volumes", SERVING, "Mount model images where a Pod has shown that nodes can."
        ),
    ] = True,
    progress_deadline: Annotated[
        str, option("--progress-deadline", SERVING, "How long a new version may take to answer (10m).", "DURATION")
    ] = "10m",
    cluster_domain: Annotated[
        str, option("--cluster-domain", SERVING, "DNS domain of the cluster (cluster.local).", "NAME")
    ] = "cluster.local",
    leader_elect: Annotated[
        bool,
        option("--leader-elect/--no-leader-elect", ELECTION, "Lead only with the lease; off for a single replica."),
    ] = True,
    lease_namespace: Annotated[
        str, option("--lease-namespace", ELECTION, "Namespace of the lease; by default the operator's own.", "NAME")
    ] = "",
    lease_name: Annotated[
        str, option("--lease-name", ELECTION, "Name of the lease (modelwright-operator).", "NAME")
    ] = "modelwright-operator",
    lease_duration: Annotated[
        str, option("--lease-duration", ELECTION, "After how long a lost leader is replaced (15s).", "DURATION")
    ] = "15s",
    lease_renew_deadline: Annotated[
        str,
        option("--lease-renew-deadline", ELECTION, "After how long a leader without answer stops (10s).", "DURATION"),
    ] = "10s",
    lease_retry_period: Annotated[
        str, option("--lease-retry-period", ELECTION, "How often the lease is renewed or asked for (2s).", "DURATION")
    ] = "2s",
    resync: Annotated[
        str, option("--resync", PROCESS, "How often every object is looked at without a change (10m).", "DURATION")
    ] = "10m",
    listen: Annotated[
        str, option("--listen", PROCESS, "Where probes and metrics are ([::]:8080); port 0: any.", "HOST:PORT")
    ] = "[::]:8080",
    log_format: Annotated[LogFormat, option("--log-format", PROCESS, "How lines are written.")] = LogFormat.TEXT,
    log_level: Annotated[LogLevel, option("--log-level", PROCESS, "What is logged.")] = LogLevel.INFO,
) -> None:
    """Run the operator of a cluster. In a Deployment, several replicas elect a leader; see docs/operator.md.

    Each option can also be given as a variable: --some-thing as MODELWRIGHT_SOME_THING. Lists take commas.
    """
    from modelwright.adapters.kubernetes.lease_record import LeaseTimes
    from modelwright.adapters.kubernetes.servers.settings import AGENT_RESOURCES, GATEWAY_RESOURCES, ServerSettings
    from modelwright.adapters.kubernetes.workloads.settings import DEFAULT_KANIKO_IMAGE, DEFAULT_RESOURCES, JobSettings
    from modelwright.operator import serving as servers
    from modelwright.operator import spelling
    from modelwright.operator.logs import start_log
    from modelwright.operator.settings import LeaderElection, OperatorSettings
    from modelwright.ports.capabilities import StoragePolicy
    from modelwright.ports.workloads import Resources

    host, port = read("--listen", spelling.address, listen)
    times = LeaseTimes(
        duration=read("--lease-duration", spelling.seconds, lease_duration),
        renew_deadline=read("--lease-renew-deadline", spelling.seconds, lease_renew_deadline),
        retry_period=read("--lease-retry-period", spelling.seconds, lease_retry_period),
    )
    read("--lease-duration", LeaseTimes.check, times)

    def resources_of(whose: str, requests: str | None, limits: str | None, default: Resources, what: str) -> Resources:
        found = Resources(
            requests=read(f"--{whose}-requests", spelling.quantities, requests, default.requests),
            limits=read(f"--{whose}-limits", spelling.quantities, limits, default.limits),
        )
        read(f"--{whose}-requests", lambda given: spelling.check_resources(given, what), found)
        return found

    jobs = JobSettings(
        agent_image=agent_image,
        kaniko_image=kaniko_image or DEFAULT_KANIKO_IMAGE,
        image_pull_secrets=spelling.items(image_pull_secret),
        default_registry=registry,
        plain_http=read("--plain-http", spelling.registries, plain_http),
        run_as_user=run_as_user,
        run_as_group=run_as_group,
        resources=resources_of("build", build_requests, build_limits, DEFAULT_RESOURCES, "a build"),
        storage_policy=StoragePolicy(
            create_volumes=create_volumes,
            host_paths=read("--allow-host-path", spelling.folders, allow_host_path),
            nfs_servers=spelling.items(allow_nfs_server),
        ),
    )
    found = ServerSettings(
        agent_image=agent_image,
        gateway_image=gateway_image or servers.GATEWAY_IMAGE,
        catalogue=servers.catalogue(
            runtimes or servers.RUNTIMES,
            onnx=onnx_image,
            sklearn=sklearn_image,
            tensorflow=tensorflow_image,
            server=tensorflow_server.value,
        ),
        image_pull_secrets=spelling.items(server_pull_secret),
        plain_http=jobs.plain_http,
        edge_folder=read("--edge-folder", servers.edge_folder, edge_folder),
        image_volumes=image_volumes,
        progress_deadline_seconds=read("--progress-deadline", servers.deadline, progress_deadline),
        cluster_domain=read("--cluster-domain", servers.domain, cluster_domain),
        agent_resources=resources_of("agent", agent_requests, agent_limits, AGENT_RESOURCES, "the agent"),
        gateway_resources=resources_of("gateway", gateway_requests, gateway_limits, GATEWAY_RESOURCES, "a gateway"),
    )
    settings = OperatorSettings(
        jobs=jobs,
        serving=found if serving else None,
        kubeconfig=kubeconfig,
        context=context,
        host=host,
        port=port,
        election=LeaderElection(enabled=leader_elect, namespace=lease_namespace, name=lease_name, times=times),
        resync=read("--resync", spelling.seconds, resync),
    )
    start_log(log_format, log_level)
    work(settings)


def read(name: str, parse: Callable[[Any], T], given: Any, default: T | None = None) -> T:
    """What was given, parsed; the default for what was not. A usage error for what makes no sense."""
    from modelwright.ports.errors import Invalid

    if given is None and default is not None:
        return default
    try:
        return parse(given)
    except Invalid as error:
        raise typer.BadParameter(error.message, param_hint=name) from None


def work(settings: OperatorSettings) -> None:
    """Run it; what ends it is the last line of the log, and exit code 1."""
    import asyncio

    from modelwright.operator.run import run
    from modelwright.ports.errors import ModelwrightError

    try:
        asyncio.run(run(settings))
    except ModelwrightError as error:
        logging.getLogger(__name__).critical("%s (%s)", error.message, error.reason)
        raise typer.Exit(1) from None
