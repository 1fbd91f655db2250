"""Workloads on a cluster: Tasks as Jobs, with the volumes and claims that they read through."""

from modelwright.adapters.kubernetes.workloads.settings import JobSettings
from modelwright.adapters.kubernetes.workloads.workloads import KubernetesWorkloads

__all__ = ["JobSettings", "KubernetesWorkloads"]
