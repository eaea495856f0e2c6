"""Rows that only move are written by Arrow, as DuckDB would have written them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firnline.kernel import outputs
from firnline.kernel.task import BloomFilters
from firnline.parquet.join import read_footer
from firnline.types.arrow import from_arrow
from tests.kernel.conftest import Group
from tests.support.nulls import PLAIN, nulls_by_duckdb, with_nulls

ROWS = 8_192
"""Rows of an input from which Arrow writes."""
_DAY = datetime(2026, 1, 1, tzinfo=UTC)


def numbers(start: int = 0, count: int = ROWS) -> pa.Table:
    values = range(start, start + count)
    return pa.table({"id": list(values), "name": [f"n{i % 9}" for i in values]})


def by_arrow(path: Path) -> bool:
    return b"parquet-cpp-arrow" in pq.read_metadata(path).created_by.encode()


def by_duckdb(
    group: Group, monkeypatch: pytest.MonkeyPatch, *rows: pa.Table, **changed: Any
) -> Path:
    """The same merge as DuckDB does it."""
    with monkeypatch.context() as patch:
        patch.setattr(outputs, "move", lambda *_: False)
        result, _ = group.merge(*rows, **changed)
    path = group.root / result.parts[0].key
    assert not by_arrow(path)
    return path


def moved(group: Group, *rows: pa.Table, **changed: Any) -> Path:
    result, _ = group.merge(*rows, **changed)
    return group.root / result.parts[0].key


def filtered(path: Path) -> list[tuple[str, bool, bool]]:
    """Each column, and if all of its chunks have a filter and a dictionary."""
    query = (
        "SELECT path_in_schema, bool_and(bloom_filter_length > 0),"
        " bool_and(dictionary_page_offset > 0) FROM parquet_metadata(?) GROUP BY 1 ORDER BY 1"
    )
    return [
        (name, bool(has), bool(coded))
        for name, has, coded in duckdb.execute(query, [str(path)]).fetchall()
    ]


_KINDS: dict[str, tuple[pa.DataType, Callable[[int], object]]] = {
    "bool": (pa.bool_(), lambda i: i % 3 == 0),
    "tiny": (pa.int8(), lambda i: i % 256 - 128),
    "small": (pa.int16(), lambda i: i % 65_536 - 32_768),
    "int": (pa.int32(), lambda i: i * 7919 - 2**31),
    "big": (pa.int64(), lambda i: i * 10**14 - 2**62),
    "utiny": (pa.uint8(), lambda i: i % 256),
    "usmall": (pa.uint16(), lambda i: i % 65_536),
    "uint": (pa.uint32(), lambda i: 2**32 - 1 - i),
    "ubig": (pa.uint64(), lambda i: 2**64 - 1 - i),
    "float": (pa.float32(), lambda i: i / 4),
    "double": (pa.float64(), lambda i: -0.0 if i % 5 == 0 else i / 3),
    "text": (pa.string(), lambda i: f"ä\x00{i % 700}" if i % 2 else ""),
    "long": (pa.string(), lambda i: f"{i:032x}"),
    "blob": (pa.binary(), lambda i: bytes([i % 256, 255, 0])),
    "date": (pa.date32(), lambda i: date(1900, 1, 1) + timedelta(days=i)),
    "ts": (pa.timestamp("us"), lambda i: datetime(1960, 1, 1) + timedelta(microseconds=i * 999)),  # noqa: DTZ001
    "tz": (pa.timestamp("us", "UTC"), lambda i: _DAY + timedelta(seconds=i)),
    "money": (pa.decimal128(18, 2), lambda i: Decimal(i - 4000).scaleb(-2)),
    "fine": (pa.decimal128(9, 4), lambda i: Decimal(i).scaleb(-4)),
    "tenth": (pa.decimal128(4, 1), lambda i: Decimal(i % 9999).scaleb(-1)),
}


def all_kinds(start: int, *, nulls: bool) -> pa.Table:
    return pa.table(
        {
            name: pa.array(
                [None if nulls and i % 11 == 0 else make(i) for i in range(start, start + ROWS)],
                kind,
            )
            for name, (kind, make) in _KINDS.items()
        }
    )


@pytest.mark.parametrize("nulls", [False, True])
def test_every_plain_type_is_written_with_the_schema_of_duckdb(
    group: Group, monkeypatch: pytest.MonkeyPatch, nulls: bool
) -> None:
    rows = all_kinds(0, nulls=nulls), all_kinds(ROWS, nulls=nulls)
    theirs = by_duckdb(group, monkeypatch, *rows)
    ours = moved(group, *rows)
    assert by_arrow(ours)
    assert read_footer(ours).schema == read_footer(theirs).schema
    assert pq.read_table(ours).equals(pq.read_table(theirs))
    differing = (
        f"SELECT count(*) FROM (FROM '{ours}' EXCEPT ALL FROM '{theirs}')"
        f" UNION ALL SELECT count(*) FROM '{ours}'"
    )
    assert duckdb.execute(differing).fetchall() == [(0,), (2 * ROWS,)]


@pytest.mark.parametrize("nulls", [False, True])
def test_columns_with_dictionaries_and_filters_are_those_of_duckdb(
    group: Group, monkeypatch: pytest.MonkeyPatch, nulls: bool
) -> None:
    rows = all_kinds(0, nulls=nulls), all_kinds(ROWS, nulls=nulls)

    assert filtered(moved(group, *rows)) == filtered(by_duckdb(group, monkeypatch, *rows))


def test_a_filter_excludes_what_is_absent_and_nothing_that_is_there(group: Group) -> None:
    path = moved(group, numbers(), numbers(ROWS))

    def excluded(value: str) -> set[bool]:
        probe = (
            f"SELECT bloom_filter_excludes FROM parquet_bloom_probe('{path}', 'name', '{value}')"
        )
        return {one for (one,) in duckdb.execute(probe).fetchall()}

    assert all(excluded(f"n{i}") == {False} for i in range(9))
    assert sum(excluded(f"m{i}") == {True} for i in range(100)) > 90


def test_a_table_that_wants_no_filters_gets_none(group: Group) -> None:
    path = moved(group, numbers(), numbers(ROWS), bloom_filters=None)
    assert by_arrow(path)
    sizes = duckdb.execute(
        "SELECT DISTINCT bloom_filter_length FROM parquet_metadata(?)", [str(path)]
    ).fetchall()
    assert sizes == [(None,)]


def test_statistics_name_the_extremes_of_each_column(group: Group) -> None:
    rows = all_kinds(0, nulls=True)
    stats = ("big", "double", "long", "tz", "money")
    result, _ = group.merge(rows, all_kinds(ROWS, nulls=False), stats_columns=stats)
    part = result.parts[0]
    assert by_arrow(group.root / part.key)
    assert set(part.stats) == set(stats)
    low, high, nulls = part.stats["big"]
    assert (low, high, nulls) == (10**14 - 2**62, (2 * ROWS - 1) * 10**14 - 2**62, ROWS // 11 + 1)


def test_rows_with_nan_are_found_by_readers_that_go_by_bounds(group: Group) -> None:
    values = [float("nan") if i == 5000 else float(i) for i in range(ROWS)]
    rows = pa.table({"v": values, "w": pa.array(values, pa.float32()), "i": list(range(ROWS))})
    rows = rows.append_column("text", pa.array(["a"] * ROWS))
    path = moved(group, rows, rows)
    assert by_arrow(path)
    bounds = duckdb.execute(
        "SELECT path_in_schema, count(coalesce(stats_min, stats_min_value)) FROM"
        " parquet_metadata(?) GROUP BY 1 ORDER BY 1",
        [str(path)],
    ).fetchall()
    footer = pq.read_metadata(path)
    groups = footer.num_row_groups
    indexed = {footer.row_group(0).column(at).has_column_index for at in (0, 1)}
    assert indexed == {False}, "a page index has bounds, too"
    assert bounds == [("i", groups), ("text", groups), ("v", 0), ("w", 0)]
    found = duckdb.execute(f"SELECT count(*) FROM '{path}' WHERE v > 1e300 AND w > 1e30")
    assert found.fetchall() == [(2,)]


def test_duckdb_finds_the_nulls_beside_one_text(group: Group) -> None:
    """By bounds in the headers of pages DuckDB 2.0 takes all rows of some pages for nulls."""
    path = moved(group, *(with_nulls(start, ROWS).drop_columns("s") for start in (0, ROWS)))
    assert by_arrow(path)
    assert list(nulls_by_duckdb(path, PLAIN)) == [ROWS] * len(PLAIN)


def test_a_later_merge_copies_the_row_groups(group: Group, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its schema is that of the parts that DuckDB has written: both go into one file."""
    ours = moved(group, numbers(), numbers(ROWS))
    theirs = by_duckdb(group, monkeypatch, numbers(2 * ROWS), numbers(3 * ROWS))
    keys = [str(path.relative_to(group.root)) for path in (ours, theirs)]
    monkeypatch.setattr(outputs, "move", lambda *_: pytest.fail("all is copied"))
    result = group.run(group.task(keys, from_arrow(numbers().schema)))
    assert result.error is None
    assert sorted(group.read(result)["id"].to_pylist()) == list(range(4 * ROWS))


