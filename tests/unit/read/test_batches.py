"""Rows as Arrow batches: the same whether Arrow or DuckDB decodes a part."""

from __future__ import annotations

import datetime
import gc
import io
import random
import threading
import weakref
from collections import deque
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import firnline
from firnline.appends.append import Appender
from firnline.errors import PartUnreadableError
from firnline.log.txn_file import RunIdentity
from firnline.operations.delete.run import run_delete
from firnline.operations.operation import Work
from firnline.operations.options import DeleteOptions
from firnline.read import duckdb
from firnline.read.batches import SAME, Ahead, Stored
from firnline.read.duckdb import BATCH_ROWS, Limits
from firnline.read.files import WHOLE
from firnline.read.scan import Scan
from firnline.read.task import ReadPart
from firnline.types.arrow import from_arrow, to_arrow
from tests.support.world import World, make_world

DAY = datetime.date(2013, 1, 5)
NOON = 1_357_387_200_000_123
"""Microseconds."""
LONG_AGO = -62_135_596_800_000_000
ROWS = pa.table(
    {
        **{
            f"{sign}{bits}": pa.array([None, 0, 127], getattr(pa, f"{sign}{bits}")())
            for sign in ("int", "uint")
            for bits in (8, 16, 32, 64)
        },
        "float": pa.array([float("nan"), None, -0.0], pa.float32()),
        "double": [float("-inf"), 1.5, None],
        "bool": [True, None, False],
        "text": ["", None, "ümlaut"],
        "bytes": [b"\xff\x00", None, b""],
        "date": [DAY, None, datetime.date(1, 1, 1)],
        "small": pa.array([Decimal("1.25"), None, Decimal("-3.00")], pa.decimal128(5, 2)),
        "large": pa.array([Decimal(10) ** 37, None, Decimal(-1)], pa.decimal128(38, 0)),
        "ts": pa.array([NOON, None, LONG_AGO], pa.timestamp("us")),
        "tz": pa.array([NOON, None, NOON], pa.timestamp("us", "UTC")),
    }
)


def table_of(*appends: pa.Table, **declared: Any) -> World:
    world = make_world(**declared)
    for rows in appends:
        world.clock.advance(10)
        Appender(world.table).append(rows)
    return world


def by_duckdb(scan: Scan) -> pa.Table:
    return duckdb.stream(scan.plan.task, scan.table.store, scan.limits()).read_all()


def by_arrow(scan: Scan, monkeypatch: pytest.MonkeyPatch) -> pa.Table:
    """Read without DuckDB: a test fails if it would be needed."""
    with monkeypatch.context() as patch:
        patch.setattr(duckdb, "open_connection", lambda _: pytest.fail("DuckDB reads"))
        return scan.arrow_reader().read_all()


def replaced(world: World, number: int, rows: pa.Table) -> str:
    """The object of a part becomes one of the same size or less, filled up, of another writer."""
    part = firnline.scan(world.table).plan.task.parts[number]
    sink = io.BytesIO()
    pq.write_table(rows, sink, compression="none", store_schema=False)
    data = sink.getvalue()
    footer = int.from_bytes(data[-8:-4], "little") + 8
    room = part.bytes - len(data)
    assert room >= 0, "the part that is replaced has to be the larger one"
    world.store.objects[part.key] = (
        data[:-footer] + b"\x00" * room + data[-footer:],
        world.clock.now,
    )
    return part.key


def test_arrow_gives_the_schema_and_the_values_of_duckdb(monkeypatch: pytest.MonkeyPatch) -> None:
    scan = firnline.scan(table_of(ROWS).table)
    assert all(SAME.fullmatch(kind) for kind in scan.columns.values())
    found, expected = by_arrow(scan, monkeypatch), by_duckdb(scan)
    assert found.schema.equals(expected.schema, check_metadata=True)
    assert str(found.to_pylist()) == str(expected.to_pylist())  # NaN equals itself as text


@pytest.mark.parametrize(
    "kind",
    ["INTEGER[]", "STRUCT(a INTEGER)", "UUID", "JSON", "TIME", "HUGEINT", "TIMESTAMP_NS", "BIT"],
)
def test_types_of_which_arrow_gives_others_are_left_to_duckdb(kind: str) -> None:
    assert not SAME.fullmatch(kind)


