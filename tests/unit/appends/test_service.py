"""An Appender acknowledges what is written, refuses what does not fit, and hides no failure."""

from __future__ import annotations

import datetime
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import wait
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from firnline.appends.append import Appender as OneAppend
from firnline.appends.buffer import Buffer
from firnline.appends.intake import RowValidator, take_rows
from firnline.appends.service import Appender
from firnline.commit.base import take_base
from firnline.commit.transaction import Change, commit
from firnline.errors import (
    AppenderFullError,
    CommitUnknownError,
    FirnlineError,
    FlushFailedError,
    PartSchemaError,
    SchemaConflictError,
    StoreUnavailableError,
    UsageError,
)
from firnline.log.txn_file import Counts, RunIdentity
from firnline.state.snapshot import read_snapshot
from firnline.store.base import Store
from firnline.table import Table
from tests.support.appends import Broken, breakable, down, keys, make, rows_of, unknown
from tests.support.programs import HUNG_SECONDS

HOUR = 3_600_000
"""Nothing is written for its age in these tests, but where they say so."""
WAIT = 60
"""Seconds: a test that hangs fails."""


def quiet(table: Table, **given: Any) -> Appender:
    return Appender(table, **{"max_age_ms": HOUR, **given})


class Gate(Broken):
    """A store whose uploads of parts wait until they are let through."""

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self.opened = threading.Event()
        self.reached = threading.Event()

    def put_file(self, key: str, file: Path | bytes) -> None:
        self.reached.set()
        assert self.opened.wait(WAIT)
        self._store.put_file(key, file)


def gated() -> tuple[Table, Gate]:
    table = make()
    gate = Gate(table.store)
    return replace(table, store=gate), gate


@pytest.mark.long
def test_rows_of_every_form_are_there_once_when_they_are_acknowledged(tmp_path: Path) -> None:
    table = make(sort_by=["n"])
    with quiet(table) as appender:
        acks = [
            appender.append({"n": 1, "s": "one"}),
            appender.append([{"n": 3, "s": "three"}, {"s": "zwölf", "n": 12}]),
            appender.append(pa.table({"s": ["two"], "n": [2]})),
            appender.append(pa.record_batch({"n": [5]})),
            appender.append([{"n": 4, "x": 0.5}]),
        ]
        assert not keys(table, "_log")
        (result,) = appender.flush()
    assert all(ack.result(0) is result for ack in acks)
    assert result.rows == 6
    assert len(result.parts) == len(keys(table, "_log")) == 1
    rows = rows_of(table, tmp_path)
    assert [row["n"] for row in rows] == [1, 2, 3, 4, 5, 12]
    assert [row["s"] for row in rows] == ["one", "two", "three", None, None, "zwölf"]
    assert [row["x"] for row in rows] == [None, None, None, 0.5, None, None]


def test_several_partitions_are_one_log_file_and_a_missing_partition_column_is_null() -> None:
    table = make(partition_by=["month(d)"])
    january, may = datetime.date(2013, 1, 9), datetime.date(2013, 5, 1)
    with quiet(table) as appender:
        appender.append([{"n": 1, "d": january}, {"n": 2, "d": may}])
        appender.flush()
        appender.append({"n": 3})
        appender.flush()
    assert list(read_snapshot(table.store, table.paths).partitions) == [
        "d_month=2013-01",
        "d_month=2013-05",
        "d_month=__null__",
    ]
    assert len(keys(table, "_log")) == 2


def test_a_flush_costs_one_list_its_parts_and_one_log_file() -> None:
    table = make()
    with quiet(table) as appender:
        appender.append({"n": 1})
        appender.flush()
        before = table.store.counters.as_dict()
        for n in range(100):
            appender.append({"n": n})
        appender.flush()
        after = table.store.counters.as_dict()
    assert {k: after[k] - before[k] for k in ("get", "put", "list", "head", "delete")} == {
        "get": 0,
        "put": 2,
        "list": 1,
        "head": 0,
        "delete": 0,
    }


