"""NFS server, mount.nfs and CSI plug-in do by themselves what the cluster's storage relies on."""

from __future__ import annotations

import errno
import hashlib
import os
import random
import signal
import stat
import subprocess
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest
from tests.cluster.rig.waiting import until
from tests.cluster.storage import csi, mount_helper, nfs

EXPORT = "/models"
USER = 65532
Mount = Callable[..., Path]


class Server:
    """nfs-ganesha with one export, on a loopback address that no other test has."""

    def __init__(self, folder: Path) -> None:
        self.run = folder / "nfs"
        self.files = folder / "files"
        self.files.mkdir()
        self.address = f"127.{os.getpid() >> 14 & 0x7F | 0x80}.{os.getpid() >> 7 & 0x7F}.{os.getpid() & 0x7F | 0x80}"
        self.process = self._start()

    def _start(self) -> subprocess.Popen[bytes]:
        nfs.log_file(self.run).unlink(missing_ok=True)
        process = subprocess.Popen(nfs.command({EXPORT: self.files}, self.address, self.run))
        until(lambda: nfs.is_ready(self.address, self.run), "the NFS server is ready", 60)
        return process

    def stop(self, how: signal.Signals = signal.SIGTERM) -> int:
        self.process.send_signal(how)
        return self.process.wait(timeout=60)

    def start_again(self) -> None:
        self.process = self._start()


