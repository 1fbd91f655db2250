"""The pages that the control plane shows."""
