"""Trainings to apply, and what their commands have left behind."""

from __future__ import annotations

import json
import sys
import textwrap
from pathlib import Path
from typing import Any

from tests.e2e.plane import ControlPlane, until

PRELUDE = """
import json, os, pathlib, shutil, signal, sys, time
out = pathlib.Path(os.environ["KUBEDL_MODEL_PATH"])
data = pathlib.Path(os.environ.get("MODELWRIGHT_DATASETS", "/nowhere"))
base = pathlib.Path(os.environ.get("KUBEDL_BASE_MODEL_PATH", "/nowhere"))
rank = os.environ["RANK"]
def say(word):
    with open(out.parent / "said", "a") as file:
        file.write(word + "\\n")
def report(**numbers):
    (out / ".modelwright").mkdir(exist_ok=True)
    (out / ".modelwright" / "metrics.json").write_text(json.dumps(numbers))
def until_there(path):
    while not os.path.exists(path):
        time.sleep(0.02)
"""
"""What every training here may use; `say` tells the test something, in order."""


class Training:
    """A training whose command is a Python program, given in parts, and the folder that it works in."""

    def __init__(self, folder: Path, name: str, *program: str, **spec: Any) -> None:
        self.name = name
        self.folder = folder / name
        self.folder.mkdir(parents=True)
        self.out = self.folder / "out"
        script = self.folder / "train.py"
        script.write_text(PRELUDE + "".join(textwrap.dedent(part) for part in program))
        values = {
            "modelName": "digits",
            "command": [sys.executable, str(script)],
            "imageRepo": "modelhub/digits",
            "storage": {"localStorage": {"path": str(self.out)}},
            **spec,
        }
        self.body: dict[str, Any] = {
            "apiVersion": "sedna.io/v1alpha1",
            "kind": "TrainingModel",
            "metadata": {"name": name, "namespace": "default"},
            "spec": values,
        }

    @property
    def said(self) -> list[str]:
        """What its workers have said, in order."""
        path = self.folder / "said"
        return path.read_text().split() if path.exists() else []

    def until_said(self, word: str) -> None:
        until(lambda: word in self.said, f"{self.name} says {word}")

    def let(self, name: str) -> None:
        """Make the file that the program waits for."""
        (self.folder / name).touch()


def until_phase(plane: ControlPlane, name: str, phase: str) -> dict[str, Any]:
    """The status, once the training is in this phase."""

    def there() -> dict[str, Any] | None:
        status: dict[str, Any] = plane.get("tm", name).get("status", {})
        return status if status.get("phase") == phase else None

    return until(there, f"tm/{name} is {phase}; see {plane.log}")


def events_of(plane: ControlPlane, name: str) -> list[str]:
    """The reasons of the Events about this training."""
    found = json.loads(plane.kubectl("get", "events", "-o", "json"))["items"]
    return [each["reason"] for each in found if each["involvedObject"]["name"] == name]
