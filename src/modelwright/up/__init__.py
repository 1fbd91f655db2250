"""The embedded control plane as a program: the one place that knows all its parts."""