@pytest.fixture(scope="module")
def server(machine: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    server = Server(tmp_path_factory.mktemp("server"))
    yield server
    assert server.stop() == 0, nfs.log_file(server.run).read_text()


@pytest.fixture
def node(machine: Path) -> Iterator[int]:
    """The id of a process in a mount namespace of its own, where mount(8) finds our mount.nfs."""
    lines = (
        'mount -t overlay overlay -o "ro,lowerdir=$1:/usr/sbin" /usr/sbin',
        "mount -t tmpfs -o mode=755 mnt /mnt",
        "echo ready",
        "exec sleep infinity",
    )
    helper = mount_helper.build().parent
    command = ["unshare", "--mount", "--propagation", "private", "sh", "-ec", "\n".join(lines), "sh", str(helper)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        yield process.pid
        process.kill()


@pytest.fixture
def mount(node: int, server: Server) -> Iterator[Mount]:
    """Mount the server's export, or what is below it, with `mount -t nfs`; the folder as it is seen from outside."""
    mounted: list[str] = []

    def run(path: str = EXPORT, options: str = "rw") -> Path:
        target = f"/mnt/{node}-{len(mounted)}"
        inside(node, "mkdir", target)
        inside(node, "mount", "-t", "nfs", "-o", options, f"{server.address}:{path}", target)
        mounted.append(target)
        return Path(f"/proc/{node}/root{target}")

    yield run
    for target in mounted:
        inside(node, "umount", "--lazy", target)
    until(lambda: not helpers(node), "the helpers have ended", 60)


def inside(node: int, *command: str) -> str:
    """Run a command in the node's mount namespace."""
    argv = ["nsenter", f"--mount=/proc/{node}/ns/mnt", *command]
    return subprocess.run(argv, check=True, capture_output=True, text=True).stdout


def as_user(node: int, *command: str) -> str:
    """Run a command in the node's mount namespace as an ordinary user; paths are those seen from outside."""
    paths = [argument.removeprefix(f"/proc/{node}/root") for argument in command]
    return inside(node, "setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups", *paths)


def helpers(node: int) -> list[int]:
    """The ids of the living mount.nfs processes of the node's mounts."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            command = (process / "cmdline").read_bytes()
        except OSError:
            continue
        if b"mount.nfs" in command and f"/mnt/{node}-".encode() in command:
            found.append(int(process.name))
    return found


def error_of(action: Callable[[], object]) -> int | None:
    """The number of the error that an action ends in."""
    try:
        action()
    except OSError as error:
        return error.errno
    return None


def test_what_the_server_has_is_read_with_its_owner_and_mode(server: Server, mount: Mount) -> None:
    file = server.files / "weights.bin"
    file.write_bytes(b"weights")
    os.chown(file, 1234, 4321)
    file.chmod(0o640)
    (server.files / "latest").symlink_to("weights.bin")
    seen = mount()
    there = (seen / "weights.bin").stat()
    assert (there.st_uid, there.st_gid, stat.S_IMODE(there.st_mode), there.st_size) == (1234, 4321, 0o640, 7)
    assert (seen / "latest").read_bytes() == b"weights"
    assert (seen / "latest").readlink() == Path("weights.bin")


def test_another_user_may_read_what_the_mode_lets_him(server: Server, node: int, mount: Mount) -> None:
    for name, mode in (("public", 0o644), ("secret", 0o600)):
        (server.files / name).write_text(name)
        (server.files / name).chmod(mode)
    seen = mount()
    assert as_user(node, "cat", str(seen / "public")) == "public"
    with pytest.raises(subprocess.CalledProcessError) as failure:
        as_user(node, "cat", str(seen / "secret"))
    assert "Permission denied" in failure.value.stderr


def test_nothing_is_written_through_a_read_only_mount(server: Server, mount: Mount) -> None:
    (server.files / "kept").write_text("kept")
    seen = mount(options="ro")
    for action in (
        (seen / "new").touch,
        partial((seen / "kept").write_text, "changed"),
        (seen / "kept").unlink,
        (seen / "folder").mkdir,
    ):
        assert error_of(action) == errno.EROFS
    assert (server.files / "kept").read_text() == "kept"


def test_what_is_written_through_the_mount_is_on_the_server(server: Server, mount: Mount) -> None:
    folder = mount() / "written"
    there = server.files / "written"
    folder.mkdir()
    (folder / "a").write_bytes(b"x" * 3_000_000)
    (folder / "a").write_bytes(b"shorter")
    with (folder / "a").open("ab") as file:
        file.write(b" and longer")
    (folder / "a").chmod(0o600)
    os.utime(folder / "a", (1_000_000_000, 1_000_000_000))
    (folder / "a").rename(folder / "b")
    (folder / "link").symlink_to("b")
    (folder / "gone").touch()
    (folder / "gone").unlink()
    (folder / "empty").mkdir()
    (folder / "empty").rmdir()
    assert sorted(path.name for path in there.iterdir()) == ["b", "link"]
    assert (there / "link").read_text() == "shorter and longer"
    assert (stat.S_IMODE((there / "b").stat().st_mode), (there / "b").stat().st_mtime) == (0o600, 1_000_000_000)


def test_what_a_user_makes_is_his(server: Server, node: int, mount: Mount) -> None:
    (server.files / "shared").mkdir()
    (server.files / "shared").chmod(0o777)
    made = mount() / "shared/made"
    as_user(node, "mkdir", str(made))
    as_user(node, "cp", "/etc/hostname", str(made / "file"))
    for path in (server.files / "shared/made", server.files / "shared/made/file"):
        assert (path.stat().st_uid, path.stat().st_gid) == (USER, USER)


def test_ten_thousand_files_are_listed(server: Server, mount: Mount) -> None:
    many = server.files / "many"
    many.mkdir()
    for number in range(10_000):
        (many / f"{number:05}").touch()
    seen = (mount() / "many").iterdir()
    assert sorted(path.name for path in seen) == [f"{number:05}" for number in range(10_000)]


def test_a_large_file_is_the_same_from_many_readers_at_once(server: Server, mount: Mount) -> None:
    size, part = 64 << 20, 1 << 20
    content = random.Random(1).randbytes(size)
    (server.files / "large").write_bytes(content)
    with (mount() / "large").open("rb") as file, ThreadPoolExecutor(8) as pool:
        parts = list(pool.map(lambda offset: os.pread(file.fileno(), part, offset), range(0, size, part)))
    assert hashlib.sha256(b"".join(parts)).digest() == hashlib.sha256(content).digest()


def test_a_folder_below_the_export_is_mounted_and_nothing_above_it(server: Server, mount: Mount) -> None:
    (server.files / "resnet/1").mkdir(parents=True)
    (server.files / "resnet/1/model.onnx").write_text("model")
    seen = mount(f"{EXPORT}/resnet")
    assert (seen / "1/model.onnx").read_text() == "model"
    assert [path.name for path in seen.iterdir()] == ["1"]


@pytest.mark.parametrize(
    ("path", "options", "message"),
    [
        ("/models/missing", "rw", "access"),
        ("/elsewhere", "rw", "access"),
        (EXPORT, "rw,colour=blue", "an incorrect mount option was specified: colour"),
        (EXPORT, "rw,port=many", "an incorrect mount option was specified: port"),
        (EXPORT, "rw,mountport=9,timeo=10", "mount service"),
    ],
)
def test_a_mount_that_cannot_be_says_why(mount: Mount, path: str, options: str, message: str) -> None:
    with pytest.raises(subprocess.CalledProcessError) as failure:
        mount(path, options)
    assert failure.value.returncode == 32
    assert message in failure.value.stderr


def test_who_asks_a_server_that_does_not_answer_gets_an_error_and_the_answer_later(
    server: Server, mount: Mount
) -> None:
    (server.files / "slow").write_text("answer")
    seen = mount(options="ro,timeo=5,actimeo=0")
    server.process.send_signal(signal.SIGSTOP)
    try:
        until(lambda: error_of((seen / "slow").read_text) == errno.EIO, "an error", 60)
    finally:
        server.process.send_signal(signal.SIGCONT)
    until(lambda: error_of((seen / "slow").read_text) is None, "the server answers again", 60)


def test_a_file_that_is_open_outlives_a_restart_of_the_server(server: Server, mount: Mount) -> None:
    (server.files / "open").write_text("still there")
    with (mount(options="ro,timeo=600") / "open").open() as file:
        server.stop(signal.SIGKILL)
        server.start_again()
        assert file.read() == "still there"


def test_a_server_that_is_gone_is_an_error_and_what_it_served_can_be_unmounted(
    server: Server, node: int, mount: Mount
) -> None:
    (server.files / "file").write_text("file")
    seen = mount(options="ro,timeo=5,actimeo=0")
    server.stop(signal.SIGKILL)
    try:
        assert error_of((seen / "file").read_text) == errno.EIO
        inside(node, "umount", f"/mnt/{node}-0")
        until(lambda: not helpers(node), "the helper has ended", 60)
    finally:
        server.start_again()
    inside(node, "mount", "-t", "nfs", f"{server.address}:{EXPORT}", f"/mnt/{node}-0")
    assert (seen / "file").read_text() == "file"


def test_the_end_of_a_node_is_the_end_of_its_mounts(node: int, server: Server) -> None:
    target = f"/mnt/{node}-0"
    inside(node, "mkdir", target)
    inside(node, "mount", "-t", "nfs", f"{server.address}:{EXPORT}", target)
    assert len(helpers(node)) == 1
    os.kill(node, signal.SIGKILL)
    until(lambda: not helpers(node), "the helper has ended", 60)


@pytest.mark.usefixtures("machine")
def test_the_plug_in_reads_handles_and_attributes_as_the_driver_of_efs_does() -> None:
    csi.check()
