"""The operator on Kubernetes: what `modelwright operator` runs in a Deployment."""
