"""A real cluster."""