def test_what_is_not_copied_goes_behind_as_one_piece(group: Group) -> None:
    ours = moved(group, numbers(), numbers(ROWS))
    keys = [str(ours.relative_to(group.root)), *group.put(numbers(2 * ROWS))]
    task = group.task(keys, from_arrow(numbers().schema), row_group_rows=4 * 2048)
    result = group.run(task)
    assert result.error is None
    assert sorted(group.read(result)["id"].to_pylist()) == list(range(3 * ROWS))


def test_row_groups_have_the_rows_asked_for(group: Group) -> None:
    path = moved(group, numbers(), numbers(ROWS, ROWS + 100), row_group_rows=5_000)
    footer = pq.read_metadata(path)
    rows = [footer.row_group(n).num_rows for n in range(footer.num_row_groups)]
    assert rows == [5_000, 5_000, 5_000, 2 * ROWS + 100 - 15_000]


def test_row_groups_of_wide_rows_are_no_larger_than_memory_allows(group: Group) -> None:
    wide = pa.table({"text": [f"{i:02048x}" for i in range(ROWS)]})
    path = moved(group, wide, memory=128 * 2**20, row_group_rows=1_048_576)
    assert by_arrow(path)
    footer = pq.read_metadata(path)
    sizes = [footer.row_group(n).total_byte_size for n in range(footer.num_row_groups)]
    assert max(sizes) < 17 * 2**20
    assert footer.num_rows == ROWS


