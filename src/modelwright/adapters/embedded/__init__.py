"""One machine: SQLite, child processes, and a server that speaks the Kubernetes API."""
