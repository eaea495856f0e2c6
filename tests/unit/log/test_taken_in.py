"""Whose appends a transaction took in: said in its header, within a bound, and for good."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pytest

from firnline.appends.append import Appender
from firnline.clock import SystemClock
from firnline.ids import format_uuid7
from firnline.kernel.local import LocalEngine
from firnline.log import txn_file
from firnline.log.records import LogContent, Marker
from firnline.log.taken_in import NAMED_WRITERS, TakenIn, taken_in
from firnline.log.txn_file import RunIdentity, TxnHeader
from firnline.operations.merge.run import run_merge
from firnline.operations.operation import Work
from firnline.operations.options import MergeOptions
from firnline.paths import LogName, TablePaths
from firnline.state.history import history
from tests.support.world import FaultyStore, World, make_world

PATHS = TablePaths("t")
HEAD_BYTES = 64 * 1024
"""Of a transaction's file, which a history reads."""


def log_file(
    writer: str = "", parts: int = 1, rows: int | None = 10, tmb: int | None = None
) -> tuple[LogName, LogContent]:
    name = f"{writer}-{format_uuid7(5, 1)}" if writer else "worker.local"
    markers = [Marker(p=f"t/_data/{n}.parquet", b=1, t=5, n=rows, tmb=tmb) for n in range(parts)]
    return PATHS.parse_log(f"t/_log/5_{name}.jsonl"), LogContent(t=5, schema={}, markers=markers)


def append(world: World, writer: str, rows: int = 1) -> None:
    world.clock.advance(10)
    numbers = list(range(rows))
    Appender(world.table, writer=writer).append(pa.table({"d": [1] * rows, "n": numbers}))


def merge(world: World, scratch: Path) -> None:
    engine = LocalEngine(lambda: world.store, scratch, world.ids, SystemClock())
    run_merge(Work(world.table, RunIdentity(run_id="r"), lambda: engine), MergeOptions(full=True))


def two_appends_table() -> World:
    return make_world(partition_by=["d"], sort_by=["n"], merge={"min_inputs": 2})


def test_a_transaction_says_whose_appends_it_took_in(tmp_path: Path) -> None:
    world = two_appends_table()
    for writer, rows in (("web", 1), ("billing", 2), ("web", 3), ("firnline", 5)):
        append(world, writer, rows)
    merge(world, tmp_path)
    append(world, "billing", 7)
    merge(world, tmp_path)
    second, first = history(world.table)
    assert first.appends == (
        TakenIn(writer="web", appends=2, parts=2, rows=4),
        TakenIn(writer="billing", appends=1, parts=1, rows=2),
        TakenIn(appends=1, parts=1, rows=5),
    )
    assert second.appends == (TakenIn(writer="billing", appends=1, parts=1, rows=7),)


def test_a_transaction_says_nothing_where_no_writer_gave_itself_a_name(tmp_path: Path) -> None:
    world = two_appends_table()
    append(world, "firnline")
    append(world, "firnline")
    merge(world, tmp_path)
    (header,) = history(world.table)
    assert header.appends == ()
    assert b'"appends"' not in msgspec.json.encode(header)


def test_who_wrote_is_read_with_the_head_of_each_transaction_and_no_other_request(
    tmp_path: Path,
) -> None:
    world = two_appends_table()
    for writer in ("web", "billing"):
        append(world, writer)
        append(world, writer)
        merge(world, tmp_path)
    used = FaultyStore(world.store)
    found = history(replace(world.table, store=used))
    assert [header.appends[0].writer for header in found] == ["billing", "web"]
    calls = [call.split()[0] for call in used.calls]
    assert (len(calls), calls.count("list")) == (3, 1)


def test_log_files_of_transactions_and_without_a_live_part_are_no_appends() -> None:
    own = PATHS.parse_log(PATHS.txn_log(5, 1, format_uuid7(5, 1)))
    merged = PATHS.parse_log(f"t/_log/5_m_billing-{format_uuid7(5, 1)}.jsonl")
    _, content = log_file("billing")
    empty, dead = log_file("billing", parts=0), log_file("billing", tmb=6)
    assert taken_in([(own, content), (merged, content), empty, dead]) == ()


def test_rows_are_not_known_where_a_part_does_not_state_them() -> None:
    (named, unnamed) = taken_in([log_file("billing"), log_file(rows=None)])
    assert (named.rows, unnamed.rows, unnamed.parts) == (10, None, 1)


def test_no_more_than_twenty_writers_are_named_and_the_others_are_summed() -> None:
    logs = [log_file(f"w{n:02}", rows=100 - n) for n in range(NAMED_WRITERS + 3)]
    *named, more, unnamed = taken_in([*logs, log_file(rows=1_000)])
    assert [each.writer for each in named] == [f"w{n:02}" for n in range(NAMED_WRITERS)]
    assert more == TakenIn(more=3, appends=3, parts=3, rows=80 + 79 + 78)
    assert unnamed == TakenIn(appends=1, parts=1, rows=1_000)


def test_names_as_long_as_a_key_can_be_leave_the_head_within_what_a_history_reads() -> None:
    logs = [log_file(f"{n:03}" * 300, rows=10**12) for n in range(100)]
    header = TxnHeader(
        seq=1,
        txn=format_uuid7(5, 1),
        op="merge",
        base=0,
        t=5,
        log="x",
        partitions=tuple(f"ts_day=2026-01-01/region_bucket={n}" for n in range(1000)),
        appends=taken_in(logs),
    )
    assert len(msgspec.json.encode(header)) < HEAD_BYTES


def header_with(**fields: Any) -> TxnHeader:
    own = PATHS.txn_log(5, 1, format_uuid7(5, 1))
    plain = {"seq": 1, "txn": format_uuid7(5, 1), "op": "merge", "base": 0, "t": 5, "log": own}
    line = msgspec.json.encode({**plain, **fields})
    header = txn_file.decode_header(PATHS.txn(1), line + b"\n", PATHS)
    assert header is not None
    return header


def test_a_header_of_an_older_version_says_nothing_of_appends() -> None:
    assert header_with().appends == ()


def test_a_later_version_may_say_more_of_them() -> None:
    said = [{"writer": "billing", "appends": 1, "parts": 2, "bytes": 3}]
    assert header_with(appends=said).appends == (TakenIn(writer="billing", appends=1, parts=2),)


@pytest.mark.parametrize(
    ("taken", "words"),
    [
        (TakenIn(writer="web", appends=1, parts=1, rows=1), "web: 1 append, 1 row"),
        (TakenIn(appends=2, parts=9, rows=1_200), "not stated: 2 appends, 1,200 rows"),
        (TakenIn(writer="web", appends=2, parts=9), "web: 2 appends"),
        (TakenIn(more=3, appends=4, parts=9, rows=0), "3 more writers: 4 appends, 0 rows"),
    ],
)
def test_it_is_said_in_words(taken: TakenIn, words: str) -> None:
    assert taken.in_words() == words
