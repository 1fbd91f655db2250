"""What a serving Pod has: its folders, and the programs in it as real processes."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import tarfile
from pathlib import Path

import msgspec
from tests.integration import clients
from tests.integration.serving_agent.hosts import FileHost

from modelwright.ports.job import TERMINATION_LIMIT, Report
from modelwright.ports.serving import TASK_VARIABLE, KeeperState, ServeTask
from modelwright.ports.workloads import Download, Failure, ModelSource, Progress, ServedVersion

DEADLINE_SECONDS = 120.0


class Ran(msgspec.Struct, frozen=True):
    """How a verb of the agent ended, and what it said."""

    code: int
    lines: list[str]
    errors: str
    report: Report | None

    @property
    def failure(self) -> Failure:
        """Why it failed; it must have."""
        assert self.report is not None and self.report.failure is not None, (self.report, self.lines, self.errors)
        assert self.code == 1
        return self.report.failure

    @property
    def progress(self) -> list[Progress]:
        return [msgspec.json.decode(line, type=Progress) for line in self.lines if line.startswith('{"bytesDone"')]


class Pod:
    """Folders as Kubernetes would mount them. `close` ends what was started."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.models, self.run_folder = folder / "models", folder / "run"
        self.pull_secret, self.download_secret = folder / "pull-secret", folder / "download-secret"
        self.task_file = folder / "task" / "task.json"
        self.termination = folder / "termination-log"
        for path in (self.models, self.run_folder, self.task_file.parent, folder / "home"):
            path.mkdir(parents=True)
        self.started: list[subprocess.Popen[bytes]] = []

    def environment(self, **variables: str) -> dict[str, str]:
        """As in a container: no proxies, no configuration of this machine's user."""
        return {
            "PATH": os.environ["PATH"],
            "HOME": str(self.folder / "home"),
            "PYTHONPATH": os.pathsep.join(sys.path),
            "MODELWRIGHT_RUN_FOLDER": str(self.run_folder),
            "MODELWRIGHT_TASK_FILE": str(self.task_file),
            "MODELWRIGHT_PULL_SECRET_FOLDER": str(self.pull_secret),
            "MODELWRIGHT_DOWNLOAD_SECRET_FOLDER": str(self.download_secret),
            "MODELWRIGHT_TERMINATION_FILE": str(self.termination),
            **variables,
        }

    def task(self, *versions: ServedVersion, **changes: object) -> ServeTask:
        """Serve these; the last one by default."""
        fields = {
            "model_name": "times", "framework": "onnx", "versions": versions, "default": versions[-1].version,
            "port": 1, "folder": str(self.models), **changes,
        }  # fmt: skip
        return ServeTask(**fields)  # type: ignore[arg-type]

    def run(self, *words: str, variables: dict[str, str] = {}) -> Ran:  # noqa: B006 - never changed
        """Run a verb to its end."""
        return self.ended(self.start(*words, variables=variables))

    def fetch(self, task: ServeTask, *prefix: str) -> Ran:
        return self.ended(self.start_fetch(task, *prefix))

    def start_fetch(self, task: ServeTask, *prefix: str) -> subprocess.Popen[bytes]:
        return self.start("fetch", prefix=prefix, variables={TASK_VARIABLE: msgspec.json.encode(task).decode()})

    def start(
        self,
        *words: str,
        prefix: tuple[str, ...] = (),
        variables: dict[str, str] = {},  # noqa: B006 - never changed
    ) -> subprocess.Popen[bytes]:
        return self._started([*prefix, sys.executable, "-m", "modelwright", "agent", *words], variables)

    def fetch_impatiently(self, task: ServeTask) -> Ran:
        """Give up at the first fault after a moment without a byte."""
        script = "import sys; from modelwright.agent.serving.fetch import main; sys.exit(main(patience=0.5))"
        variables = {TASK_VARIABLE: msgspec.json.encode(task).decode()}
        return self.ended(self._started([sys.executable, "-c", script], variables))

    def _started(self, command: list[str], variables: dict[str, str]) -> subprocess.Popen[bytes]:
        self.termination.write_bytes(b"")
        process = subprocess.Popen(
            command,
            env=self.environment(**variables),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        self.started.append(process)
        return process

    def ended(self, process: subprocess.Popen[bytes]) -> Ran:
        """Wait for it, and read what it left."""
        output, errors = process.communicate(timeout=DEADLINE_SECONDS)
        data = self.termination.read_bytes()
        assert len(data) <= TERMINATION_LIMIT
        report = msgspec.json.decode(data, type=Report) if data else None
        return Ran(process.returncode, output.decode().splitlines(), errors.decode(), report)

    def files(self) -> dict[str, bytes]:
        """All files below the models' folder, by path; the hidden ones too."""
        return {
            str(path.relative_to(self.models)): path.read_bytes() for path in self.models.rglob("*") if path.is_file()
        }

    def kept(self) -> set[str]:
        """The names of the folders with models."""
        return {path.name for path in self.models.iterdir() if not path.name.startswith(".")}

    def close(self) -> None:
        for process in self.started:
            process.kill()
            process.wait()
            for stream in (process.stdout, process.stderr):
                if stream is not None:
                    stream.close()


class Keeper:
    """`agent keep` (or a program that runs it), whose lines go to a file as the kubelet has it."""

    def __init__(self, pod: Pod, command: tuple[str, ...] = (), **variables: str) -> None:
        self.log = pod.folder / f"keeper-{len(pod.started)}.log"
        words = command or (sys.executable, "-m", "modelwright", "agent", "keep")
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                words, env=pod.environment(**variables), stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT
            )
        pod.started.append(self.process)

    @property
    def states(self) -> list[KeeperState]:
        """All that it has said."""
        lines = [line for line in self.log.read_bytes().split(b"\n")[:-1] if line.startswith(b'{"keeper"')]
        return [msgspec.json.decode(line, type=KeeperState) for line in lines]

    @property
    def state(self) -> KeeperState | None:
        """The last that it has said."""
        return next(reversed(self.states), None)

    def until(self, condition: object, what: str) -> KeeperState:
        """Wait until its last state meets the condition."""
        assert callable(condition)

        def look() -> KeeperState | None:
            assert self.process.poll() is None, self.log.read_text()
            state = self.state
            return state if state is not None and condition(state) else None

        try:
            found = clients.wait_for(look, what, DEADLINE_SECONDS)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.log.read_text()[-4000:]}") from error
        assert isinstance(found, KeeperState)
        return found

    def settled(self, version: str) -> KeeperState:
        """Wait until it says that this version is served, and all is done."""
        return self.until(lambda state: state.settled and state.serving == version, f"{version} to be settled")

    def kill(self, number: int = signal.SIGKILL) -> int:
        self.process.send_signal(number)
        return self.process.wait(DEADLINE_SECONDS)


def version(name: str, number: int, url: str, sha256sum: str = "", secret: str = "") -> ServedVersion:
    return ServedVersion(name, number, Download(url, sha256sum, secret))


def of(name: str, number: int, source: ModelSource) -> ServedVersion:
    return ServedVersion(name, number, source)


def of_model(host: FileHost, models: Path, number: int) -> ServedVersion:
    """The model that multiplies by the number, to be downloaded."""
    content = (models / str(number) / "model.onnx").read_bytes()
    return version(f"v{number}", number, *host.add(f"/{number}/model.onnx", content))


def tar_of(files: dict[str, bytes]) -> bytes:
    """A tar with these files."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return buffer.getvalue()
