"""The line a minute of a long run."""

from __future__ import annotations

import pytest

from tests.support.progress import Progress, wanted


class Terminal:
    """Keeps what is written."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def write_line(self, line: str) -> None:
        self.lines.append(line)


def report(nodeid: str, when: str, outcome: str) -> pytest.TestReport:
    return pytest.TestReport(nodeid, (nodeid, 1, nodeid), {}, outcome, None, when)  # type: ignore[arg-type]  # texts


def test_the_line_says_what_has_ended_what_failed_and_what_runs() -> None:
    progress = Progress(Terminal())  # type: ignore[arg-type]  # a terminal of ours
    progress.pytest_xdist_node_collection_finished(["a", "b", "c", "d"])
    for nodeid in ("tests/a.py::test_1", "tests/a.py::test_2", "tests/b.py::test_3"):
        progress.pytest_runtest_logstart(nodeid)
    progress.pytest_runtest_logreport(report("tests/a.py::test_1", "call", "passed"))
    progress.pytest_runtest_logreport(report("tests/a.py::test_1", "teardown", "passed"))
    progress.pytest_runtest_logreport(report("tests/b.py::test_3", "call", "failed"))
    progress.pytest_runtest_logreport(report("tests/b.py::test_3", "teardown", "failed"))
    assert progress.line() == "[0:00] 1 of 4 tests passed, 1 failed; running: a.py::test_2 (0 s)"


@pytest.mark.parametrize(
    ("env", "expected"),
    [({}, False), ({"CI": "true"}, True), ({"FIRNLINE_PROGRESS": "1"}, True)],
    ids=["by hand", "in CI", "asked for"],
)
def test_lines_are_for_runs_that_nobody_watches(
    monkeypatch: pytest.MonkeyPatch, env: dict[str, str], expected: bool
) -> None:
    for name in ("CI", "FIRNLINE_PROGRESS"):
        monkeypatch.delenv(name, raising=False)
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    assert wanted() is expected
