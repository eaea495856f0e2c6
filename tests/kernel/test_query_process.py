"""A user's query runs in a process that can be ended at any moment and has a bound of memory."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable

import pyarrow as pa
import pytest

from firnline.clock import SystemClock
from firnline.errors import UsageError
from firnline.ids import SystemIds
from firnline.kernel.duckdb import never
from firnline.kernel.merge import merge_group
from firnline.kernel.query import process as query_process
from firnline.kernel.query.process import (
    QueryRequest,
    QueryTooLargeError,
    check_query,
    run_query,
)
from tests.kernel.conftest import Group
from tests.kernel.test_query import COLUMNS, asked
from tests.support.query_server import QueryServer, fork_queries, query_server
from tests.support.world import SetClock

__all__ = ["query_server"]

START = query_process._start


@pytest.fixture(params=["started", "forked"], autouse=True)
def _way(
    request: pytest.FixtureRequest, query_server: QueryServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The product starts a program; most other tests fork a process that has to be no different."""
    monkeypatch.setattr(query_process, "_start", START)
    if request.param == "forked":
        fork_queries(query_server, monkeypatch)


def test_a_query_and_its_errors_come_back_from_the_process(group: Group) -> None:
    check_query("from _rows where k = 1", "_rows", COLUMNS, SystemClock())
    with pytest.raises(UsageError, match="reads 'elsewhere'"):
        check_query("from elsewhere", "_rows", COLUMNS, SystemClock())
    assert group.read(asked(group, "from _rows where k = 1"))["n"].to_pylist() == [10, 5]
    failed = asked(group, "select k, n, error('bad row')::VARCHAR as s from _rows where k = 1")
    assert failed.error_type == "UsageError"
    assert "bad row" in str(failed.error)


ENDLESS = "select k, n, s from _rows, range(1000000000000) as r(i) where i % 7 = 8"


def test_a_query_that_runs_too_long_is_ended(group: Group) -> None:
    result = asked(group, ENDLESS, time_limit_ms=500)
    assert result.error_type == "KernelError"
    assert "ran longer than" in str(result.error)


HUGE = "select k, list_sum(range(300000000))::BIGINT as n, s from _rows"


def test_one_function_call_that_never_looks_up_is_ended_too(group: Group) -> None:
    for query in (HUGE, HUGE.replace("300000000", "300000000 + (random() * 9)::BIGINT")):
        result = asked(group, query, time_limit_ms=1500)
        assert result.error_type == "KernelError"
        # Whichever bound it meets first: how fast it fills its memory depends on the machine.
        assert re.search(
            "ran longer than|does not fit into the memory|refused memory by the system",
            str(result.error),
        )


def test_a_query_that_needs_more_than_its_memory_is_an_error_and_no_dead_worker(
    group: Group,
) -> None:
    result = asked(group, HUGE.replace("300000000", "300000000 + (random() * 9)::BIGINT"))
    assert result.error_type == "KernelError"
    assert "kernel_memory" in str(result.error_next_step)
    assert not list(group.scratch.glob("*"))


def test_what_is_no_text_is_refused_before_it_is_sent() -> None:
    with pytest.raises(UsageError, match="it is not valid text"):
        check_query("from _rows where s = '\udce9'", "_rows", COLUMNS, SystemClock())


def test_a_constant_that_fills_the_memory_is_refused_before_any_part_is_read() -> None:
    with pytest.raises(UsageError, match="Failed to allocate"):
        check_query("from _rows limit list_sum(range(300000000))", "_rows", COLUMNS, SystemClock())


def test_a_query_may_be_longer_than_a_pipe_holds(group: Group) -> None:
    keys = ", ".join(map(str, range(30_000)))
    query = f"from _rows where k in ({keys})"
    check_query(query, "_rows", COLUMNS, SystemClock())
    assert len(group.read(asked(group, query))) == len(group.read(asked(group, "from _rows")))


def test_a_query_too_long_to_be_checked_is_that_and_no_mistake_of_its_text() -> None:
    keys = ", ".join(map(str, range(400_000)))
    with pytest.raises(QueryTooLargeError, match=r"within its memory.*very many values"):
        check_query(f"from _rows where k in ({keys})", "_rows", COLUMNS, SystemClock())


def test_a_query_that_shall_stop_stops(group: Group) -> None:
    keys = group.put(pa.table({"k": [1], "n": [1], "s": ["a"]}))
    asks = iter([False] * 8)
    # Not a query that grows: a quick machine fills its memory before anybody stops it.
    task = group.task(keys, COLUMNS, query=ENDLESS)
    result = merge_group(
        task, group.store, group.scratch, SystemIds(), SystemClock(), lambda: next(asks, True)
    )
    assert "was stopped" in str(result.error)


class _Endless:
    """A process that never ends; each wait for it takes as long as it is told."""

    def __init__(self, clock: SetClock, each_ms: int, ends_after: int = 100) -> None:
        self.clock, self.each_ms, self.ends_after = clock, each_ms, ends_after
        self.waits, self.killed, self.returncode = 0, False, 0

    def __enter__(self) -> _Endless:
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def communicate(self, timeout: float) -> tuple[bytes, None]:
        self.waits += 1
        if self.waits > self.ends_after:
            return b'{"rows": 7}', None
        self.clock.advance(self.each_ms)
        raise subprocess.TimeoutExpired("query", timeout)

    def kill(self) -> None:
        self.killed = True

    def wait(self) -> None:
        pass


REQUEST = QueryRequest(folder="/", memory=1, threads=1, source="_rows", query="from _rows")


def _run(monkeypatch: pytest.MonkeyPatch, process: _Endless, stopped: Callable[[], bool]) -> int:
    monkeypatch.setattr(query_process, "_start", lambda *_: process)
    return run_query(REQUEST, stopped, process.clock, limit_s=2)


def test_the_limit_is_a_time_however_long_each_wait_took(monkeypatch: pytest.MonkeyPatch) -> None:
    slow = _Endless(SetClock(), each_ms=1_500)
    with pytest.raises(subprocess.TimeoutExpired):
        _run(monkeypatch, slow, never)
    assert (slow.waits, slow.killed) == (2, True)


def test_what_it_takes_to_ask_whether_to_stop_counts_too(monkeypatch: pytest.MonkeyPatch) -> None:
    process = _Endless(SetClock(), each_ms=0)

    def slowly() -> bool:
        process.clock.advance(1_500)
        return False

    with pytest.raises(subprocess.TimeoutExpired):
        _run(monkeypatch, process, slowly)
    assert process.waits == 2


def test_waits_that_took_no_time_are_none(monkeypatch: pytest.MonkeyPatch) -> None:
    assert _run(monkeypatch, _Endless(SetClock(), each_ms=1, ends_after=500), never) == 7
