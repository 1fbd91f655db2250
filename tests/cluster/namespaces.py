"""Namespaces of tests."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager

from tests.cluster.rig.kubernetes import Kubernetes


@contextmanager
def fresh(kubernetes: Kubernetes, level: str) -> Iterator[str]:
    """A namespace of a new name, which admits what this Pod Security Standard does; it begins to go afterwards."""
    name = f"t-{secrets.token_hex(4)}"
    labels = {f"pod-security.kubernetes.io/{mode}": level for mode in ("enforce", "warn")}
    kubernetes.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}})
    kubernetes.wait_for_service_account(name)
    try:
        yield name
    finally:
        kubernetes.run("delete", "namespace", name, "--wait=false")
