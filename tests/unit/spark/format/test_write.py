"""Writes of the data source beside changes of the table's columns, as Spark calls them."""

from __future__ import annotations

import logging
import pickle
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import firnline
from firnline.appends.append import Appender
from firnline.commit.base import take_base
from firnline.errors import CommitExpiredError, FirnlineError, SchemaConflictError, UsageError
from firnline.operations.mirror.check import run_check
from firnline.operations.operation import Work
from firnline.operations.options import Evolution, LazyOptions, SchemaFixOptions
from firnline.operations.schema.lazy import run_lazily
from firnline.operations.schema.run import run_schema_fix
from firnline.settings.mirrors import Mirror
from firnline.spark.format.options import Opened, opened
from firnline.spark.format.sink import StreamWriter
from firnline.spark.format.write import Writer, Written, begin, interval_of
from firnline.state.snapshot import read_snapshot
from firnline.table import Table
from tests.support.beside import Beside
from tests.support.effort import sample
from tests.support.on_store import RUN, engine, merge
from tests.support.on_store import opened as open_table
from tests.support.world import INTERRUPTED, INTERRUPTS, Fault, FaultyStore
from tools.s3server import StoreRoot

NARROW, WIDE = pa.int32(), pa.int64()
MIRROR = (Mirror.model_validate("delta"),)


def make(folder: Path, kind: pa.DataType = WIDE) -> tuple[Table, Opened]:
    """A table with rows 0 and 1 in column x, in one append each."""
    root = StoreRoot("file", f"file://{folder}/tables", {})
    table = open_table(root, partition_by=[], sort_by=[], merge={"min_inputs": 2})
    for number in range(2):
        Appender(table).append(pa.table({"x": pa.array([number], kind)}))
    return table, opened({"path": table.settings.root}, "{}")


def rows(number: int, **more: list[Any]) -> Iterator[pa.RecordBatch]:
    yield from pa.table({"x": pa.array([number], NARROW), **more}).to_batches()


def lazily(table: Table, **asked: Any) -> None:
    run_lazily(Work(table, RUN), LazyOptions(evolution=Evolution(**asked)))


def seen(table: Table, column: str) -> list[int]:
    return sorted(firnline.scan(table, [column]).to_arrow()[column].to_pylist())


def parts(table: Table) -> set[str]:
    return {meta.key for meta in table.store.list(table.paths.data_dir)}


def sent(writer: Writer) -> Writer:
    """As the tasks get it."""
    found: Writer = pickle.loads(pickle.dumps(writer))
    return found


@pytest.mark.long
def test_tasks_know_the_columns_of_the_moment_of_the_writes_sequence(tmp_path: Path) -> None:
    """Else the old name has no type, and under it the narrower one contradicts the table."""
    table, target = make(tmp_path)
    writer = Writer(target, {}, replaces=None)
    lazily(table, rename={"x": "y"})
    written = sent(writer).write(rows(2))
    writer.commit([written])
    assert read_snapshot(table.store, table.paths).schema == {"y": "BIGINT"}
    assert seen(table, "y") == [0, 1, 2]


@pytest.mark.long
def test_a_change_of_columns_that_contradicts_the_parts_ends_the_write(tmp_path: Path) -> None:
    table, target = make(tmp_path, NARROW)
    writer = Writer(target, {}, replaces=None)
    written = sent(writer).write(rows(2))
    options = SchemaFixOptions(evolution=Evolution(widen={"x": "BIGINT"}))
    run_schema_fix(Work(table, RUN, lambda: engine(table, tmp_path / "scratch")), options)
    before = parts(table)
    with pytest.raises(SchemaConflictError, match=r"BIGINT.*INTEGER.*run the write again"):
        writer.commit([written])
    assert parts(table) == before - {part.key for part in written.decoded()}
    assert seen(table, "x") == [0, 1]
    again = Writer(target, {}, replaces=None)
    again.commit([sent(again).write(rows(2))])
    assert seen(table, "x") == [0, 1, 2]


def mirrored(target: Opened) -> Opened:
    """The table with settings that name a mirror."""
    return replace(target, settings=target.settings.model_copy(update={"mirror": MIRROR}))


def shown(folder: Path) -> int:
    """Versions of the mirror of ``make``'s table."""
    return len(list(folder.glob("tables/**/_delta_log/*.json")))


@pytest.mark.long
def test_an_overwrite_publishes_the_mirror_and_an_append_does_if_it_is_asked_to(
    tmp_path: Path,
) -> None:
    table, target = make(tmp_path)
    target = mirrored(target)
    interval = {"replacecolumn": "x", "replacestart": "0", "replaceend": "10"}
    over = Writer(target, interval, replaces=interval_of(interval))
    over.commit([sent(over).write(rows(2))])
    assert (seen(table, "x"), shown(tmp_path)) == ([2], 1)
    plain = Writer(target, {}, replaces=None)
    plain.commit([sent(plain).write(rows(3))])
    assert shown(tmp_path) == 1
    asked = Writer(target, {"mirror": "true"}, replaces=None)
    asked.commit([sent(asked).write(rows(4))])
    assert (seen(table, "x"), shown(tmp_path)) == ([2, 3, 4], 2)
    assert run_check(table).same


