from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from modelwright.adapters.embedded.datadir import DataDirectory, file_system_of
from modelwright.ports.errors import Rejected, Unavailable

MOUNTS = """\
23 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
31 23 0:45 / /mnt/models rw,relatime shared:9 - nfs4 nas:/models rw,vers=4.2
32 23 0:46 / /mnt/with\\040space rw - cifs //nas/x rw
33 31 0:47 / /mnt/models/local rw - xfs /dev/vdb rw
34 23 0:48 / /twice rw - nfs nas:/old rw
35 23 0:49 / /twice rw - ext4 /dev/vdc rw
no mount at all
"""


def test_a_data_directory_is_private(tmp_path: Path) -> None:
    directory = DataDirectory.claim(tmp_path / "a" / "b")
    assert directory.path.stat().st_mode & 0o777 == 0o700
    assert (directory.path / "lock").stat().st_mode & 0o777 == 0o600
    directory.release()
    directory.release()


def test_a_second_process_is_told_which_one_holds_the_directory(tmp_path: Path) -> None:
    program = (
        "import sys; from pathlib import Path; from modelwright.adapters.embedded.datadir import DataDirectory\n"
        "DataDirectory.claim(Path(sys.argv[1])); print('held', flush=True); sys.stdin.read()"
    )
    command = [sys.executable, "-c", program, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(Unavailable, match=f"in use by process {holder.pid}.*--data-dir") as caught:
            DataDirectory.claim(tmp_path)
        assert caught.value.reason == "DataDirectoryInUse"
        holder.kill()
    # The lock goes with the process, however that ends.
    DataDirectory.claim(tmp_path).release()


def test_a_released_directory_can_be_claimed_again(tmp_path: Path) -> None:
    DataDirectory.claim(tmp_path).release()
    again = DataDirectory.claim(tmp_path)
    assert (tmp_path / "lock").read_text() == f"{os.getpid()}\n"
    again.release()


def test_what_is_no_directory_cannot_be_used(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(Rejected, match="cannot be used") as caught:
        DataDirectory.claim(tmp_path / "file")
    assert caught.value.reason == "DataDirectoryUnusable"


def test_a_lock_that_is_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "lock").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(Rejected):
        DataDirectory.claim(tmp_path)
    assert not (tmp_path / "elsewhere").exists()


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/var/lib/modelwright", "ext4"),
        ("/mnt/models/data", "nfs4"),
        ("/mnt/models/local/data", "xfs"),
        ("/mnt/modelsother", "ext4"),
        ("/mnt/with space/data", "cifs"),
        ("/twice/data", "ext4"),
    ],
)
def test_the_innermost_newest_mount_tells_the_file_system(path: str, kind: str) -> None:
    assert file_system_of(Path(path), MOUNTS) == kind
