"""Where things are in a serving Pod; outside of one, environment variables name other places."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec

from modelwright.ports import serving


class Places(msgspec.Struct, frozen=True, kw_only=True):
    """`run` is what agent and server share, `task` the file with the wanted versions, the others are secrets."""

    run: Path = Path(serving.RUN_FOLDER)
    task: Path = Path(serving.TASK_FILE)
    pull_secret: Path = Path(serving.PULL_SECRET_FOLDER)
    download_secret: Path = Path(serving.DOWNLOAD_SECRET_FOLDER)

    @property
    def config(self) -> Path:
        """What our server is told."""
        return self.run / Path(serving.CONFIG_FILE).name

    @property
    def models_config(self) -> Path:
        """What TensorFlow Serving is told."""
        return self.run / Path(serving.MODELS_CONFIG_FILE).name

    @property
    def plain(self) -> Path:
        """The link that servers follow which know one folder only."""
        return self.run / Path(serving.PLAIN_FOLDER).name

    @property
    def state(self) -> Path:
        """Where our server says how it is doing."""
        return self.run / Path(serving.STATE_FILE).name


def places_of(environment: Mapping[str, str]) -> Places:
    """The usual ones, but for those that a variable names: MODELWRIGHT_RUN_FOLDER, _TASK_FILE, _PULL_SECRET_FOLDER,
    _DOWNLOAD_SECRET_FOLDER."""
    names = {
        "run": "MODELWRIGHT_RUN_FOLDER",
        "task": "MODELWRIGHT_TASK_FILE",
        "pull_secret": "MODELWRIGHT_PULL_SECRET_FOLDER",
        "download_secret": "MODELWRIGHT_DOWNLOAD_SECRET_FOLDER",
    }
    return Places(**{field: Path(environment[name]) for field, name in names.items() if environment.get(name)})
