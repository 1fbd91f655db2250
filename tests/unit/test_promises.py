"""Promises that the whole program makes, held against its source and its imports."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCES = sorted((ROOT / "src").rglob("*.py"))
LOADS_MODELS = ("numpy", "onnxruntime", "onnx", "sklearn", "scipy", "skops", "joblib", "tensorflow", "torch")


def lines_with(pattern: str) -> list[str]:
    found = re.compile(pattern)
    return [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for path in SOURCES
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if found.search(line)
    ]


def test_the_control_plane_and_its_workers_load_no_framework_and_no_pickle() -> None:
    programs = ("main", "up.control_plane", "operator.run", "agent.worker", "agent.fetch", "agent.job")
    modules = ", ".join(f"modelwright.{program}" for program in programs)
    ours = f"import {modules}; import sys; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", ours], check=True, capture_output=True, text=True)
    loaded = {name.partition(".")[0] for name in done.stdout.split()}
    assert loaded.isdisjoint(LOADS_MODELS)


def test_nothing_unpickles_but_the_model_server() -> None:
    found = lines_with(r"^\s*(import|from)\s+(pickle|joblib|dill|cloudpickle|shelve|marshal)\b")
    assert [line for line in found if not line.startswith("src/modelwright/serve/")] == []


def test_tls_verification_is_never_turned_off() -> None:
    assert lines_with(r"verify\s*=\s*False|CERT_NONE|check_hostname\s*=\s*False|_create_unverified_context") == []


def test_archives_are_unpacked_by_our_own_extractor_alone() -> None:
    assert lines_with(r"\.extractall\(|\.extract\(|shutil\.unpack_archive") == []


def test_no_shell_is_ever_asked() -> None:
    assert lines_with(r"shell\s*=\s*True|os\.system\(|os\.popen\(") == []


def test_every_dependency_has_its_reason_in_the_docs() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = [
        *project["dependencies"],
        *(each for extra in project["optional-dependencies"].values() for each in extra),
    ]
    names = {re.split(r"[\s<>=!~;\[]", requirement)[0] for requirement in wanted}
    text = (ROOT / "docs/dependencies.md").read_text()
    assert [name for name in sorted(names) if name not in text] == []


def test_locks_have_hashes_and_no_address() -> None:
    for lock in (ROOT / "requirements").glob("*.txt"):
        text = lock.read_text()
        assert "://" not in text
        pinned = re.findall(r"^([a-z0-9][a-z0-9._-]*)==", text, re.MULTILINE | re.IGNORECASE)
        hashed = re.findall(
            r"^[a-z0-9][a-z0-9._-]*==\S+(?: ;[^\\\n]*)? \\\n    --hash=sha256:", text, re.MULTILINE | re.IGNORECASE
        )
        assert pinned
        assert len(pinned) == len(hashed)


def test_links_in_the_docs_lead_somewhere() -> None:
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "SECURITY.md", *(ROOT / "docs").rglob("*.md")]
    broken = [
        f"{page.relative_to(ROOT)}: {target}"
        for page in pages
        for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.read_text())
        if "://" not in target and not (page.parent / target).exists()
    ]
    assert broken == []
