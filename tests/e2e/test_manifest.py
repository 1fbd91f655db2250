"""Models that are downloaded: from a manifest, verified, switched by targetVersion."""

from __future__ import annotations

import shutil
import tarfile
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.files import file_server, hostile_tar, tar_gz, zip_file
from tests.e2e.load import Load, predict, served_version, sha256
from tests.e2e.plane import ControlPlane, inference_model


def entry(url: str, version: str, archive: Path, digest: str = "") -> dict[str, str]:
    return {"version": version, "downloadURL": f"{url}/{archive.name}", "sha256sum": digest or sha256(archive)}


def edge(name: str, manifest: list[dict[str, str]], target: str, **spec: Any) -> dict[str, Any]:
    return inference_model(
        name, deployToLayer="edge", nodeName="here", manifest=manifest, targetVersion=target, image="", **spec
    )


def test_versions_of_a_manifest_are_switched_without_a_failed_request(
    plane: ControlPlane, digits: Path, tmp_path: Path
) -> None:
    files = tmp_path / "files"
    files.mkdir()
    first, second = tar_gz(digits / "v1", files / "m3.tar.gz"), zip_file(digits / "v2", files / "m4.zip")
    with file_server(files) as url:
        manifest = [entry(url, "3", first), entry(url, "4", second)]
        plane.apply(edge("digits", manifest, "3"))
        status = plane.until_ready("infm", "digits")["status"]
        assert status["versions"] == [{"version": "3", "number": 3}, {"version": "4", "number": 4}]
        with Load(status["url"]) as load:
            load.more()
            plane.apply(edge("digits", manifest, "4"))
            assert plane.until_ready("infm", "digits")["status"]["servingVersion"] == "4"
            load.more()
        assert load.failures == []
        plane.run("rollback", "infm/digits")
        assert plane.until_ready("infm", "digits")["spec"]["targetVersion"] == "3"
        assert served_version(status["url"]) == "3"


@pytest.mark.parametrize("scheme", ["file", "single file"])
def test_a_model_comes_from_a_file_url_too(plane: ControlPlane, digits: Path, tmp_path: Path, scheme: str) -> None:
    if scheme == "file":
        archive = tar_gz(digits / "v1", tmp_path / "m.tar.gz")
    else:
        archive = tmp_path / "model.skops"
        shutil.copy(digits / "v1" / "model.skops", archive)
    manifest = [{"version": "one", "downloadURL": archive.as_uri(), "sha256sum": sha256(archive)}]
    plane.apply(edge("digits", manifest, "one"))
    assert len(predict(plane.until_ready("infm", "digits")["status"]["url"])) == 1


def bad_archives(folder: Path) -> dict[str, tuple[Path, str]]:
    """Archives that must not be served, by what is wrong with them, and the reason that is said."""
    escaping = hostile_tar(folder / "escape.tar", "../../escaped")
    absolute = hostile_tar(folder / "absolute.tar", "/tmp/modelwright-escaped")
    link = hostile_tar(folder / "link.tar", "model.skops", tarfile.SYMTYPE, "/etc/passwd")
    device = hostile_tar(folder / "device.tar", "model.skops", tarfile.CHRTYPE)
    empty = folder / "text.skops"
    empty.write_text("this is no model")
    return {
        "escapes": (escaping, "Archive"),
        "absolute": (absolute, "Archive"),
        "link": (link, "Archive"),
        "device": (device, "Archive"),
        "no model": (empty, "Model"),
    }


def test_what_cannot_be_served_is_said_and_the_old_version_goes_on(
    plane: ControlPlane, digits: Path, tmp_path: Path
) -> None:
    files = tmp_path / "files"
    files.mkdir()
    good = tar_gz(digits / "v1", files / "good.tar.gz")
    with file_server(files) as url:
        base = [entry(url, "good", good), entry(url, "checksum", good, "0" * 64)]
        base.append({**entry(url, "missing", good, "1" * 64), "downloadURL": f"{url}/not-there.tar.gz"})
        base.append(
            {**entry(url, "metadata", good, "2" * 64), "downloadURL": "http://169.254.169.254/latest/meta-data"}
        )
        bad = bad_archives(files)
        manifest = [*base, *(entry(url, name, archive) for name, (archive, _) in bad.items() if " " not in name)]
        manifest.append(entry(url, "no-model", bad["no model"][0]))
        manifest.append({**entry(url, "same-content", good), "downloadURL": f"{url}/moved-elsewhere.tar.gz"})
        plane.apply(edge("digits", manifest, "good"))
        served = plane.until_ready("infm", "digits")["status"]["url"]
        with Load(served, threads=2) as load:
            for version in [each["version"] for each in manifest[1:-1]]:
                plane.apply(edge("digits", manifest, version))
                reason, message = failed(plane, version)
                assert message, reason
                assert served_version(served) == "good"
                assert plane.condition("infm", "digits", "Available")["status"] == "True"
            load.more()
        assert load.failures == []
        plane.apply(edge("digits", manifest, "same-content"))
        plane.until_ready("infm", "digits")  # what is here by its checksum is not downloaded again
    assert not Path("/tmp/modelwright-escaped").exists()
    assert not (tmp_path / "escaped").exists()


def failed(plane: ControlPlane, version: str) -> tuple[str, str]:
    """Wait until it is said that this version cannot be had; reason and message."""
    from tests.e2e.plane import until

    def told() -> tuple[str, str] | None:
        ready = plane.condition("infm", "digits")
        about = f"version {version}: " in ready.get("message", "")
        return (ready["reason"], ready["message"]) if about and ready["status"] == "False" else None

    return until(told, f"version {version} is said to have failed")
