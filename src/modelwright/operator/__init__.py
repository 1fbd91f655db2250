"""The operator of a cluster as a process: it puts the parts together, and leads while it holds the lease."""
