from __future__ import annotations

import datetime
import itertools
import json
import uuid
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firnline.append import Appender, AppendResult
from firnline.errors import (
    AppendExpiredError,
    CommitUnknownError,
    FirnlineError,
    OutcomeUnknownError,
    PartSchemaError,
    PartUnreadableError,
    SchemaConflictError,
    ScratchFullError,
    StoreUnavailableError,
    UsageError,
)
from firnline.ids import SystemIds
from firnline.log import codec
from firnline.log.records import LogContent, Marker
from firnline.parquet_io import read_footer
from firnline.part_metadata import PartMetadata, read_pairs
from firnline.paths import Root, TablePaths
from firnline.settings import TableSettings
from firnline.snapshot import read_snapshot
from firnline.store.backend import forget_memory
from firnline.store.client import open_store
from firnline.table import Table

START = 1_700_000_000_000


class FakeClock:
    """Stands still unless told."""

    def __init__(self) -> None:
        self.ms = START

    def now_ms(self) -> int:
        return self.ms

    def elapsed_ms(self) -> int:
        return self.ms

    def sleep(self, seconds: float) -> None:
        self.ms += int(seconds * 1000)


class Broken:
    """A store whose calls can be made to fail."""

    def __init__(self, store: Any) -> None:
        self._store = store
        self.before: dict[str, FirnlineError] = {}
        self.after: dict[str, FirnlineError] = {}

    def __getattr__(self, name: str) -> Any:
        whole = getattr(self._store, name)
        if not callable(whole):
            return whole

        def call(*args: Any) -> Any:
            if name in self.before:
                raise self.before[name]
            result = whole(*args)
            if name in self.after:
                raise self.after[name]
            return result

        return call


def make(root: str | None = None, **given: Any) -> Table:
    root = root or f"memory://{uuid.uuid1()}/t"
    parsed = Root.parse(root)
    forget_memory(parsed.bucket)
    clock = FakeClock()
    return Table(
        settings=TableSettings.model_validate({"name": "t", "root": root, **given}),
        store=Broken(open_store(root, clock=clock)),
        paths=TablePaths(parsed.prefix),
        clock=clock,
        ids=SystemIds(),
    )


def keys(table: Table, folder: str) -> list[str]:
    return [meta.key for meta in table.store.list(f"t/{folder}/")]


def rows_of(table: Table, tmp_path: Path) -> list[dict[str, Any]]:
    """All rows of the live parts, as a reader sees them."""
    rows: list[dict[str, Any]] = []
    for index, key in enumerate(read_snapshot(table.store, table.paths).live):
        path = tmp_path / f"read-{index}.parquet"
        table.store.get_file(key, path)
        rows += pq.ParquetFile(path).read().to_pylist()
        path.unlink()
    return rows


DAYS = [datetime.date(2013, month, 1) for month in (1, 2, 2, 3)]
TABLE = pa.table({"n": [4, 3, 2, 1], "d": DAYS})


def test_an_append_of_several_partitions_is_one_log_file(tmp_path: Path) -> None:
    table = make(partition_by=["month(d)"], sort_by=["n"])
    result = Appender(table).append(TABLE)
    snapshot = read_snapshot(table.store, table.paths)
    assert snapshot.schema == {"n": "BIGINT", "d": "DATE"}
    assert list(snapshot.partitions) == ["d_month=2013-01", "d_month=2013-02", "d_month=2013-03"]
    assert len(keys(table, "_log")) == 1
    assert result.rows == 4
    assert result.log_key == keys(table, "_log")[0]
    assert sorted(part.key for part in result.parts) == sorted(snapshot.live)
    (february,) = snapshot.partitions["d_month=2013-02"]
    assert february == Marker(
        p=february.p,
        b=table.store.head(february.p).size,
        t=START,
        n=2,
        q=0,
        o=(START, START),
        s=february.s,
    )
    assert february.stats() == {"d": ("2013-02-01", "2013-02-01", 0), "n": (2, 3, 0)}
    found = [row["n"] for row in rows_of(table, tmp_path)]
    assert sorted(found) == [1, 2, 3, 4]


