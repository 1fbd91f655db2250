"""The registry: OCI distribution-spec 1.1 over HTTP, on top of `ImageStorage`."""

from modelwright.oci.server.app import create_registry_app

__all__ = ["create_registry_app"]
