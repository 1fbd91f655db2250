"""Servers on a Kubernetes API server: Deployments in the cloud, bare Pods at the edge."""

# Whichever of the two packages is imported first: the other one's modules find it begun.
from modelwright.adapters.kubernetes import workloads as workloads
