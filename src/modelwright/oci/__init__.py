"""OCI images: digests, layers, build, push, pull, unpack, registry client and server. Knows no Kubernetes."""
