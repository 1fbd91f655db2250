"""From versions, files and images to the services that answer with them."""

from __future__ import annotations

from collections.abc import Iterator

from modelwright.lineage.datasets import Link
from modelwright.lineage.ids import NAME_LIMIT, content_id, folders_of, joint_id, served_id, version_id
from modelwright.lineage.records import Joint, JointModel, Place, Records, Served, ServedFile, VersionStatus, detail


def model_links(records: Records, model: str) -> list[Link]:
    """A Model to its versions: a name for them, not something that they were made from."""
    named = (version.metadata.name for version in records.versions if version.spec.model_name == model)
    return [(f"model/{model}", version_id(name), "version", "") for name in named]


def joint_links(records: Records) -> Iterator[Link]:
    """The edge and the cloud model to the service that joins them."""
    for joint in records.joint:
        id_, spec = joint_id(joint.metadata.name), joint.spec
        yield served_id(_model_name(joint, spec.edge_model, "edge")), id_, "edge", ""
        yield served_id(_model_name(joint, spec.cloud_model, "cloud")), id_, "cloud", ""


def _model_name(joint: Joint, model: JointModel, side: str) -> str:
    """An inline model is an InferenceModel that is named after its service."""
    tail = f"-{side}"
    return model.name or joint.metadata.name[: NAME_LIMIT - len(tail)] + tail


class ServedLinks:
    """What InferenceModels serve or have served; files and images that they name are known by id."""

    def __init__(self, records: Records) -> None:
        self.files: dict[str, ServedFile] = {}
        self.images: dict[str, str] = {}
        self._records = records
        self._versions = {version.metadata.name: version for version in records.versions}
        self._by_image: dict[str, set[str]] = {}
        self._by_path: dict[str, set[str]] = {}
        if any(served.spec.image or _has_image(served) for served in records.served):
            self._index_images()
        if any(served.spec.manifest or _has_file(served) for served in records.served):
            self._index_paths()

    def links(self) -> Iterator[Link]:
        """Versions, files and images to InferenceModels, and versions to files."""
        for served in self._records.served:
            yield from self._of(served)

    def _of(self, served: Served) -> Iterator[Link]:
        id_, spec = served_id(served.metadata.name), served.spec
        target = next((file for file in spec.manifest if file.version == spec.target_version), None)
        seen: set[str] = set()
        sources = [("serving", source) for source in self._sources(spec.image, spec.model_version, target)]
        for entry in served.status.history:
            past = entry.source
            sources += [("served", one) for one in self._sources(past.image, past.model_version, past.file)]
        for role, source in sources:
            if source in seen:
                continue
            seen.add(source)
            yield source, id_, role, ""
            if source in self.files:
                yield from self._origins(served, source)

    def _sources(self, image: str, version: str, file: ServedFile | None) -> list[str]:
        """In the kind's own order: an image, else a version, else a file."""
        if image:
            return self._image(image)
        if version:
            return [version_id(version)]
        return [self._file(file)] if file is not None else []

    def _image(self, image: str) -> list[str]:
        found = self._by_image.get(image) or self._by_image.get(image.partition("@")[2], set())
        if not found:
            self.images[f"image/{image}"] = image
        return sorted(found) or [f"image/{image}"]

    def _file(self, file: ServedFile) -> str:
        content = f"sha256:{file.sha256sum.lower()}" if file.sha256sum else file.download_url
        id_ = content_id("file", file.version, content)
        self.files.setdefault(id_, file)
        return id_

    def _origins(self, served: Served, id_: str) -> Iterator[Link]:
        """A file was packed from a version's folder, or has a version's name: nobody says so, so it is said how."""
        file = self.files[id_]
        innermost = (self._by_path[folder] for folder in folders_of(file.download_url) if folder in self._by_path)
        found = dict.fromkeys(next(innermost, ()), "path")
        version = self._versions.get(file.version)
        if not found and version is not None and version.spec.model_name == served.spec.model_name:
            found = {version_id(file.version): "name"}
        for source, how in sorted(found.items()):
            yield source, id_, "download", how

    def _index_images(self) -> None:
        for version in self._records.versions:
            status, id_ = detail(version.status, VersionStatus), version_id(version.metadata.name)
            for image in (status.image_digest, status.image, status.resolved_image):
                if image:
                    self._by_image.setdefault(image, set()).add(id_)

    def _index_paths(self) -> None:
        for version in self._records.versions:
            storage = detail(version.spec.storage, Place)
            if storage.local_storage is not None:
                path = storage.local_storage.path.rstrip("/")
                self._by_path.setdefault(path, set()).add(version_id(version.metadata.name))


def _has_file(served: Served) -> bool:
    return any(entry.source.file is not None for entry in served.status.history)


def _has_image(served: Served) -> bool:
    return any(entry.source.image for entry in served.status.history)