def test_a_part_tells_where_it_belongs_and_is_sorted(tmp_path: Path) -> None:
    table = make(sort_by=["n desc"])
    result = Appender(table, writer="loader.7").append(TABLE, metadata={"job": "nightly"})
    (part,) = result.parts
    footer = read_footer(table.store, part.key, part.bytes)
    assert read_pairs(part.key, footer.metadata) == PartMetadata(
        table="t",
        partition="",
        writer=f"loader.7-{result.append_id}",
        append=result.append_id,
        q=0,
        o=(START, START),
        rows=4,
    )
    assert footer.metadata[b"job"] == b"nightly"
    assert result.log_key is not None
    assert result.log_key.endswith(f"_loader.7-{result.append_id}.jsonl")
    assert [row["n"] for row in rows_of(table, tmp_path)] == [4, 3, 2, 1]


def test_requests_are_one_list_the_parts_and_one_log_file() -> None:
    table = make(partition_by=["month(d)"])
    for _ in range(3):
        Appender(table).append(TABLE)
    appender = Appender(table)
    first = appender.append(TABLE).requests
    assert (first["list"], first["get"], first["put"]) == (2, 3, 4)
    again = appender.append(TABLE).requests
    assert {kind: n for kind, n in again.items() if n and "bytes" not in kind} == {
        "list": 1,
        "put": 4,
    }


def test_the_sequence_is_the_newest_transaction_when_the_append_began() -> None:
    table = make()
    appender = Appender(table)
    table.store.put_new(table.paths.txn(1), b"x")
    table.store.put_new(table.paths.txn(2), b"x")
    assert appender.append(TABLE).q == 2
    assert appender.append(TABLE).q == 2
    table.store.put_new(table.paths.txn(3), b"x")
    assert appender.append(TABLE).q == 3
    assert {m.q for m in read_snapshot(table.store, table.paths).live.values()} == {2, 3}


def test_appends_of_one_writer_are_in_order_even_when_the_clock_goes_back() -> None:
    table = make()
    assert isinstance(table.clock, FakeClock)
    appender = Appender(table)
    first = appender.append(TABLE)
    table.clock.ms -= 60_000
    assert appender.append(TABLE).t == first.t + 1


STREAMS: dict[str, Any] = {
    "table": lambda: TABLE,
    "batch": lambda: TABLE.to_batches()[0],
    "reader": TABLE.to_reader,
    "iterable": lambda: iter(TABLE.to_batches(max_chunksize=1)),
    "list": lambda: TABLE.to_batches(max_chunksize=3),
}


