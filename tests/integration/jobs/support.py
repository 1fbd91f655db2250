"""The agent as a Job runs it: a process with its task in a variable, a termination file and mounted folders."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
from pathlib import Path

import msgspec

from modelwright.ports.job import TASK_VARIABLE, TERMINATION_LIMIT, BuildTask, Report
from modelwright.ports.workloads import BuildImage, BuildResult, Failure, Nfs, Progress, Provenance

UID = "6a1f4b7e-0000-4000-8000-00000000c0de"
PROVENANCE = Provenance(namespace="vision", name="resnet-3", uid=UID, model_name="resnet", created_by="jane")
DEADLINE_SECONDS = 120


class Ran(msgspec.Struct, frozen=True):
    """How a run of the agent ended, and what it said."""

    code: int
    lines: list[str]
    errors: str
    report: Report | None

    @property
    def result(self) -> BuildResult:
        """What was built; the run must have succeeded."""
        assert self.report is not None and self.report.result is not None, (self.report, self.lines, self.errors)
        assert self.code == 0
        return self.report.result

    @property
    def failure(self) -> Failure:
        """Why it failed; the run must have."""
        assert self.report is not None and self.report.failure is not None, (self.report, self.lines, self.errors)
        assert self.code == 1
        return self.report.failure

    @property
    def progress(self) -> list[Progress]:
        """The lines of progress."""
        return [msgspec.json.decode(line, type=Progress) for line in self.lines if line.startswith("{")]

    @property
    def everything(self) -> str:
        """All that anybody can read of it."""
        return "\n".join([*self.lines, self.errors, repr(self.report)])


def task(repository: str, model: Path, **changes: object) -> BuildTask:
    """Build this folder, known outside as an NFS export. `changes` are of the action, or of the task."""
    of_task = {name: changes.pop(name) for name in ("secret", "plain_http", "destination") if name in changes}
    action = BuildImage(
        source=Nfs("nfs.example.com", "/models/resnet"), repository=repository, tags=("v1",), provenance=PROVENANCE
    )
    action = msgspec.structs.replace(action, **changes)
    return BuildTask(action=action, folder=str(model), **of_task)  # type: ignore[arg-type]


class Agent:
    """Runs verbs of the agent; `folder` has what Kubernetes would mount."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.termination = folder / "termination-log"
        self.shared = folder / "shared"
        self.shared.mkdir()
        (folder / "home").mkdir()

    def environment(self, wanted: BuildTask) -> dict[str, str]:
        """As in a container: no proxies, no configuration of this machine's user."""
        return {
            "PATH": os.environ["PATH"],
            "HOME": str(self.folder / "home"),
            TASK_VARIABLE: msgspec.json.encode(wanted).decode(),
            "MODELWRIGHT_TERMINATION_FILE": str(self.termination),
            "MODELWRIGHT_SHARED_FOLDER": str(self.shared),
            "PYTHONPATH": os.pathsep.join(sys.path),
        }

    def start(self, verb: str, wanted: BuildTask, *prefix: str, **variables: str) -> subprocess.Popen[str]:
        """A process of this verb; `prefix` is a command that runs it."""
        return self._started([*prefix, sys.executable, "-m", "modelwright", "agent", verb], wanted, variables)

    def start_work(self, lines: str, wanted: BuildTask) -> subprocess.Popen[str]:
        """A process that does this instead of a verb's work: lines of Python, with `task` and `printer`."""
        body = "".join(f"    {line}\n" for line in lines.splitlines())
        script = (
            f"import sys\nfrom modelwright.agent import job\ndef work(task, printer):\n{body}sys.exit(job.run(work))"
        )
        return self._started([sys.executable, "-c", script], wanted, {})

    def _started(self, command: list[str], wanted: BuildTask, variables: dict[str, str]) -> subprocess.Popen[str]:
        self.termination.write_bytes(b"")
        return subprocess.Popen(
            command,
            env={**self.environment(wanted), **variables},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def ended(self, process: subprocess.Popen[str]) -> Ran:
        """Wait for it, and read what it left."""
        with process:
            output, errors = process.communicate(timeout=DEADLINE_SECONDS)
        data = self.termination.read_bytes()
        assert len(data) <= TERMINATION_LIMIT
        report = msgspec.json.decode(data, type=Report) if data else None
        return Ran(process.returncode, output.splitlines(), errors, report)

    def run(self, verb: str, wanted: BuildTask, *prefix: str, **variables: str) -> Ran:
        """Run it to its end."""
        return self.ended(self.start(verb, wanted, *prefix, **variables))


def docker_config(folder: Path, host: str, user: str, password: str, key: str = ".dockerconfigjson") -> Path:
    """A folder as a push secret is mounted."""
    folder.mkdir(exist_ok=True)
    auth = base64.b64encode(f"{user}:{password}".encode()).decode()
    (folder / key).write_text(json.dumps({"auths": {host: {"auth": auth}}}))
    return folder
