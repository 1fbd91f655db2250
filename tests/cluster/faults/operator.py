"""An operator as a process of this machine, through whatever kubeconfig it is given."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from tests.cluster.faults.processes import Program
from tests.contract.kube_apiserver import LOOPBACK

AGENT_IMAGE = "registry.test/modelwright:test"
"""No container runs here: nobody pulls it."""


class OperatorProcess(Program):
    """`modelwright operator` with these options."""

    def __init__(self, name: str, kubeconfig: Path, log: Path, options: Sequence[str]) -> None:
        command = [sys.executable, "-m", "modelwright", "operator", "--kubeconfig", str(kubeconfig)]
        super().__init__(name, [*command, "--agent-image", AGENT_IMAGE, "--listen", f"{LOOPBACK}:0", *options], log)
