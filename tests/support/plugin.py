"""What every test may ask for: empty places in real stores; and no silent skipping in CI."""

from __future__ import annotations

import functools
import gc
import logging
import os
import re
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import hypothesis
import pytest

from firnline.errors import EnvironmentFaultError
from tests.support import outside_programs, progress
from tests.support.effort import FEW, FULL, few_of, in_turn, some_of
from tests.support.query_server import forked_queries, query_server
from tests.support.side_by_side import Rooms, holds_none, rank
from tools.azureserver import AzureServer
from tools.s3server import S3Server, StoreRoot
from tools.samples import sample_name

__all__ = ["forked_queries", "query_server"]

NO_SKIP = os.environ.get("FIRNLINE_NO_SKIP") == "1"

# A busy machine is no counterexample. Tests with a number of their own: tests/support/effort.py.
hypothesis.settings.register_profile("test", deadline=None, print_blob=True, max_examples=25)
hypothesis.settings.register_profile("full", deadline=None, print_blob=True, max_examples=1000)
hypothesis.settings.load_profile("full" if FULL else "test")


@pytest.hookimpl(trylast=True)  # there is a terminal only then
def pytest_configure(config: pytest.Config) -> None:
    outside_programs.refuse_unknown()
    # Whoever runs the tests may have credentials and a region set: no test may meet them.
    for name in [name for name in os.environ if name.startswith(("AWS_", "AZURE_", "GOOGLE_"))]:
        del os.environ[name]
    os.environ["AWS_EC2_METADATA_DISABLED"] = "true"
    # It logs the end of each connection, the last after pytest has closed what it logs to.
    logging.getLogger("py4j").setLevel(logging.WARNING)
    # All processes of a run draw the same samples, whatever is committed meanwhile.
    os.environ["FIRNLINE_TEST_SAMPLE"] = sample_name()
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    if progress.wanted() and reporter is not None and config.pluginmanager.has_plugin("dsession"):
        config.pluginmanager.register(progress.Progress(reporter), "firnline-progress")


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Rooms:
    return Rooms(config, log)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Name the sample, so that a failure in it can be played again."""
    if FEW:
        terminalreporter.write_line(
            "FIRNLINE_TESTS=few: this is a small part of the tests, for a machine on which all of "
            "them would take hours; with FIRNLINE_TESTS=sample they are run whatever it gives"
        )
    if not FULL:
        terminalreporter.write_line(f"sample: FIRNLINE_TEST_SAMPLE={sample_name()}")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Look for tests without the garbage collector, which would take a third of that time.

    What is loaded stays: the collector need not look at it again and again afterwards.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.collect()
        gc.freeze()


def pytest_sessionfinish() -> None:
    """At the end of the process it may go, or DuckDB reports its own types as leaked."""
    gc.unfreeze()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Read no file for nothing: each process of a run reads them all."""
    marks, tests = config.getoption("markexpr"), config.rootpath / "tests"
    if holds_none(collection_path, marks):
        return True
    # Runs of pytest within tests have folders of their own.
    ours = collection_path.match("test_*.py") and collection_path.is_relative_to(tests)
    return (FEW and ours and collection_path not in _few(tests, marks)) or None


@functools.cache
def _few(tests: Path, marks: str) -> set[Path]:
    files = [file for file in tests.rglob("test_*.py") if not holds_none(file, marks)]
    return few_of(files, tests)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave what is marked ``full`` to `make test-full`, and of a ``turn`` all but one test.

    What takes longest begins first.
    """
    for item in items:
        if item.nodeid.startswith("tests/unit/"):
            item.add_marker("unit")
    groups = {
        item.nodeid: mark.args[0] if mark.args else item.nodeid.partition("[")[0]
        for item in items
        for mark in item.iter_markers("turn")
    }
    chosen = in_turn(groups)

    def is_left_out(item: pytest.Item) -> bool:
        return bool(item.get_closest_marker("full")) or item.nodeid in groups.keys() - chosen

    kept = items if FULL else [item for item in items if not is_left_out(item)]
    if FEW:
        some = some_of([item.nodeid for item in kept])
        kept = [item for item in kept if item.nodeid in some]
    if len(kept) < len(items):
        config.hook.pytest_deselected(items=[*set(items).difference(kept)])
    items[:] = sorted(kept, key=rank)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """With FIRNLINE_NO_SKIP=1 a skipped test is a failed one that says why it was skipped."""
    report = yield
    if NO_SKIP and report.skipped and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = f"skipped, which FIRNLINE_NO_SKIP=1 forbids: {_reason(report.longrepr)}"
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """The same for whole modules that skip themselves while they are read."""
    report = yield
    if NO_SKIP and report.outcome == "skipped":
        report.outcome = "failed"
        report.longrepr = f"skipped, which FIRNLINE_NO_SKIP=1 forbids: {_reason(report.longrepr)}"
    return report


def _reason(longrepr: object) -> str:
    text = str(longrepr[2]) if isinstance(longrepr, tuple) else str(longrepr)
    return text.removeprefix("Skipped: ")


@pytest.fixture(scope="session")
def s3_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    """One real S3 server for the whole run, with keys of its own."""
    server = S3Server(tmp_path_factory.mktemp("s3") / "data")
    try:
        server.start()
    except EnvironmentFaultError as error:
        pytest.skip(str(error))
    yield server
    server.stop()


@pytest.fixture(scope="session")
def azure_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AzureServer]:
    """One Azurite for the whole run, with an account and a key of its own."""
    server = AzureServer(tmp_path_factory.mktemp("azure") / "log")
    try:
        server.start()
    except EnvironmentFaultError as error:
        pytest.skip(str(error))
    yield server
    server.stop()


@pytest.fixture
def s3_root(s3_server: S3Server, request: pytest.FixtureRequest, tmp_path: Path) -> StoreRoot:
    """An empty prefix of the S3 server, this test's own."""
    # The last folder's name differs even between two runs of one parametrised test.
    test = re.sub(r"[^a-zA-Z0-9]+", "-", tmp_path.name).strip("-")
    return StoreRoot("s3", s3_server.url(test), s3_server.env())


@pytest.fixture
def s3_environ(s3_root: StoreRoot, monkeypatch: pytest.MonkeyPatch) -> StoreRoot:
    """The same, with this process's environment set so that clients find it by themselves."""
    for name, value in s3_root.env.items():
        monkeypatch.setenv(name, value)
    return s3_root


@pytest.fixture(params=["file", "s3"])
def store_kind(request: pytest.FixtureRequest) -> str:
    """Every kind of store that is tested for real: a test that asks for it runs once for each."""
    kind: str = request.param
    return kind


@pytest.fixture
def store_root(store_kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> StoreRoot:
    """An empty place in a store of each kind in turn."""
    if store_kind == "s3":
        root: StoreRoot = request.getfixturevalue("s3_root")
        return root
    folder = tmp_path / "store"
    folder.mkdir()
    return StoreRoot("file", f"file://{folder}")