@pytest.mark.parametrize(
    ("rows", "changed", "why"),
    [
        (numbers(), {"keep": "id >= 0"}, "rows may go"),
        (numbers(), {"bloom_filters": BloomFilters(max_distinct=10**6)}, "more dictionaries"),
        (numbers(0, 100), {}, "small files are opened sooner by DuckDB"),
        (pa.table({"l": [[1], []] * (ROWS // 2)}), {}, "a column is nested"),
        (pa.table({"t": pa.array([1] * ROWS, pa.timestamp("ms"))}), {}, "another unit of time"),
        (
            pa.table({"d": pa.array([Decimal(1)] * ROWS, pa.decimal128(30, 2))}),
            {},
            "a wide decimal",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_duckdb_writes_where(
    group: Group, rows: pa.Table, changed: dict[str, Any], why: str
) -> None:
    path = moved(group, rows, rows, **changed)
    assert not by_arrow(path), why
    assert pq.read_metadata(path).num_rows == 2 * rows.num_rows


def test_duckdb_writes_where_a_delete_hides_rows_or_a_column_is_missing(group: Group) -> None:
    keys = group.put(numbers(), numbers(ROWS))
    schema = from_arrow(numbers().schema)
    hidden = group.run(group.task(keys, schema, hidden={keys[0]: "id < 10"}))
    more = group.run(group.task(keys, {**schema, "more": "BIGINT"}))
    for result, rows in ((hidden, 2 * ROWS - 10), (more, 2 * ROWS)):
        assert result.error is None
        path = group.root / result.parts[0].key
        assert not by_arrow(path)
        assert pq.read_metadata(path).num_rows == rows


def test_a_text_that_is_not_utf8_names_its_part(group: Group) -> None:
    keys = group.put(numbers(), numbers(ROWS))
    bad = pa.array([b"\xff" if i == 9 else b"a" for i in range(ROWS)]).view(pa.string())
    pq.write_table(
        pa.table({"id": list(range(ROWS)), "name": bad}), group.root / keys[1], use_dictionary=False
    )
    result = group.run(group.task(keys, from_arrow(numbers().schema)))
    assert (result.error_type, result.error_key) == ("PartUnreadableError", keys[1])


def test_a_damaged_page_names_its_part(group: Group) -> None:
    keys = group.put(numbers(), numbers(ROWS))
    path = group.root / keys[0]
    data = bytearray(path.read_bytes())
    data[200:400] = bytes(200)
    path.write_bytes(data)
    result = group.run(group.task(keys, from_arrow(numbers().schema)))
    assert (result.error_type, result.error_key) == ("PartUnreadableError", keys[0])


_VALUES = st.one_of(
    st.none(),
    st.floats(width=64),
    st.sampled_from([0.0, -0.0, float("nan"), float("inf"), 1e308, 5e-324]),
)


@settings(max_examples=15, deadline=None)
@given(
    values=st.lists(st.tuples(_VALUES, st.none() | st.text(max_size=9)), min_size=1, max_size=60),
    turn=st.integers(0, 59),
)
def test_the_rows_are_those_of_the_inputs_whatever_they_are(
    tmp_path_factory: pytest.TempPathFactory,
    values: list[tuple[float | None, str | None]],
    turn: int,
) -> None:
    folder = tmp_path_factory.mktemp("moves")
    group = Group(folder / "store", folder / "scratch")
    repeated = [values[(i * 7 + turn) % len(values)] for i in range(ROWS)]
    rows = pa.table(
        {
            "v": pa.array([v for v, _ in repeated], pa.float64()),
            "t": pa.array([t for _, t in repeated], pa.string()),
        }
    )
    # The digest of the rows that are read has to be that of the output: a proof of each bit.
    result, found = group.merge(rows, rows.slice(0, ROWS), row_group_rows=3_000)
    path = group.root / result.parts[0].key
    assert by_arrow(path)
    assert result.parts[0].digest is not None
    # By their text, which tells 0.0 from -0.0 and has NaN equal to itself.
    wanted = 2 * [repr(row) for row in repeated]
    assert sorted(map(repr, duckdb.execute(f"SELECT v, t FROM '{path}'").fetchall())) == sorted(
        wanted
    )
    assert found.num_rows == 2 * ROWS


def test_a_table_of_many_columns_is_left_to_duckdb_where_memory_is_small(group: Group) -> None:
    """Each column of a file is read through a buffer of its own."""
    wide = pa.table({f"c{n}": list(range(ROWS)) for n in range(130)})
    assert not by_arrow(moved(group, wide, memory=128 * 2**20))
    assert by_arrow(moved(group, wide, memory=256 * 2**20))
