"""What all supervisors on one data directory share."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from modelwright.adapters.embedded.workloads.addresses import Ports
from modelwright.adapters.embedded.workloads.cache import ModelCache
from modelwright.adapters.embedded.workloads.pool import WorkerPool
from modelwright.adapters.embedded.workloads.records import RunDirectory
from modelwright.adapters.embedded.workloads.sampler import MemorySampler
from modelwright.adapters.embedded.workloads.timing import Timing
from modelwright.adapters.embedded.workloads.writers import Writers
from modelwright.ports.workloads import Owner

SERVER_COMMAND = (sys.executable, "-m", "modelwright.serve")
GATEWAY_COMMAND = (sys.executable, "-m", "modelwright.gateway")


class Site:
    """Directories, helpers and settings."""

    def __init__(
        self,
        *,
        run: RunDirectory,
        data_dir: Path,
        pool: WorkerPool,
        sampler: MemorySampler,
        timing: Timing,
        registry: tuple[str, Path],
        server_command: tuple[str, ...],
        gateway_command: tuple[str, ...],
        host: str,
        found: Mapping[str, int],
        node_name: str,
        notify: Callable[[Owner], None],
        collect: Callable[[], None],
    ) -> None:
        self.run = run
        self.data_dir = data_dir
        self.pool = pool
        self.sampler = sampler
        self.timing = timing
        self.registry_host = registry[0]
        self.registry_storage = registry[1]
        self.server_command = server_command
        self.gateway_command = gateway_command
        self.host = host
        self.found = found
        """Processes seen at the start, pid by nonce."""
        self.ports = Ports()
        self.writers = Writers()
        self.node_name = node_name
        self.notify = notify
        self.collect = collect
        """Called when models may have become of no use."""
        self.models: ModelCache
