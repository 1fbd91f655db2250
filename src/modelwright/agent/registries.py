"""Registries as a build in a Job speaks with them: by its push secret and an admin's list, and by nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from modelwright.oci import credentials
from modelwright.oci.client import connect
from modelwright.oci.credentials import Credentials
from modelwright.oci.reference import Reference, is_loopback, split_name
from modelwright.oci.session import Options
from modelwright.ports.errors import Forbidden
from modelwright.ports.images import Images
from modelwright.ports.job import BuildTask

CONFIG_KEYS = (".dockerconfigjson", "config.json")
CA_KEY = "ca.crt"


class Registries(msgspec.Struct, frozen=True):
    """`config` is a docker config.json, `ca_file` a private CA (PEM) that is trusted besides the system's.

    `plain_http` lists the hosts, as images spell them (HOST or HOST:PORT), that are spoken to without TLS.
    """

    config: Path | None = None
    ca_file: Path | None = None
    plain_http: tuple[str, ...] = ()

    @contextmanager
    def open(self, name: str) -> Iterator[Images]:
        """The repository `host/repository`. Raises Invalid (NoRegistry, InvalidReference) and what connecting does."""
        host, repository = split_name(name)
        with connect(Reference(host, repository), self._options(host)) as remote:
            yield remote

    def _options(self, host: str) -> Options:
        found = credentials.find(host, self.config) if self.config is not None else None
        return Options(
            # Nobody's credentials, rather than those that are found in a home folder.
            credentials=found or Credentials(),
            ca_file=self.ca_file,
            plain_http=None if is_loopback(host) else host in self.plain_http,
        )


def registries_of(task: BuildTask) -> Registries:
    """How this task speaks with registries. Raises Forbidden (SecretNotFound) if its secret has nothing of use."""
    if not task.action.push_secret:
        return Registries(plain_http=task.plain_http)
    found = registries_in(Path(task.secret), task.plain_http)
    if found is None:
        raise Forbidden(_missing(task, Path(task.secret)), reason="SecretNotFound")
    return found


def registries_in(folder: Path, plain_http: tuple[str, ...]) -> Registries | None:
    """With the secret whose keys lie in `folder`; None if it has nothing of use."""
    config = next((folder / key for key in CONFIG_KEYS if (folder / key).is_file()), None)
    ca_file = folder / CA_KEY if (folder / CA_KEY).is_file() else None
    return Registries(config, ca_file, plain_http) if config or ca_file else None


def keys_of(folder: Path) -> str:
    """The keys of a mounted secret, for a message; empty if it has none, or is not there."""
    keys = sorted(path.name for path in folder.iterdir() if not path.name.startswith("..")) if folder.is_dir() else []
    return ", ".join(keys)[:200]


def _missing(task: BuildTask, folder: Path) -> str:
    action = task.action
    namespace = action.provenance.namespace if action.provenance else ""
    name = f"{namespace}/{action.push_secret}" if namespace else action.push_secret
    what = (
        f"the secret {name} has neither the key {' nor '.join(CONFIG_KEYS)} (but {keys})"
        if (keys := keys_of(folder))
        else f"there is no secret {name}, or it has no key"
    )
    server = action.repository.partition("/")[0]
    option = f" -n {namespace}" if namespace else ""
    return (
        f"{what}: kubectl create secret docker-registry {action.push_secret}{option} --docker-server={server} "
        "--docker-username=USER --docker-password=PASSWORD"
    )
