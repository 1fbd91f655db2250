"""Data sets, told apart by content: who read them, under which names, from where."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from modelwright.lineage.ids import content_id, folders_of, joint_id, training_id, training_of, version_id
from modelwright.lineage.records import NamedDataset, Records, Training, Version

Link = tuple[str, str, str, str]
"""Source, target, role, and how it is known where nobody has said it: the fields of an `Edge`."""


class Dataset:
    """One content (or one place, where no digest is known) under all the names that it goes by."""

    def __init__(self, digest: str) -> None:
        self.digest = digest
        self.names: set[str] = set()
        self.uris: set[str] = set()
        self.readers: list[str] = []

    @property
    def name(self) -> str:
        return min(self.names)

    @property
    def id(self) -> str:
        return content_id("dataset", self.name, self.digest or min(self.uris, default=self.name))


class Datasets:
    """All data sets that versions and trainings name."""

    def __init__(self, records: Records) -> None:
        self._found: dict[str, Dataset] = {}
        self._trainings = {training.metadata.name: training for training in records.trainings}
        self._downloaded: dict[tuple[str, str], str] = {}
        for version in records.versions:
            if version.spec.lineage is not None and version.spec.lineage.datasets:
                self._of_version(version, version.spec.lineage.datasets)
        for training in records.trainings:
            self._of_training(training)
        self.by_id = {dataset.id: dataset for dataset in self._found.values()}

    def links(self) -> Iterator[Link]:
        """From data sets to those who read them."""
        for id_, dataset in self.by_id.items():
            for reader in dataset.readers:
                yield id_, reader, "dataset", ""

    def hard_examples(self, records: Records) -> Iterator[Link]:
        """A data set that lies where a service keeps its hard examples comes from that service."""
        kept = {
            joint.status.kept_path.rstrip("/"): joint.metadata.name for joint in records.joint if joint.status.kept_path
        }
        if not kept:
            return
        for id_, dataset in self.by_id.items():
            folders = set(chain.from_iterable(map(folders_of, dataset.uris)))
            for name in sorted({kept[folder] for folder in folders & kept.keys()}):
                yield joint_id(name), id_, "hardExamples", "path"

    def _of_version(self, version: Version, datasets: tuple[NamedDataset, ...]) -> None:
        """The training read them, where there was one; what an existing training does not name is the version's."""
        training = training_of(version)
        known = self._trainings.get(training)
        own = frozenset(each.name for each in known.spec.datasets) if known is not None else frozenset()
        reader = training_id(training) if training and known is None else version_id(version.metadata.name)
        for each in datasets:
            if each.name in own:
                self._downloaded[training, each.name] = each.digest
            else:
                self._add(each, each.digest, reader)

    def _of_training(self, training: Training) -> None:
        name = training.metadata.name
        for each in training.spec.datasets:
            asked = f"sha256:{each.sha256sum.lower()}" if each.sha256sum else ""
            # What was downloaded in the end says more than what was asked for.
            self._add(each, self._downloaded.get((name, each.name)) or asked, training_id(name))

    def _add(self, named: NamedDataset, digest: str, reader: str) -> None:
        key = digest or named.uri or f" {named.name}"
        found = self._found.get(key)
        if found is None:
            found = self._found[key] = Dataset(digest)
        found.names.add(named.name)
        found.readers.append(reader)
        if named.uri:
            found.uris.add(named.uri)
