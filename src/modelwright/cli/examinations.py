"""What `doctor` looks at, one function for each thing."""

from __future__ import annotations

import importlib.util
import os
import platform
import shutil
from pathlib import Path
from typing import Literal

import msgspec

from modelwright.cli.context import Connection
from modelwright.cli.units import readable
from modelwright.ports.errors import ModelwrightError

State = Literal["ok", "warning", "missing"]

FRAMEWORKS = {
    "onnx": ("onnxruntime", "numpy"),
    "sklearn": ("sklearn", "skops", "numpy"),
    "tensorflow": ("tensorflow", "numpy"),
}
LITTLE_DISK = 2 * 10**9
FEW_FILES = 1024


class Examination(msgspec.Struct, frozen=True):
    """What was looked at, how it is, and what to do about it."""

    name: str
    state: State
    found: str
    mend: str = ""


async def examine(connection: Connection) -> list[Examination]:
    """Everything, in the order in which a person would mend it."""
    here = [
        python(),
        *(framework(name) for name in FRAMEWORKS),
        data_directory(),
        disk_space(),
        open_files(),
        kubectl(),
    ]
    return [*here, await control_plane(connection)]


def python() -> Examination:
    return Examination("Python", "ok", f"{platform.python_version()} on {platform.system()} {platform.machine()}")


def framework(name: str) -> Examination:
    absent = [module for module in FRAMEWORKS[name] if importlib.util.find_spec(module) is None]
    if absent:
        mend = f'to serve {name} models: pip install "modelwright[{name}]"'
        return Examination(f"framework {name}", "warning", f"{', '.join(absent)} not installed", mend)
    return Examination(f"framework {name}", "ok", "installed")


def data_directory() -> Examination:
    folder = data_folder()
    nearest = next(parent for parent in (folder, *folder.parents) if parent.exists())
    if not os.access(nearest, os.W_OK | os.X_OK):
        mend = f"make {nearest} writable, or use modelwright up --data-dir D"
        return Examination("data directory", "missing", f"{folder} cannot be written to", mend)
    return Examination("data directory", "ok", str(folder))


def data_folder() -> Path:
    from modelwright.adapters.kubernetes.locate import default_data_dir

    return default_data_dir()


def disk_space() -> Examination:
    folder = data_folder()
    nearest = next(parent for parent in (folder, *folder.parents) if parent.exists())
    free = shutil.disk_usage(nearest).free
    told = f"{readable(free)} free at {nearest}"
    if free < LITTLE_DISK:
        return Examination("disk space", "warning", told, "images and models are kept there: make room")
    return Examination("disk space", "ok", told)


def open_files() -> Examination:
    import resource

    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limit < FEW_FILES:
        return Examination("open files", "warning", f"at most {limit}", "raise the limit: ulimit -n 4096")
    return Examination("open files", "ok", f"at most {limit}")


def kubectl() -> Examination:
    found = shutil.which("kubectl")
    if found is None:
        mend = "not needed; if you want it, 1.31 or newer works: https://kubernetes.io/docs/tasks/tools/"
        return Examination("kubectl", "warning", "not on PATH", mend)
    return Examination("kubectl", "ok", found)


async def control_plane(connection: Connection) -> Examination:
    """Whether the control plane that the other verbs would use answers, and is ours."""
    from modelwright.cli.context import HINTS

    try:
        async with connection.client() as client:
            await client.raw("GET", "/apis/sedna.io/v1alpha1")
            return Examination("control plane", "ok", f"{client.url} answers")
    except ModelwrightError as error:
        mend = "" if error.reason == "NoControlPlane" else HINTS.get(error.reason, "start one with: modelwright up")
        return Examination("control plane", "warning", error.message, mend)
