from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from firnline.appends.append import Appender, AppendResult
from firnline.commit.base import take_base
from firnline.commit.transaction import Change, commit
from firnline.errors import SchemaConflictError, UsageError
from firnline.log import codec
from firnline.log.records import LogContent, Marker
from firnline.log.txn_file import Counts, RunIdentity
from firnline.parquet.io import read_footer
from firnline.parquet.part import PartMetadata, read_pairs
from firnline.state.snapshot import read_snapshot
from firnline.table import Table
from firnline.types.digests import parse_digest
from firnline.types.order import SortKey
from tests.support.appends import START, TABLE, clock_of, keys, make, rows_of
from tests.support.effort import examples


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
        s=february.s,
        g=february.g,
        k=february.k,
    )
    assert parse_digest(february.g) is not None
    assert february.sorted_by() == (SortKey("n"),)
    assert february.order() == (START, START)
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
        digest=str(part.digest),
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
    # The heads of three log files, and the birth record: the table has no transaction.
    assert (first["list"], first["get"], first["put"]) == (2, 4, 4)
    again = appender.append(TABLE).requests
    assert {kind: n for kind, n in again.items() if n and "bytes" not in kind} == {
        "list": 1,
        "put": 4,
    }


def transaction(table: Table) -> None:
    """One that changes nothing."""
    commit(table, take_base(table), Change("merge", (), (), Counts()), RunIdentity(run_id="r"))


@pytest.mark.long
def test_the_sequence_is_the_newest_transaction_when_the_append_began() -> None:
    table = make()
    appender = Appender(table)
    transaction(table)
    transaction(table)
    assert appender.append(TABLE).q == 2
    assert appender.append(TABLE).q == 2
    transaction(table)
    assert appender.append(TABLE).q == 3
    assert {m.q for m in read_snapshot(table.store, table.paths).live.values()} == {2, 3}


def test_appends_of_one_writer_are_in_order_even_when_the_clock_goes_back() -> None:
    table = make()
    appender = Appender(table)
    first = appender.append(TABLE)
    clock_of(table).now -= 60_000
    assert appender.append(TABLE).t == first.t + 1


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


def test_the_schema_may_be_given_instead_of_read() -> None:
    table = make()
    Appender(table).append(pa.table({"a": [1]}))
    appender = Appender(table, known_schema={"a": "bigint", "b": "int4"})
    gets = table.store.counters.get
    with pytest.raises(SchemaConflictError, match="the schema given"):
        appender.append(pa.table({"b": ["x"]}))
    appender.append(pa.table({"a": [1]}))
    assert table.store.counters.get == gets + 1  # the birth record


@pytest.mark.parametrize("rows", [TABLE.slice(0, 0), TABLE.slice(0, 0).to_reader(), []])
def test_no_rows_write_nothing_and_say_so(rows: Any) -> None:
    for table in (make(partition_by=["month(d)"]), make()):
        result = Appender(table).append(rows)
        assert (result.log_key, result.parts, result.rows) == (None, (), 0)
        assert table.store.counters.put == 0


def test_a_free_layout_takes_the_partition_that_is_given() -> None:
    table = make(partition=r"u=\w+/d=.*")
    result = Appender(table).append(TABLE.drop_columns(["d"]), partition="u=a/d=2013-01-01")
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


@pytest.mark.long
@examples(12, 300)
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
