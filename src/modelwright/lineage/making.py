"""How versions came to be: from base versions and data sets, through trainings.

Of ten thousand versions only a few are asked for. So what leads to a thing is read from its record when it is asked
for, and only what leads away from one is gathered beforehand.
"""

from __future__ import annotations

from collections.abc import Iterator

from modelwright.lineage.datasets import Datasets, Link
from modelwright.lineage.ids import training_id, training_of, version_id
from modelwright.lineage.records import Records, Training, TrainingStatus, Version, detail


class Making:
    """Versions, trainings and data sets of a namespace."""

    def __init__(self, records: Records, datasets: Datasets) -> None:
        self._datasets = datasets
        self.versions: dict[str, Version] = {version.metadata.name: version for version in records.versions}
        self.trainings: dict[str, Training] = {training.metadata.name: training for training in records.trainings}
        self._upon: dict[str, list[str]] = {}
        """By base version: the ids of what was made upon it."""
        self._made: dict[str, list[str]] = {}
        """By training: the versions that say so, where they bear another name."""
        self._claimed: dict[str, list[str]] = {}
        """By version: the trainings that say that they make it, where it does not say so."""
        self._gather()

    def _gather(self) -> None:
        for name, version in self.versions.items():
            training, made = training_of(version), version.spec.lineage
            if training and training != name:
                self._made.setdefault(training, []).append(name)
            if made is not None and made.parents:
                for parent in self._own_parents(version, training):
                    self._upon.setdefault(parent, []).append(self._child(name, training))
        for name, each in self.trainings.items():
            base = each.spec.base_model_version
            if base:
                self._upon.setdefault(base, []).append(f"trainingmodel/{name}")
            version_of_name = self.versions.get(name)
            if version_of_name is None or training_of(version_of_name) != name:
                self._claim(name, each)

    def _claim(self, name: str, training: Training) -> None:
        made = detail(training.status, TrainingStatus).model_version
        version = self.versions.get(made)
        if made and (version is None or training_of(version) != name):
            self._claimed.setdefault(made, []).append(name)

    # Upstream -------------------------------------------------------------------------------------------------------

    def above_version(self, name: str) -> Iterator[Link]:
        """A training, and what is not the training's own."""
        id_ = version_id(name)
        for claiming in self._claimed.get(name, ()):
            yield training_id(claiming), id_, "training", ""
        version = self.versions.get(name)
        if version is None:
            return
        training = training_of(version)
        if training:
            yield training_id(training), id_, "training", ""
        if not training or training in self.trainings:
            yield from self._inputs(version, training, id_)

    def above_training(self, name: str) -> Iterator[Link]:
        """Base version and data sets; of a training that is gone, what its versions say."""
        id_, training = training_id(name), self.trainings.get(name)
        if training is None:
            for version in self._versions_of(name):
                yield from self._inputs(self.versions[version], name, id_)
            return
        if training.spec.base_model_version:
            yield version_id(training.spec.base_model_version), id_, "base", ""
        for dataset in self._datasets.of_training(training):
            yield dataset, id_, "dataset", ""

    def _inputs(self, version: Version, training: str, target: str) -> Iterator[Link]:
        for parent in self._own_parents(version, training):
            yield version_id(parent), target, "base", ""
        for dataset in self._datasets.of_version(version):
            yield dataset, target, "dataset", ""

    def _own_parents(self, version: Version, training: str) -> list[str]:
        """Without the base version of an existing training, which it names itself."""
        known = self.trainings.get(training)
        base = known.spec.base_model_version if known is not None else ""
        made = version.spec.lineage
        return [parent for parent in made.parents if parent != base] if made is not None else []

    def _child(self, name: str, training: str) -> str:
        """What was made upon a version's parents: the training that is gone, else the version."""
        return training_id(training) if training and training not in self.trainings else version_id(name)

    # Downstream -----------------------------------------------------------------------------------------------------

    def below_version(self, name: str) -> Iterator[Link]:
        """What was made upon it."""
        for child in self._upon.get(name, ()):
            yield version_id(name), child, "base", ""

    def below_training(self, name: str) -> Iterator[Link]:
        """The versions that it made, or makes."""
        made = self._versions_of(name)
        training = self.trainings.get(name)
        claimed = detail(training.status, TrainingStatus).model_version if training is not None else ""
        for version in {*made, *([claimed] if claimed else [])}:
            yield training_id(name), version_id(version), "training", ""

    def _versions_of(self, training: str) -> list[str]:
        version = self.versions.get(training)
        own = [training] if version is not None and training_of(version) == training else []
        return own + self._made.get(training, [])

    def names_training(self, name: str) -> bool:
        """Whether a training is there, or a version names it."""
        return name in self.trainings or bool(self._versions_of(name))

    def names_version(self, name: str) -> bool:
        """Whether a version is there, or something names it."""
        return name in self.versions or name in self._upon or name in self._claimed
