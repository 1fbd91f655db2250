"""The server that speaks the Kubernetes API for our kinds, Events and namespaces, on loopback."""