@pytest.mark.parametrize("bound", [{"max_rows": 10}, {"max_bytes": 160}])
def test_a_buffer_is_written_when_it_has_enough_rows_or_bytes(bound: dict[str, int]) -> None:
    table = make()
    with quiet(table, **bound) as appender:
        appender.append({"a": 1, "b": 1})
        acks = [appender.append({"a": n, "b": n}) for n in range(29)]
        first = acks[0].result(WAIT)
        assert first.rows == 10
    assert sum(ack.rows for ack in {ack.result(0).t: ack.result(0) for ack in acks}.values()) == 30


@pytest.mark.long
def test_a_buffer_is_written_when_its_first_row_has_waited_long_enough(tmp_path: Path) -> None:
    root = f"file://{tmp_path}/t"
    with Appender(root, max_age_ms=1) as appender:
        assert appender.append({"n": 1}).result(WAIT).rows == 1


@pytest.mark.parametrize(
    ("rows", "error", "piece"),
    [
        ({"n": "one"}, PartSchemaError, "'n'"),
        ({"n": 2**63}, PartSchemaError, "'n'"),
        ([{"n": 7}, {"n": 1.5}], PartSchemaError, "'n'"),
        ({"s": "\ud800"}, PartSchemaError, "'s'"),
        ({"N": 7}, SchemaConflictError, "case"),
        ({"z": None}, PartSchemaError, "'z'"),
        ([{"z": 7}, {"z": "x"}], PartSchemaError, "'z'"),
        ({}, UsageError, "no columns"),
        ({7: 7}, PartSchemaError, "7 is not a column name"),
        ([{"n": 7}, 7], UsageError, "a row is of type int"),
        (7, UsageError, "holds no rows"),
        (pa.table({"n": ["x"]}), SchemaConflictError, "'n' is BIGINT"),
    ],
    ids=str,
)
def test_rows_that_do_not_fit_are_their_callers_error_and_nobody_elses(
    rows: object, error: type[FirnlineError], piece: str, tmp_path: Path
) -> None:
    table = make()
    OneAppend(table).append(pa.table({"n": [0], "s": ["x"]}))
    with quiet(table) as appender:
        appender.append({"n": 1})
        with pytest.raises(error, match=piece):
            appender.append(rows)
        appender.append({"n": 2, "z": 1})
        (result,) = appender.flush()
    assert result.rows == 2
    assert sorted(row["n"] for row in rows_of(table, tmp_path)) == [0, 1, 2]


def test_a_dictionary_that_changes_after_the_call_changes_nothing(tmp_path: Path) -> None:
    table = make()
    with quiet(table) as appender:
        row = {"n": 1}
        for n in range(5):
            row["n"] = n
            appender.append(row)
    assert sorted(r["n"] for r in rows_of(table, tmp_path)) == [0, 1, 2, 3, 4]


@pytest.mark.long
def test_when_too_many_buffers_are_under_way_an_append_is_refused_or_waits() -> None:
    table, gate = gated()
    appender = quiet(table, max_rows=1, max_frozen=1, max_wait_ms=0)
    appender.append({"n": 1})
    assert gate.reached.wait(WAIT)
    appender.append({"n": 2})
    with pytest.raises(AppenderFullError, match="max_wait_ms"):
        appender.append({"n": 3})
    appender._max_wait_ms = None
    done: list[int] = []
    waiting = threading.Thread(target=lambda: done.append(appender.append({"n": 4}).result().rows))
    waiting.start()
    waiting.join(0.05)
    assert waiting.is_alive()
    gate.opened.set()
    waiting.join(WAIT)
    assert done == [1]
    appender.close()
    assert sum(m.n or 0 for m in read_snapshot(table.store, table.paths).live.values()) == 3


class Held(Broken):
    """A store that keeps threads named ``held`` waiting at their listings."""

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self.opened = threading.Event()
        self.reached = threading.Event()

    def list(self, *where: Any) -> Any:
        if threading.current_thread().name == "held":
            self.reached.set()
            assert self.opened.wait(WAIT)
        return self._store.list(*where)


