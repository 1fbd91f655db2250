"""Data sets, told apart by content: who read them, under which names, from where.

Which ones a thing has read is in its record; who has read one is gathered only when somebody asks for that.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from modelwright.lineage.ids import dataset_id, folders_of, joint_id, training_id, training_of, version_id
from modelwright.lineage.records import NamedDataset, Records, Training, Version

Link = tuple[str, str, str, str]
"""Source, target, role, and how it is known where nobody has said it: the fields of an `Edge`."""


class Dataset:
    """One content (or one place, where no digest is known) under the names and places that have been seen of it."""

    def __init__(self, digest: str) -> None:
        self.digest = digest
        self.names: set[str] = set()
        self.uris: set[str] = set()
        self.readers: list[str] = []

    @property
    def name(self) -> str:
        return min(self.names)


class Datasets:
    """The data sets that versions and trainings name. What an existing training does not name is its version's own."""

    def __init__(self, records: Records) -> None:
        self._records = records
        self._versions = {version.metadata.name: version for version in records.versions}
        self._trainings = {training.metadata.name: training for training in records.trainings}
        self._kept = {
            joint.status.kept_path.rstrip("/"): joint.metadata.name for joint in records.joint if joint.status.kept_path
        }
        self._seen: dict[str, Dataset] = {}
        self._complete = False

    def get(self, id_: str) -> Dataset | None:
        """The data set of this id, if anything that was looked at names it."""
        return self._seen.get(id_)

    def all(self) -> dict[str, Dataset]:
        """All data sets by id, with their readers."""
        if not self._complete:
            self._complete = True
            for version in self._records.versions:
                if version.spec.lineage is not None and version.spec.lineage.datasets:
                    self._read(self.of_version(version), _reader(version, self._trainings))
            for training in self._records.trainings:
                self._read(self.of_training(training), training_id(training.metadata.name))
        return self._seen

    def of_version(self, version: Version) -> list[str]:
        """The ids of what a version names beside its training."""
        made = version.spec.lineage
        if made is None:
            return []
        known = self._trainings.get(training_of(version))
        own = [each.name for each in known.spec.datasets] if known is not None else ()
        return [self._see(each, each.digest) for each in made.datasets if each.name not in own]

    def of_training(self, training: Training) -> list[str]:
        """The ids of what a training reads. What was downloaded in the end says more than what was asked for."""
        name = training.metadata.name
        version = self._versions.get(name)
        made = version.spec.lineage if version is not None and training_of(version) == name else None
        read = {each.name: each.digest for each in made.datasets} if made is not None else {}
        return [self._see(each, read.get(each.name) or _asked(each)) for each in training.spec.datasets]

    def above(self, id_: str) -> Iterator[Link]:
        """A data set that lies where a service keeps its hard examples comes from that service."""
        dataset = self._seen.get(id_)
        folders = set(chain.from_iterable(map(folders_of, dataset.uris))) if dataset and self._kept else set()
        for name in sorted({self._kept[folder] for folder in folders & self._kept.keys()}):
            yield joint_id(name), id_, "hardExamples", "path"

    def below(self, id_: str) -> Iterator[Link]:
        """To all who have read it."""
        dataset = self.all().get(id_)
        for reader in dataset.readers if dataset is not None else ():
            yield id_, reader, "dataset", ""

    def kept_by(self, joint: str) -> Iterator[Link]:
        """From a service to the data sets that are its hard examples."""
        if joint not in self._kept.values():
            return
        for id_ in list(self.all()):
            yield from (link for link in self.above(id_) if link[0] == joint_id(joint))

    def _read(self, ids: list[str], reader: str) -> None:
        for id_ in ids:
            self._seen[id_].readers.append(reader)

    def _see(self, named: NamedDataset, digest: str) -> str:
        id_ = dataset_id(named.name, named.uri, digest)
        found = self._seen.get(id_)
        if found is None:
            found = self._seen[id_] = Dataset(digest)
        found.names.add(named.name)
        if named.uri:
            found.uris.add(named.uri)
        return id_


def _reader(version: Version, trainings: dict[str, Training]) -> str:
    training = training_of(version)
    return training_id(training) if training and training not in trainings else version_id(version.metadata.name)


def _asked(named: NamedDataset) -> str:
    return f"sha256:{named.sha256sum.lower()}" if named.sha256sum else ""
