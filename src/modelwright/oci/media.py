"""Media types, annotation keys and limits of OCI image-spec 1.1 and distribution-spec 1.1."""

from __future__ import annotations

INDEX = "application/vnd.oci.image.index.v1+json"
MANIFEST = "application/vnd.oci.image.manifest.v1+json"
CONFIG = "application/vnd.oci.image.config.v1+json"
LAYER = "application/vnd.oci.image.layer.v1.tar"
LAYER_GZIP = "application/vnd.oci.image.layer.v1.tar+gzip"
LAYER_ZSTD = "application/vnd.oci.image.layer.v1.tar+zstd"
EMPTY = "application/vnd.oci.empty.v1+json"

DOCKER_INDEX = "application/vnd.docker.distribution.manifest.list.v2+json"
DOCKER_MANIFEST = "application/vnd.docker.distribution.manifest.v2+json"
DOCKER_CONFIG = "application/vnd.docker.container.image.v1+json"
DOCKER_LAYER = "application/vnd.docker.image.rootfs.diff.tar"
DOCKER_LAYER_GZIP = "application/vnd.docker.image.rootfs.diff.tar.gzip"

INDEXES = frozenset({INDEX, DOCKER_INDEX})
MANIFESTS = frozenset({MANIFEST, DOCKER_MANIFEST})
CONFIGS = frozenset({CONFIG, DOCKER_CONFIG})
PLAIN_LAYERS = frozenset({LAYER, DOCKER_LAYER})
GZIP_LAYERS = frozenset({LAYER_GZIP, DOCKER_LAYER_GZIP})
ACCEPTED = (INDEX, MANIFEST, DOCKER_INDEX, DOCKER_MANIFEST)
"""What a reader of manifests asks for, best first."""

MAX_MANIFEST_BYTES = 4 * 1024 * 1024
"""Distribution-spec asks registries to take manifests up to this size; nothing larger is read or written."""

FILE_PATH = "org.cncf.model.filepath"
"""Layer annotation of the CNCF ModelPack specification: which file a layer holds."""

MODEL_FOLDER = "kubedl-model"
"""The folder of an image that holds the model, at the root."""

MODEL_PATH_VARIABLE = "KUBEDL_MODEL_PATH"
"""The environment variable in an image's config that says where the model is."""