@pytest.fixture
def held() -> Iterator[tuple[Table, Held]]:
    """A table whose store holds a thread, until the test ends at the latest."""
    table = make()
    store = Held(table.store)
    yield replace(table, store=store), store
    store.opened.set()


def in_thread(act: Callable[[], Any], name: str) -> tuple[threading.Thread, list[Any]]:
    """Do something in a thread; what it returned or raised is in the list once it has ended."""
    outcome: list[Any] = []

    def run() -> None:
        try:
            outcome.append(act())
        except FirnlineError as error:
            outcome.append(error)

    thread = threading.Thread(target=run, name=name)
    thread.start()
    return thread, outcome


def test_a_call_whose_columns_are_known_waits_for_no_request_of_another(
    held: tuple[Table, Held],
) -> None:
    table, store = held
    appender = quiet(table, max_wait_ms=0)
    first = appender.append({"n": 1})
    slow, outcome = in_thread(lambda: appender.append({"n": 2, "new": 1}), "held")
    assert store.reached.wait(WAIT)
    others = [appender.append(rows) for rows in ({"n": 3}, pa.table({"n": [4]}))]
    assert slow.is_alive()
    store.opened.set()
    slow.join(WAIT)
    (ack,) = outcome
    appender.close()
    assert {first, *others, ack} == {first}
    assert first.result(0).rows == 4
    assert read_snapshot(table.store, table.paths).schema == {"n": "BIGINT", "new": "BIGINT"}


def test_a_call_that_needs_what_another_reads_waits_no_longer_than_for_room(
    held: tuple[Table, Held],
) -> None:
    table, store = held
    appender = quiet(table, max_wait_ms=0)
    slow, outcome = in_thread(lambda: appender.append({"n": 1}), "held")
    assert store.reached.wait(WAIT)
    with pytest.raises(AppenderFullError, match="another call reads the columns of table t"):
        appender.append({"n": 2})
    store.opened.set()
    slow.join(WAIT)
    appender.append({"n": 3})
    appender.close()
    assert outcome[0].result(0).rows == 2


def test_calls_that_need_the_same_columns_read_them_once(held: tuple[Table, Held]) -> None:
    table, store = held
    with quiet(make()) as alone:
        before = alone._table.store.counters.as_dict()
        alone.append({"n": 1})
        alone.append({"n": 1, "new": 1})
        once = alone._table.store.counters.list - before["list"]
    appender = quiet(table)
    for rows in ({"n": 1}, {"n": 1, "new": 1}):
        store.opened.clear()
        store.reached.clear()
        slow, _ = in_thread(partial(appender.append, rows), "held")
        assert store.reached.wait(WAIT)
        waiting = [in_thread(partial(appender.append, rows), "waits")[0] for _ in range(3)]
        store.opened.set()
        for thread in (slow, *waiting):
            thread.join(WAIT)
    assert table.store.counters.list == once
    (result,) = appender.flush()
    assert result.rows == 8
    appender.close()


def test_rows_are_not_taken_by_an_appender_that_was_closed_while_their_columns_were_read(
    held: tuple[Table, Held],
) -> None:
    table, store = held
    appender = quiet(table)
    slow, outcome = in_thread(lambda: appender.append({"n": 1}), "held")
    assert store.reached.wait(WAIT)
    appender.close()
    store.opened.set()
    slow.join(WAIT)
    assert isinstance(outcome[0], UsageError)
    assert not keys(table, "_log")


def test_a_failed_reading_is_the_error_of_its_call_and_the_next_one_reads_again() -> None:
    table = make()
    appender = quiet(table)
    breakable(table).before["list"] = down()
    with pytest.raises(StoreUnavailableError):
        appender.append({"n": 1})
    breakable(table).before.clear()
    appender.append({"n": 2})
    assert [result.rows for result in appender.flush()] == [1]
    appender.close()


