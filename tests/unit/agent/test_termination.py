"""Termination messages: always JSON, never longer than Kubernetes keeps, written once."""

from __future__ import annotations

import threading
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from modelwright.agent.termination import Termination, fit
from modelwright.ports.job import TERMINATION_LIMIT, Report
from modelwright.ports.workloads import BuildResult, Failure

DIGEST = "sha256:" + "0" * 64
RESULT = BuildResult(DIGEST, "v1", f"r.example.com/m@{DIGEST}", 5, files=2)


def read(data: bytes) -> Report:
    assert len(data) <= TERMINATION_LIMIT
    return msgspec.json.decode(data, type=Report)


def result_of(data: bytes) -> BuildResult:
    found = read(data).result
    assert found is not None
    return found


def failure_of(data: bytes) -> Failure:
    found = read(data).failure
    assert found is not None
    return found


def test_what_fits_is_told_as_it_is() -> None:
    result = msgspec.structs.replace(RESULT, metrics={"accuracy": 0.9}, provenance_refused="no")
    assert result_of(fit(Report(result=result))) == result


def test_metrics_that_do_not_fit_are_left_out_and_said() -> None:
    metrics = {f"{number:03}{'m' * 120}": 0.5 for number in range(64)}
    found = result_of(fit(Report(result=msgspec.structs.replace(RESULT, metrics=metrics))))
    assert found.metrics == {}
    assert "64 metrics do not fit" in found.metrics_ignored
    assert (found.digest, found.resolved, found.files) == (RESULT.digest, RESULT.resolved, RESULT.files)


def test_long_texts_are_cut_so_that_the_digest_stays() -> None:
    result = msgspec.structs.replace(RESULT, metrics_ignored="é" * 3000, provenance_refused="ü" * 5000)
    found = result_of(fit(Report(result=result)))
    assert found.digest == DIGEST
    assert found.provenance_refused == ""
    assert found.metrics_ignored.startswith("éé")
    assert found.metrics_ignored.endswith("…")


def test_a_name_that_is_no_text_can_be_told() -> None:
    assert failure_of(fit(Report(failure=Failure("FileUnreadable", "file \udce9 is bad")))).message == (
        "file \\udce9 is bad"
    )


@settings(max_examples=150, deadline=None)
@given(st.text(max_size=30), st.integers(0, 3000), st.text(max_size=300), st.booleans())
def test_every_failure_fits_and_keeps_the_beginning_of_its_message(
    text: str, times: int, reason: str, retryable: bool
) -> None:
    found = failure_of(fit(Report(failure=Failure(reason, text * times, retryable))))
    assert (found.reason, found.retryable) == (reason[:100], retryable)
    kept = found.message.removesuffix("…")
    assert (text * times).startswith(kept)
    if found.message != text * times:
        assert len(fit(Report(failure=Failure(reason, text * times, retryable)))) > TERMINATION_LIMIT - 16


@settings(max_examples=60, deadline=None)
@given(
    st.dictionaries(st.text(min_size=1, max_size=128), st.floats(allow_nan=False, allow_infinity=False), max_size=64),
    st.text(max_size=3000),
)
def test_every_result_fits(metrics: dict[str, float], refused: str) -> None:
    result = msgspec.structs.replace(RESULT, metrics=metrics, provenance_refused=refused)
    found = result_of(fit(Report(result=result)))
    assert found.digest == DIGEST
    assert found.metrics in (metrics, {})


def test_the_first_report_counts(tmp_path: Path) -> None:
    termination = Termination(tmp_path / "log")
    assert termination.write(Report(failure=Failure("Interrupted", "ended", retryable=True)))
    assert not termination.write(Report(result=RESULT))
    assert failure_of((tmp_path / "log").read_bytes()).reason == "Interrupted"


def test_of_many_threads_one_writes(tmp_path: Path) -> None:
    termination, written = Termination(tmp_path / "log"), []
    reports = [Report(failure=Failure(f"R{number}", "x" * 2000)) for number in range(8)]
    threads = [threading.Thread(target=lambda r=report: written.append(termination.write(r))) for report in reports]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(written) == [False] * 7 + [True]
    assert failure_of((tmp_path / "log").read_bytes()).reason.startswith("R")


def test_what_an_earlier_container_left_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("x" * 4096)
    assert Termination(tmp_path / "log").write(Report(result=RESULT))
    assert result_of((tmp_path / "log").read_bytes()) == RESULT


def test_a_file_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No such file"):
        Termination(tmp_path / "missing" / "log").write(Report(result=RESULT))