def test_every_type_that_arrow_reads_has_one_form_in_arrow() -> None:
    kinds = from_arrow(ROWS.schema)
    assert to_arrow(kinds) == ROWS.schema


@pytest.mark.parametrize(
    "options",
    [{"where": "int64 = 0"}, {"dedup": True}],
    ids=["a condition", "one row per key"],
)
def test_what_arrow_cannot_decide_is_read_by_duckdb(
    options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    world = table_of(ROWS, primary_key=["int64"])
    scan = firnline.scan(world.table, **options)
    with pytest.raises(pytest.fail.Exception, match="DuckDB reads"):
        by_arrow(scan, monkeypatch)


def test_parts_with_hidden_rows_are_read_by_duckdb_beside_the_others() -> None:
    world = table_of(pa.table({"a": [1, 2]}), pa.table({"a": [3]}))
    where = DeleteOptions(where="a = 2", mode="lazy")
    run_delete(
        Work(world.table, RunIdentity(run_id="r"), lambda: pytest.fail("no part is read")), where
    )
    assert sorted(firnline.scan(world.table).to_arrow()["a"].to_pylist()) == [1, 3]


def test_a_part_without_a_column_has_nulls_there(monkeypatch: pytest.MonkeyPatch) -> None:
    world = table_of(pa.table({"a": [1, 2]}), pa.table({"a": [3], "b": ["x"]}))
    rows = by_arrow(firnline.scan(world.table), monkeypatch).sort_by("a").to_pylist()
    assert rows == [{"a": 1, "b": None}, {"a": 2, "b": None}, {"a": 3, "b": "x"}]
    alone = by_arrow(firnline.scan(world.table, columns=["b"]), monkeypatch)
    assert sorted(alone["b"].to_pylist(), key=str) == [None, None, "x"]


@pytest.mark.long
def test_a_part_of_another_type_is_converted_by_duckdb_and_not_opened_by_every_thread(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    wide = pa.table({"a": list(range(2_000))})
    world = table_of(*[wide] * 8)
    for number in range(8):
        replaced(world, number, pa.table({"a": pa.array([number], pa.int32())}))
    scan = firnline.scan(world.table)
    before = world.store.counters.get
    found = scan.to_arrow(threads=2)
    assert found.schema.field("a").type == pa.int64()
    assert sorted(found["a"].to_pylist()) == list(range(8))
    assert world.store.counters.get - before <= 8 + 2
    with pytest.raises(pytest.fail.Exception, match="DuckDB reads"):
        by_arrow(scan, monkeypatch)


def test_text_that_is_not_utf8_is_an_error_that_names_the_part() -> None:
    world = table_of(pa.table({"a": [f"text {n}" for n in range(2_000)]}))
    key = replaced(world, 0, pa.table({"a": pa.array([b"\xff\xfe"], pa.binary()).view("string")}))
    scan = firnline.scan(world.table)
    with pytest.raises(PartUnreadableError, match=f"(?s){key}.*verify --deep"):
        scan.to_arrow()
    with pytest.raises(PartUnreadableError, match=key):
        by_duckdb(scan)


def test_batches_are_of_bounded_size() -> None:
    world = table_of(pa.table({"a": range(3 * BATCH_ROWS // 2)}))
    reader = firnline.scan(world.table).arrow_reader()
    assert sorted(len(batch) for batch in reader) == [BATCH_ROWS // 2, BATCH_ROWS]


@pytest.mark.long
def test_a_small_row_group_is_decoded_at_once_and_given_in_batches(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    decoded: list[int] = []
    batches = Stored.batches

    def watched(stored: Stored, names: list[str]) -> Iterator[pa.RecordBatch]:
        for batch in batches(stored, names):
            decoded.append(len(batch))
            yield batch

    monkeypatch.setattr(Stored, "batches", watched)
    small, large = 3 * BATCH_ROWS // 2, 5 * BATCH_ROWS // 2
    for rows, expected in ((small, [small]), (large, [BATCH_ROWS] * 2 + [BATCH_ROWS // 2])):
        world = table_of(pa.table({"a": range(rows)}))
        found = firnline.scan(world.table).to_arrow()
        assert sorted(found["a"].to_pylist()) == list(range(rows))
        assert decoded == expected
        decoded.clear()


@pytest.mark.parametrize(
    ("columns", "spans"), [(None, 1), (["b"], 1), (["a", "d"], 2)], ids=["all", "one", "apart"]
)
def test_a_large_part_is_a_request_for_its_footer_and_one_for_each_row_group(
    columns: list[str] | None, spans: int
) -> None:
    noise = random.Random(3)
    values = {name: [noise.randbytes(16) for _ in range(30_000)] for name in "abcd"}
    world = table_of(pa.table(values), merge={"row_group_rows": 10_000})
    scan = firnline.scan(world.table, columns=columns)
    (part,) = scan.plan.task.parts
    assert part.bytes > WHOLE
    data = world.store.objects[part.key][0]
    groups = pq.ParquetFile(pa.BufferReader(data)).num_row_groups
    before = world.store.counters.as_dict()
    found = scan.to_arrow()
    after = world.store.counters.as_dict()
    assert found == pa.table(values).select(columns or list(values))
    assert after["get"] - before["get"] == 1 + spans * groups


def test_a_reader_that_is_dropped_leaves_no_thread() -> None:
    world = table_of(*[pa.table({"a": range(2 * BATCH_ROWS)})] * 3)
    reader = firnline.scan(world.table).arrow_reader(threads=2)
    reader.read_next_batch()
    del reader
    assert not [t for t in threading.enumerate() if t.name.startswith("firnline-decode")]


@pytest.mark.long
@pytest.mark.parametrize(("memory", "alone"), [(10**9, False), (1_000, True)])
def test_as_many_batches_are_decoded_at_a_time_as_memory_allows(memory: int, alone: bool) -> None:
    lock, running, most = threading.Lock(), 0, 0

    def decode(_part: ReadPart) -> Iterator[pa.RecordBatch]:
        nonlocal running, most
        yield pa.record_batch({"a": [0] * 100})  # the size of a batch is known when there is one
        for _ in range(4):
            with lock:
                running += 1
                most = max(most, running)
            threading.Event().wait(0.01)
            with lock:
                running -= 1
            yield pa.record_batch({"a": [0] * 100})

    parts = deque(ReadPart(key=name, bytes=1, place=0, partition=0) for name in "abcd")
    ahead = Ahead(decode, Limits(memory, 4, Path("spill")), parts)
    assert sum(len(batch) for batch in ahead.batches()) == 4 * 500
    assert (most == 1) is alone


def test_a_thread_goes_on_without_the_reader_as_far_as_two_batches_for_each_thread() -> None:
    lock, decoded = threading.Lock(), 0
    full = threading.Event()

    def decode(_part: ReadPart) -> Iterator[pa.RecordBatch]:
        nonlocal decoded
        for _ in range(10):
            with lock:
                decoded += 1
                if decoded == 5:  # one that was taken, and two for each thread
                    full.set()
            yield pa.record_batch({"a": [0]})

    parts = deque(ReadPart(key=name, bytes=1, place=0, partition=0) for name in "abc")
    ahead = Ahead(decode, Limits(10**9, 2, Path("spill")), parts)
    batches = ahead.batches()
    next(batches)
    assert full.wait(60)
    threading.Event().wait(0.05)
    assert decoded <= 6
    assert sum(1 for _ in batches) == 29


def test_an_error_of_a_thread_is_the_readers_and_keeps_nothing_alive() -> None:
    class Held:
        pass

    held = Held()
    seen = weakref.ref(held)

    def decode(_part: ReadPart, held: Held = held) -> Iterator[pa.RecordBatch]:
        yield pa.record_batch({"a": [0]})
        assert isinstance(held, Held)
        raise PartUnreadableError("damaged", next_step="restore it")

    parts = deque([ReadPart(key="a", bytes=1, place=0, partition=0)])
    ahead = Ahead(decode, Limits(10**9, 2, Path("spill")), parts)
    gc.disable()
    try:
        with pytest.raises(PartUnreadableError, match="damaged"):
            list(ahead.batches())
        del decode, held, ahead
        assert seen() is None
    finally:
        gc.enable()