def test_a_stream_that_waits_for_its_rows_holds_nobody_up() -> None:
    table = make()
    more, asked = threading.Event(), threading.Event()

    def stream() -> Iterator[pa.RecordBatch]:
        yield pa.record_batch({"n": [1]})
        asked.set()
        assert more.wait(WAIT)
        yield pa.record_batch({"n": [2]})

    with quiet(table, max_wait_ms=0) as appender:
        slow, outcome = in_thread(lambda: appender.append(stream()), "stream")
        assert asked.wait(WAIT)
        assert [r.rows for r in (appender.append({"n": 3}), appender.flush())[1]] == [1]
        more.set()
        slow.join(WAIT)
    assert outcome[0].result(0).rows == 2


def test_a_stream_is_read_only_if_there_is_room_and_then_it_is_taken() -> None:
    table, gate = gated()
    appender = quiet(table, max_rows=1, max_frozen=1, max_wait_ms=0)
    appender.append({"n": 1})
    assert gate.reached.wait(WAIT)

    def filled() -> Iterator[pa.RecordBatch]:
        appender.append({"n": 2})  # the last place goes to another call meanwhile
        yield pa.record_batch({"n": [3]})

    taken = appender.append(filled())
    untouched = iter([pa.record_batch({"n": [4]})])
    with pytest.raises(AppenderFullError):
        appender.append(untouched)
    assert next(untouched).num_rows == 1
    gate.opened.set()
    appender.close()
    assert taken.result(0).rows == 2


def test_a_failed_flush_is_told_to_its_futures_and_to_the_next_call_once(tmp_path: Path) -> None:
    table = make()
    appender = quiet(table)
    appender.append({"n": 1})
    breakable(table).before["put_file"] = down()
    with pytest.raises(FlushFailedError, match="the store is down") as told:
        appender.flush()
    assert isinstance(told.value.__cause__, StoreUnavailableError)
    ack = appender.append({"n": "text, for no row gave the column its type"})
    with pytest.raises(FlushFailedError):
        appender.flush()
    with pytest.raises(StoreUnavailableError):
        ack.result(0)
    asked = appender.append({"n": 3})
    with appender._changed:
        appender._freeze()
    with pytest.raises(StoreUnavailableError):
        asked.result(WAIT)
    breakable(table).before.clear()
    appender.append({"n": 4})  # no FlushFailedError: the future has told it
    appender.close()
    assert [row["n"] for row in rows_of(table, tmp_path)] == [4]
    assert len(keys(table, "_data")) == 1


def test_a_failure_nobody_asked_for_is_raised_by_the_next_append_which_takes_nothing() -> None:
    table = make()
    appender = quiet(table, max_rows=1)
    breakable(table).after["put_new"] = unknown()
    breakable(table).before["get"] = down()
    lost = appender.append({"n": 1})
    wait([lost], WAIT)
    with pytest.raises(FlushFailedError) as told:
        appender.append({"n": 2})
    assert isinstance(told.value.__cause__, CommitUnknownError)
    breakable(table).after.clear()
    breakable(table).before.clear()
    appender.close()
    appender.close()
    assert sum(m.n or 0 for m in read_snapshot(table.store, table.paths).live.values()) == 1


def test_a_transaction_between_two_flushes_is_their_sequence_and_only_new_log_files_are_read() -> (
    None
):
    table = make()
    for n in range(5):
        OneAppend(table).append(pa.table({"n": [n]}))
    with quiet(table) as appender:
        appender.append({"n": 1})
        (first,) = appender.flush()
        OneAppend(table).append(pa.table({"w": ["x"]}))
        nothing = Change("merge", (), (), Counts())
        commit(table, take_base(table), nothing, RunIdentity(run_id="r"))
        reads = table.store.counters.get
        appender.append({"n": 2})
        (second,) = appender.flush()
        # The transaction has folded all others; its header says what the table is.
        assert table.store.counters.get - reads == 2
        assert (first.q, second.q) == (0, 1)
        with pytest.raises(PartSchemaError, match="'w'"):
            appender.append({"w": 1})