@pytest.mark.long
def test_a_write_stands_though_the_mirror_cannot_be_published(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    table, target = make(tmp_path)
    target = mirrored(target)
    for number in (2, 3):
        writer = Writer(target, {"mirror": "true"}, replaces=None)
        with caplog.at_level(logging.WARNING, "firnline.operations.mirror.after"):
            writer.commit([sent(writer).write(rows(number))])
        for version in tmp_path.glob("tables/**/_delta_log/*.json"):
            version.write_text("{}\n")
    assert seen(table, "x") == [0, 1, 2, 3]
    assert "was not published: " in caplog.text


@pytest.mark.long
def test_a_write_without_a_mirror_to_publish_is_refused_before_it_begins(tmp_path: Path) -> None:
    _, target = make(tmp_path)
    for make_writer in (partial(Writer, replaces=None), StreamWriter):
        with pytest.raises(UsageError, match="name no mirror, and the option mirror would"):
            make_writer(target, {"mirror": "true"})


@pytest.mark.long
def test_a_column_that_somebody_else_brought_meanwhile_is_looked_at_before_the_commit(
    tmp_path: Path,
) -> None:
    table, target = make(tmp_path)
    writer = Writer(target, {}, replaces=None)
    written = sent(writer).write(rows(2, new=["x"]))
    Appender(table).append(pa.table({"new": [1.5]}))
    with pytest.raises(SchemaConflictError, match="run the write again"):
        writer.commit([written])
    assert read_snapshot(table.store, table.paths).schema["new"] == "DOUBLE"


@pytest.mark.long
def test_a_replace_that_took_longer_than_the_tables_commit_ttl_is_not_committed(
    tmp_path: Path,
) -> None:
    """The settings, here those of a root alone, may allow more: a sweep goes by the table."""
    root = StoreRoot("file", f"file://{tmp_path}/tables", {})
    table = open_table(root, partition_by=[], sort_by=[], commit_ttl="1m")
    Appender(table).append(pa.table({"x": [0]}))
    target = opened({"path": table.settings.root}, "{}")
    assert target.settings.commit_ttl > table.settings.commit_ttl
    options = {"replacecolumn": "x", "replacestart": "0", "replaceend": "9", "mode": "lazy"}
    writer = Writer(target, {}, replaces=interval_of(options))
    before = parts(table)
    written = sent(writer).write(rows(2))
    writer._begun = replace(writer._begun, at_ms=writer._begun.at_ms - 61_000)
    with pytest.raises(CommitExpiredError, match="longer than commit_ttl"):
        writer.commit([written])
    assert seen(table, "x") == [0]
    assert parts(table) == before


def test_what_a_write_begins_from_is_of_one_moment(tmp_path: Path) -> None:
    table, _ = make(tmp_path)
    store = Beside(table.store, what="/_log", act=lambda: lazily(table, rename={"x": "y"}))
    begun = begin(replace(table, store=store))
    assert (begun.q, dict(begun.columns)) == (1, {"y": "BIGINT"})


def batch(target: Opened, table: Table, between: Any) -> list[Written]:
    """What two tasks of a stream's batch wrote: each of them begins by itself."""
    first = StreamWriter(target, {"queryId": "q"}).write(rows(2))
    between()
    return [first, StreamWriter(target, {"queryId": "q"}).write(rows(3))]


@pytest.mark.long
def test_tasks_of_a_stream_that_saw_other_columns_are_not_one_append(tmp_path: Path) -> None:
    table, target = make(tmp_path)
    written = batch(target, table, lambda: lazily(table, rename={"x": "y"}))
    assert [message.begun.q for message in written] == [0, 1]
    sink = StreamWriter(target, {"queryId": "q"})
    with pytest.raises(SchemaConflictError, match=r"transaction 1 changed.*run the write again"):
        sink.commit(written, 0)
    assert len(parts(table)) == 2
    assert seen(table, "y") == [0, 1]
    sink.commit([StreamWriter(target, {"queryId": "q"}).write(rows(2))], 0)
    assert read_snapshot(table.store, table.paths).schema == {"y": "BIGINT", "x": "INTEGER"}


@pytest.mark.long
def test_tasks_of_a_stream_may_begin_before_and_after_a_merge(tmp_path: Path) -> None:
    table, target = make(tmp_path)
    written = batch(target, table, lambda: merge(table, tmp_path / "scratch"))
    assert [message.begun.q for message in written] == [0, 1]
    StreamWriter(target, {"queryId": "q"}).commit(written, 0)
    assert seen(table, "x") == [0, 1, 2, 3]


@pytest.mark.long
@pytest.mark.parametrize("interval", [False, True], ids=["append", "replace"])
@pytest.mark.parametrize("interrupt", INTERRUPTS)
def test_a_driver_that_is_interrupted_at_any_request_deletes_no_part_that_is_live(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, interval: bool, interrupt: str
) -> None:
    """Spark calls ``abort`` afterwards, and does not say how the commit ended."""
    options = {"replacecolumn": "x", "replacestart": "0", "replaceend": "9", "mode": "lazy"}
    replaces, after = (interval_of(options), [2]) if interval else (None, [0, 1, 2])

    def written_with(fault: Fault | None, where: str) -> FaultyStore:
        table, target = make(tmp_path / where)
        writer = Writer(target, {}, replaces=replaces)
        written = sent(writer).write(rows(2))
        store = FaultyStore(table.store, fault)
        with monkeypatch.context() as patch:
            patch.setattr(Opened, "table", lambda _: replace(table, store=store))
            with suppress(*INTERRUPTED, FirnlineError):
                writer.commit([written])
            if fault is not None:
                writer.abort([written])
        take_base(table)  # publishes what is committed
        assert seen(table, "x") in ([0, 1], after)
        assert read_snapshot(table.store, table.paths).live.keys() <= parts(table)
        return store

    calls = written_with(None, "whole").calls
    assert len(calls) > 2
    for at, kind in sample(
        list(product(range(len(calls)), ("before", "after"))), 2, interrupt, interval
    ):
        written_with(Fault(at, kind, interrupt), f"{at}{kind}")