class Capsule:
    """What a data frame of another library looks like."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return TABLE.to_reader().__arrow_c_stream__(requested_schema)


STREAMS["capsule"] = Capsule


@pytest.mark.parametrize("kind", STREAMS)
def test_rows_come_as_tables_and_streams(kind: str, tmp_path: Path) -> None:
    table = make()
    assert Appender(table).append(STREAMS[kind]()).rows == 4
    assert sorted(row["n"] for row in rows_of(table, tmp_path)) == [1, 2, 3, 4]


@pytest.mark.parametrize("data", [5, "rows", [5], None])
def test_what_holds_no_rows_is_refused(data: Any) -> None:
    with pytest.raises(UsageError, match="holds no rows"):
        Appender(make()).append(data)


def test_columns_may_come_in_any_order_be_new_or_be_missing(tmp_path: Path) -> None:
    table = make()
    appender = Appender(table)
    appender.append(pa.table({"a": [1], "b": ["x"]}))
    appender.append(pa.table({"b": ["y"], "a": [2]}))
    appender.append(pa.table({"c": [1.5], "a": [3]}))
    appender.append(pa.table({"a": [4], "b": pa.nulls(1)}))
    assert read_snapshot(table.store, table.paths).schema == {
        "a": "BIGINT",
        "b": "VARCHAR",
        "c": "DOUBLE",
    }
    assert len(rows_of(table, tmp_path)) == 4


def test_batches_of_one_stream_may_bring_new_columns(tmp_path: Path) -> None:
    table = make()
    batches = [pa.table({"a": [1]}).to_batches()[0], pa.table({"b": [2]}).to_batches()[0]]
    (part,) = Appender(table).append(batches).parts
    assert part.rows == 2
    assert rows_of(table, tmp_path) == [{"a": 1, "b": None}, {"a": None, "b": 2}]


@pytest.mark.parametrize(
    ("rows", "error", "piece"),
    [
        (pa.table({"a": ["x"]}), SchemaConflictError, "'a' is BIGINT in log file t/_log/"),
        (pa.table({"A": [1]}), SchemaConflictError, "case"),
        (pa.table({"z": pa.nulls(1)}), PartSchemaError, "'z'"),
        (pa.table({"z": pa.array([1], pa.duration("s"))}), PartSchemaError, "'z'"),
        (pa.Table.from_arrays([pa.array([1])] * 2, ["z", "z"]), PartSchemaError, "'z'"),
        (pa.table({"z": pa.array([2**62], pa.timestamp("s"))}), PartSchemaError, "'z'"),
        (pa.table({}), UsageError, "no columns"),
    ],
    ids=str,
)
def test_rows_that_do_not_fit_are_refused_before_any_put(
    rows: pa.Table, error: type[FirnlineError], piece: str
) -> None:
    table = make()
    Appender(table).append(pa.table({"a": [1]}))
    puts = table.store.counters.put
    appender = Appender(table)
    with pytest.raises(error, match=piece):
        appender.append(rows)
    assert table.store.counters.put == puts
    assert appender.append(pa.table({"a": [2]})).rows == 1


def test_text_that_is_no_utf8_is_refused() -> None:
    offsets = pa.array([0, 2], pa.int32()).buffers()[1]
    bad = pa.Array.from_buffers(pa.string(), 1, [None, offsets, pa.py_buffer(b"\xff\xfe")])
    with pytest.raises(PartSchemaError, match="'a'"):
        Appender(make()).append(pa.table({"a": bad}))


def test_the_schema_may_be_given_instead_of_read() -> None:
    table = make()
    Appender(table).append(pa.table({"a": [1]}))
    appender = Appender(table, known_schema={"a": "bigint", "b": "int4"})
    gets = table.store.counters.get
    with pytest.raises(SchemaConflictError, match="the schema given"):
        appender.append(pa.table({"b": ["x"]}))
    appender.append(pa.table({"a": [1]}))
    assert table.store.counters.get == gets


@pytest.mark.parametrize("rows", [TABLE.slice(0, 0), TABLE.slice(0, 0).to_reader(), []])
def test_no_rows_write_nothing_and_say_so(rows: Any) -> None:
    table = make(partition_by=["month(d)"])
    result = Appender(table).append(rows)
    assert (result.log_key, result.parts, result.rows) == (None, (), 0)
    assert table.store.counters.put == 0


@pytest.mark.parametrize(
    "given",
    [
        {"partition_by": ["month(ts)"]},
        {"sort_by": ["nosuch"]},
        {"primary_key": ["n", "nosuch"]},
        {"primary_key": ["n"], "version": "nosuch"},
        {"ttl": {"keep": "90d", "column": "nosuch"}},
    ],
    ids=str,
)
def test_settings_that_name_a_column_nobody_has_are_refused(given: dict[str, Any]) -> None:
    table = make(**given)
    with pytest.raises(UsageError, match="n, d"):
        Appender(table).append(TABLE)
    assert table.store.counters.put == 0


def test_a_free_layout_takes_the_partition_that_is_given() -> None:
    table = make(partition=r"u=\w+/d=.*")
    result = Appender(table).append(TABLE, partition="u=a/d=2013-01-01")
    assert result.parts[0].key.startswith("t/_data/u=a/d=2013-01-01/")
    for wrong in (None, "", "x=1", "u=a/d=../../.."):
        with pytest.raises(UsageError, match="partition"):
            Appender(table).append(TABLE, partition=wrong)
    for wrong in ("/a", "a//b", "..", "a/../b", "a\nb"):
        with pytest.raises(UsageError, match="partition"):
            Appender(make()).append(TABLE, partition=wrong)
    with pytest.raises(UsageError, match="leave the partition out"):
        Appender(make(partition_by=["n"])).append(TABLE, partition="n=1")


def test_names_of_writers_and_metadata_are_checked() -> None:
    for wrong in ("a_b", "", "a/b", "ä"):
        with pytest.raises(UsageError, match="writer"):
            Appender(make(), writer=wrong)
    with pytest.raises(UsageError, match=r"firnline\.q"):
        Appender(make()).append(TABLE, metadata={"firnline.q": "7"})


def down(_key: str = "") -> StoreUnavailableError:
    return StoreUnavailableError("the store is down", next_step="wait")


def unknown() -> OutcomeUnknownError:
    return OutcomeUnknownError("no answer", next_step="read it back")


def test_parts_of_an_append_that_fails_are_deleted() -> None:
    table = make(partition_by=["month(d)"])

    def rows() -> Iterator[pa.RecordBatch]:
        yield TABLE.to_batches()[0]
        raise RuntimeError("the source broke")

    small = table.settings.model_copy(
        update={"append": table.settings.append.model_copy(update={"part_bytes": 1})}
    )
    object.__setattr__(table, "settings", small)
    with pytest.raises(RuntimeError, match="the source broke"):
        Appender(table).append(itertools.chain(rows()))
    assert table.store.counters.put > 0
    assert keys(table, "_data") == keys(table, "_log") == []


def test_a_part_that_cannot_be_put_fails_the_append() -> None:
    table = make()
    assert isinstance(table.store, Broken)
    table.store.after["put_file"] = down()
    with pytest.raises(StoreUnavailableError):
        Appender(table).append(TABLE)
    assert keys(table, "_data") == keys(table, "_log") == []


def test_an_unknown_outcome_of_the_log_file_deletes_nothing() -> None:
    for when in ("before", "after"):
        table = make()
        assert isinstance(table.store, Broken)
        getattr(table.store, when)["put_new"] = unknown()
        table.store.before["get"] = down()
        with pytest.raises(CommitUnknownError, match="_log/"):
            Appender(table).append(TABLE)
        assert len(keys(table, "_data")) == 1
        assert len(keys(table, "_log")) == (when == "after")


def test_a_lost_answer_is_read_back() -> None:
    table = make()
    assert isinstance(table.store, Broken)
    table.store.after["put_new"] = unknown()
    assert Appender(table).append(TABLE).log_key == keys(table, "_log")[0]


def test_an_append_that_took_too_long_is_not_published() -> None:
    table = make()
    assert isinstance(table.clock, FakeClock)
    clock = table.clock

    def slow() -> Iterator[pa.RecordBatch]:
        yield TABLE.to_batches()[0]
        clock.ms += table.settings.append.ttl + 1

    with pytest.raises(AppendExpiredError, match=r"append\.ttl"):
        Appender(table).append(slow())
    assert keys(table, "_data") == keys(table, "_log") == []


def test_parts_that_cannot_be_deleted_do_not_hide_the_error(
    caplog: pytest.LogCaptureFixture,
) -> None:
    table = make()
    assert isinstance(table.store, Broken)
    table.store.before["delete_many"] = down()
    table.store.after["put_file"] = down()
    with pytest.raises(StoreUnavailableError):
        Appender(table).append(TABLE)
    assert "parts of a failed append stay" in caplog.text


def test_a_scratch_folder_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    with pytest.raises(ScratchFullError, match="nosuch"):
        Appender(make(), scratch=tmp_path / "nosuch").append(TABLE)


def test_a_large_stream_is_cut_into_parts_and_never_held_whole(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    table = make(append={"part_bytes": "1MiB", "buffer": "16MiB"}, partition_by=["k"])
    appender = Appender(table)
    held: list[int] = []

    def batches() -> Iterator[pa.RecordBatch]:
        for index in range(60):
            start = index * 10_000
            numbers = pa.array([(start + i) * 2654435761 % 2**61 for i in range(10_000)])
            keys = pa.array([i % 3 for i in range(10_000)], pa.int8())
            yield pa.RecordBatch.from_arrays([numbers, keys], ["n", "k"])
            held.append(pa.total_allocated_bytes())

    before = pa.total_allocated_bytes()
    result = appender.append(batches())
    assert result.rows == 600_000
    assert Counter(part.partition for part in result.parts).most_common()[-1][1] >= 1
    assert len(result.parts) >= 4
    assert max(part.bytes for part in result.parts) < 2 * 2**20
    assert max(held) - before < 16 * 2**20
    assert [meta.key for meta in table.store.list("t/_log/")] == [result.log_key]


def test_files_are_appended_as_one(tmp_path: Path) -> None:
    table = make(partition_by=["month(d)"])
    paths = [tmp_path / f"{name}.parquet" for name in "ab"]
    for path in paths:
        pq.write_table(TABLE, path, row_group_size=1)
    result = Appender(table).append_files(paths)
    assert result.rows == 8
    assert len(result.parts) == 3
    assert len(keys(table, "_log")) == 1


def test_bad_files_are_named_before_anything_is_written(tmp_path: Path) -> None:
    table = make()
    good, bad = tmp_path / "good.parquet", tmp_path / "bad.parquet"
    pq.write_table(TABLE, good)
    cases: list[tuple[Any, type[FirnlineError]]] = [
        (lambda: bad.write_bytes(good.read_bytes()[:-9]), PartUnreadableError),
        (lambda: bad.write_text("a,b\n"), PartUnreadableError),
        (bad.unlink, PartUnreadableError),
        (lambda: pq.write_table(pa.table({"n": ["x"]}), bad), SchemaConflictError),
        (lambda: pq.write_table(pa.table({"z": pa.nulls(1)}), bad), PartSchemaError),
    ]
    for prepare, error in cases:
        prepare()
        with pytest.raises(error, match=r"bad\.parquet"):
            Appender(table).append_files([good, bad])
    with pytest.raises(UsageError, match="no files"):
        Appender(table).append_files([])
    assert table.store.counters.put == 0


def test_a_file_whose_pages_are_damaged_is_named_and_leaves_nothing(tmp_path: Path) -> None:
    table = make()
    path = tmp_path / "bad.parquet"
    pq.write_table(TABLE, path, compression="zstd")
    data = bytearray(path.read_bytes())
    data[4:60] = b"\0" * 56
    path.write_bytes(data)
    with pytest.raises(PartUnreadableError, match=r"bad\.parquet"):
        Appender(table).append_files([path])
    assert keys(table, "_data") == keys(table, "_log") == []


def test_a_local_folder_works_like_a_bucket(tmp_path: Path) -> None:
    table = make(f"file://{tmp_path}/t", partition_by=["month(d)"])
    Appender(table).append(TABLE)
    (log_file,) = (tmp_path / "t" / "_log").iterdir()
    lines = log_file.read_text().split("\n")
    assert json.loads(lines[0])["v"] == 1
    assert json.loads(lines[-1])["p"].startswith("t/_data/d_month=")
    assert len(list((tmp_path / "t" / "_data").rglob("*.parquet"))) == 3


def test_a_conflict_between_log_files_of_others_is_said_by_the_append() -> None:
    table = make()
    for name, kind in (("a", "INTEGER"), ("b", "VARCHAR")):
        key = table.paths.append_log(START, f"{name}-x")
        table.store.put_new(key, codec.encode(LogContent(t=START, schema={"x": kind})))
    with pytest.raises(SchemaConflictError, match=r"a-x.*b-x"):
        Appender(table).append(TABLE)


@settings(deadline=None, max_examples=25)
@given(
    data=st.lists(
        st.lists(
            st.fixed_dictionaries(
                {
                    "k": st.none() | st.text(max_size=3),
                    "n": st.none() | st.integers(0, 10),
                    "v": st.none() | st.floats(allow_nan=False),
                }
            ),
            max_size=6,
        ),
        max_size=4,
    )
)
def test_every_row_arrives_once_in_its_partition(
    data: list[list[dict[str, Any]]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    table = make(partition_by=["k"], sort_by=["n"])
    schema = pa.schema([("k", pa.string()), ("n", pa.int32()), ("v", pa.float64())])
    appender = Appender(table)
    results: list[AppendResult] = [
        appender.append(pa.Table.from_pylist(rows, schema)) for rows in data
    ]
    assert sum(result.rows for result in results) == sum(map(len, data))
    found = rows_of(table, tmp_path_factory.mktemp("read"))
    expected = [row for rows in data for row in rows]
    assert Counter(map(repr, map(sorted, map(dict.items, found)))) == Counter(
        map(repr, map(sorted, map(dict.items, expected)))
    )
    live = read_snapshot(table.store, table.paths).partitions
    counts = Counter(row["k"] for row in expected)
    assert sorted(sum(m.n or 0 for m in markers) for markers in live.values()) == sorted(
        counts.values()
    )