def test_a_column_that_another_writer_named_since_keeps_that_writers_type() -> None:
    table = make()
    with quiet(table) as appender:
        appender.append({"n": 1})
        OneAppend(table).append(pa.table({"w": ["x"]}))
        with pytest.raises(SchemaConflictError, match="'w' is VARCHAR"):
            appender.append({"w": 1})
        appender.append({"w": "y"})
    assert read_snapshot(table.store, table.paths).schema == {"n": "BIGINT", "w": "VARCHAR"}


def test_rows_that_wait_while_their_column_becomes_wider_stand_in_nobody_s_way() -> None:
    table = make()
    waiting = Buffer(opened_ms=0)
    waiting.add_table(pa.table({"n": pa.array([1], pa.int32())}), {"n": "INTEGER"})
    writer = OneAppend(table, known_schema={"n": "BIGINT"})
    validator = RowValidator(writer, lambda: [waiting.columns])
    rows = take_rows([{"n": 2**40}])
    assert validator.look(rows) is None
    validator.read(rows)()
    put = validator.look(rows)
    assert put is not None
    put(waiting)
    batches = [batch for rows in waiting.freeze() for batch in rows.to_batches()]
    written = OneAppend(table, known_schema={"n": "BIGINT"}).append(batches)
    assert written.rows == 2
    assert read_snapshot(table.store, table.paths).schema == {"n": "BIGINT"}


def test_many_threads_lose_and_double_nothing(tmp_path: Path) -> None:
    table = make()
    acks: list[Any] = []
    with quiet(table, max_rows=7, max_frozen=2) as appender:

        def work(start: int) -> None:
            acks.extend([appender.append({"n": n}) for n in range(start, start + 50)])

        threads = [threading.Thread(target=work, args=(k * 50,)) for k in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(WAIT)
    assert all(ack.result(0).log_key for ack in acks)
    assert sorted(row["n"] for row in rows_of(table, tmp_path)) == list(range(200))


def test_an_appender_is_of_no_use_after_it_was_closed_or_its_process_forked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    appender = quiet(make())
    with monkeypatch.context() as patch:
        patch.setattr(os, "getpid", lambda: -1)
        with pytest.raises(UsageError, match="forked"):
            appender.append({"n": 1})
    appender.close()
    with pytest.raises(UsageError, match="closed"):
        appender.append({"n": 1})


def test_bounds_and_partitions_that_cannot_be_are_refused_at_once() -> None:
    with pytest.raises(UsageError, match="max_rows is 0"):
        Appender(make(), max_rows=0)
    with pytest.raises(UsageError, match="takes partitions from"):
        Appender(make(partition_by=["n"]), partition="n=1")
    table = make(append={"service": {"rows": 3, "bytes": "1MiB", "age": "5s", "frozen": 4}})
    appender = Appender(table, max_rows=9)
    bounds = appender._bounds
    assert (bounds.rows, bounds.bytes, bounds.age_ms, bounds.frozen) == (9, 2**20, 5_000, 4)
    appender.close()


_STOPPED = """
import os, random, signal, sys, threading, time
import firnline

def interrupt():
    time.sleep(random.uniform(0.05, 0.15))
    os.kill(os.getpid(), signal.SIGINT)

for turn in range(int(sys.argv[2])):
    acks = []
    try:
        with firnline.Appender(f"file://{sys.argv[1]}/{turn}") as appender:
            acks.append(appender.append({"n": 0}))
            threading.Thread(target=interrupt).start()
            while True:
                acks.append(appender.append({"n": len(acks)}))
    except KeyboardInterrupt:
        print(sum(ack.done() for ack in acks) - len(acks))
"""


@pytest.mark.long
def test_an_interrupt_between_any_two_instructions_of_append_ends_with_all_rows_written(
    tmp_path: Path,
) -> None:
    turns = 20
    command = [sys.executable, "-c", _STOPPED, str(tmp_path), str(turns)]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=HUNG_SECONDS, check=False)
    assert (ran.stdout.split(), ran.returncode) == (["0"] * turns, 0)
