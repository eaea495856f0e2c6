"""One line a minute: how many tests have passed and what runs now. For people who wait for CI.

Only where tests run in processes of their own (`pytest -n`): while a test runs in the process that
reports, pytest takes all that is printed for the test's.
"""

from __future__ import annotations

import os
import threading
import time

import pytest

EVERY_SECONDS = 60.0


class Progress:
    """Counts what ends and says so once a minute, in the process that reports.

    Args:
        reporter: pytest's terminal.
        every: seconds between two lines.
    """

    def __init__(self, reporter: pytest.TerminalReporter, every: float = EVERY_SECONDS) -> None:
        self._reporter = reporter
        self._every = every
        self._began = time.monotonic()
        self._total = 0
        self._passed = 0
        self._failed: set[str] = set()
        self._running: dict[str, float] = {}
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._report_progress, name="progress", daemon=True)

    def line(self) -> str:
        """Return how far the run is."""
        now = time.monotonic()
        running = [
            f"{nodeid.removeprefix('tests/')} ({now - began:.0f} s)"
            for nodeid, began in sorted(self._running.items(), key=lambda each: each[1])
        ]
        minutes, seconds = divmod(round(now - self._began), 60)
        if not self._total:
            return f"[{minutes:d}:{seconds:02d}] looking for tests"
        return (
            f"[{minutes:d}:{seconds:02d}] {self._passed} of {self._total} tests passed, "
            f"{len(self._failed)} failed; running: {', '.join(running) or 'none'}"
        )

    # --- pytest's hooks ---------------------------------------------------------------------------

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self._total = self._total or len(session.items)

    def pytest_xdist_node_collection_finished(self, ids: list[str]) -> None:
        self._total = len(ids)

    def pytest_runtestloop(self) -> None:
        if not self._thread.is_alive():
            self._thread.start()

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self._running[nodeid] = time.monotonic()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self._failed.add(report.nodeid)
        if report.when == "teardown":
            self._running.pop(report.nodeid, None)
            self._passed += report.nodeid not in self._failed

    def pytest_report_teststatus(self, report: pytest.TestReport) -> tuple[str, str, str] | None:
        """Print no dot for what passes: lines say it."""
        return ("passed", "", "PASSED") if report.when == "call" and report.passed else None

    def pytest_sessionfinish(self) -> None:
        self._stopped.set()

    def _report_progress(self) -> None:
        while not self._stopped.wait(self._every):
            self._reporter.ensure_newline()
            self._reporter.write_line(self.line())
            self._reporter.flush()


def wanted() -> bool:
    """Return True where nobody watches dots: in CI, and where the Makefile asks for it."""
    return os.environ.get("CI") == "true" or os.environ.get("FIRNLINE_PROGRESS") == "1"
