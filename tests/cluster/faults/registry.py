"""A real docker-registry, and what is in it when one looks at its disk."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.cluster.faults.processes import Program
from tests.contract.kube_apiserver import LOOPBACK

LISTENING = re.compile(r"listening on 127\.0\.0\.1:([0-9]+)")


class Registry:
    """`host` is HOST:PORT, plain http on loopback."""

    def __init__(self, host: str, data: Path) -> None:
        self.host = host
        self._repositories = data / "docker/registry/v2/repositories"

    def tags(self, repository: str) -> dict[str, str]:
        """The digest of each tag."""
        tags = self._repositories / repository / "_manifests/tags"
        return {tag.name: (tag / "current/link").read_text() for tag in sorted(tags.glob("*"))}

    def manifests(self, repository: str) -> int:
        """How many manifests there are in all: indexes, images, and what refers to them."""
        return len(list((self._repositories / repository / "_manifests/revisions/sha256").glob("*")))

    def uploads(self, repository: str) -> int:
        """How many uploads have begun and never ended."""
        return len(list((self._repositories / repository / "_uploads").glob("*")))


@contextmanager
def running_registry(folder: Path) -> Iterator[Registry]:
    """Start one that keeps its images in this folder."""
    data, config, log = folder / "data", folder / "config.yml", folder / "registry.log"
    storage = {"filesystem": {"rootdirectory": str(data)}, "delete": {"enabled": True}}
    http = {"addr": f"{LOOPBACK}:0"}
    config.write_text(json.dumps({"version": "0.1", "log": {"level": "info"}, "storage": storage, "http": http}))
    program = Program("docker-registry", ["docker-registry", "serve", str(config)], log)
    program.start()
    try:
        program.wait_until(lambda: LISTENING.search(log.read_text()) is not None)
        found = LISTENING.search(log.read_text())
        assert found is not None
        yield Registry(f"{LOOPBACK}:{found[1]}", data)
    finally:
        program.stop()
