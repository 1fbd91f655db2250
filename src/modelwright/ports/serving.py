"""What the operator, the agent in a serving Pod and the server beside it say to each other.

In the cloud an init container (`modelwright agent fetch`) brings the models and writes the server's configuration. At
the edge the agent (`modelwright agent keep`) stays beside the server, and follows the wanted versions as a file
changes. It has no access to the Kubernetes API: what it is told is an annotation of its Pod, which the kubelet shows it
as a file, and what it has to say it prints, a line of JSON (`KeeperState`) each time something has changed.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from modelwright.ports.workloads import Failure, ServedVersion, VersionStatus

TASK_VARIABLE = "MODELWRIGHT_SERVE"
"""Where `agent fetch` finds its ServeTask as JSON."""
TASK_ANNOTATION = "modelwright.dev/serve"
TASK_FILE = "/etc/modelwright/serve/task.json"
"""Where `agent keep` finds its ServeTask: the annotation, through a downwardAPI volume."""
SWEEP_VARIABLE = "MODELWRIGHT_SWEEP"
"""Where `agent sweep` finds the UID of the owner whose kept models it removes. MODELS_FOLDER is then the node's folder
of a whole namespace, which holds one for each owner by UID: that of this owner goes, and the namespace's own stays."""
GATEWAY_ANNOTATION = "modelwright.dev/gateway"
GATEWAY_FILE = "/etc/modelwright/gateway/config.json"
"""Where a gateway in a Pod finds its configuration (`gateway.config.GatewayConfig`), in the same way."""

MODELS_FOLDER = "/var/lib/modelwright/models"
"""The models, in the agent's container and (read-only) in the server's: an emptyDir in the cloud; at the edge a folder
of the node, of which the Pod sees what lies below NAMESPACE/OWNER_UID only."""
IMAGES_FOLDER = "/var/lib/modelwright/images"
"""Models that are mounted straight from their images: a folder for each version, by number."""
RUN_FOLDER = "/run/modelwright"
"""What agent and server share besides: an emptyDir with CONFIG_FILE and STATE_FILE."""
CONFIG_FILE = f"{RUN_FOLDER}/config.json"
STATE_FILE = f"{RUN_FOLDER}/state.json"
MODELS_CONFIG_FILE = f"{RUN_FOLDER}/models.config"
"""Layout tensorflow: what TensorFlow Serving is told, instead of CONFIG_FILE."""
PLAIN_FOLDER = f"{RUN_FOLDER}/model"
"""Layout plain: the default version, as a link to its folder (or single file)."""
PULL_SECRET_FOLDER = "/var/run/modelwright/pull-secret"  # noqa: S105 - a path
DOWNLOAD_SECRET_FOLDER = "/var/run/modelwright/download-secret"  # noqa: S105 - a path
TOKEN_FOLDER = "/var/run/modelwright/token"  # noqa: S105 - a path
TLS_FOLDER = "/var/run/modelwright/tls"
"""Secrets, as folders with a file for each key. Each is optional to the kubelet: the program says what is missing."""

Layout = Literal["modelwright", "tensorflow", "plain"]
"""How a server wants to be told its models: our server's configuration; TensorFlow Serving's model config file with
folders by number; or one folder that holds the default version."""


class ServeTask(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """What a serving Pod holds. `folder` is where, in the container; `threads` and `port` are the server's.

    `mounted` has the folder of each version (by its name) that is mounted from its image. `plain_http` lists the
    registries that an admin lets be spoken to without TLS. `ready_path` is asked (http, this machine, `port`) to learn
    whether a server that writes no state file answers; `$(VERSION)` in it is the number of the default version.
    """

    model_name: str
    framework: str
    versions: tuple[ServedVersion, ...]
    default: str
    port: int
    layout: Layout = "modelwright"
    threads: int = 0
    folder: str = MODELS_FOLDER
    mounted: dict[str, str] = {}
    plain_http: tuple[str, ...] = ()
    ready_path: str = ""


class KeeperState(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """What `agent keep` prints: how far the task with the digest `task` (SHA-256 of the file, in hex) has come.

    `serving` is the version that the server answers with by default, empty while there is none; `settled` says that all
    of the task is fetched, loaded and served, and that nothing else is kept. `failure` is about the Pod as a whole.
    """

    keeper: Literal[1] = 1
    """Tells these lines from others."""
    task: str
    serving: str = ""
    settled: bool = False
    versions: tuple[VersionStatus, ...] = ()
    failure: Failure | None = None
