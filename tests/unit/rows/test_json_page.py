"""docs/json.md: every row of its tables is played; what it says is what happens."""

from __future__ import annotations

import datetime
import decimal
import json
import re
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import firnline
from firnline.errors import FirnlineError
from firnline.types.arrow import conform, to_arrow
from tools.bootstrap import REPO

PAGE = (REPO / "docs" / "json.md").read_text(encoding="utf-8")
_NAMES = {"datetime": datetime, "decimal": decimal, "uuid": uuid}


def table(*heads: str) -> list[list[str]]:
    """The rows of the table of the page with these heads."""
    lines = iter(PAGE.splitlines())
    wanted = list(heads)
    for line in lines:
        if line.startswith("|") and cells(line) == wanted:
            next(lines)
            return list(_rows(lines))
    raise AssertionError(f"no table {heads}")


def _rows(lines: Iterator[str]) -> Iterator[list[str]]:
    for line in lines:
        if not line.startswith("|"):
            return
        yield cells(line)


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def code(cell: str) -> str:
    return cell.removeprefix("refused: ").strip("`")


def refused(cell: str) -> bool:
    return cell.startswith("refused: ")


@pytest.fixture
def root(tmp_path: Path) -> str:
    return f"file://{tmp_path}/t"


def declared(root: str, kind: str) -> None:
    """A table with a column ``v`` of a type, and a row without a value."""
    wanted = to_arrow({"v": kind}).field(0).type
    column = conform(pa.chunked_array([pa.nulls(1, _plain(wanted))]), wanted)
    firnline.append(root, pa.table({"id": [0], "v": column}))


def _plain(kind: pa.DataType) -> pa.DataType:
    return kind.storage_type if isinstance(kind, pa.BaseExtensionType) else kind


def shown(root: str) -> str | None:
    rows = firnline.scan(root, where="id = 1").duckdb()
    (found,) = rows.project("CAST(v AS VARCHAR)").fetchall()
    text: str | None = found[0]
    return text


def check(root: str, kind: str, value: object, becomes: str) -> None:
    declared(root, kind)
    if refused(becomes):
        with pytest.raises(FirnlineError, match=re.escape(code(becomes))):
            firnline.append(root, [{"id": 1, "v": value}])
        assert firnline.scan(root).to_arrow().num_rows == 1
        return
    firnline.append(root, [{"id": 1, "v": value}])
    assert firnline.scan(root).columns["v"] == kind
    assert shown(root) == (None if becomes == "null" else code(becomes))


@pytest.mark.long
@pytest.mark.parametrize(("kind", "text", "becomes"), table("column", "JSON", "becomes"))
def test_a_value_of_json(root: str, kind: str, text: str, becomes: str) -> None:
    check(root, code(kind), json.loads(code(text)), becomes)


@pytest.mark.parametrize(("kind", "text", "becomes"), table("column", "Python", "becomes"))
def test_a_value_of_python(root: str, kind: str, text: str, becomes: str) -> None:
    check(root, code(kind), eval(code(text), dict(_NAMES)), becomes)  # noqa: S307 -- of our own page


@pytest.mark.parametrize(("values", "kind"), table("values of one call", "the column is"))
def test_a_new_column(root: str, values: str, kind: str) -> None:
    rows = [{"v": value} for value in json.loads(code(values))]
    if refused(kind):
        with pytest.raises(FirnlineError, match=re.escape(code(kind))):
            firnline.append(root, rows)
        return
    firnline.append(root, rows)
    assert firnline.scan(root).columns == {"v": code(kind)}


@pytest.mark.parametrize(
    ("first", "then", "kind", "new"), table("first", "then", "the column is", "`new_columns`")
)
def test_a_new_field(root: str, first: str, then: str, kind: str, new: str) -> None:
    firnline.append(root, [{"v": json.loads(code(first))}])
    rows = [{"v": json.loads(code(then))}]
    if refused(kind):
        with pytest.raises(FirnlineError, match=re.escape(code(kind))):
            firnline.append(root, rows)
        return
    assert firnline.append(root, rows).new_columns == json.loads(code(new))
    assert firnline.scan(root).columns == {"v": code(kind)}


@pytest.mark.long
@pytest.mark.parametrize(
    ("first", "untyped", "then", "both"), table("first", "`untyped`", "then", "reads back")
)
def test_what_waits_for_its_type(root: str, first: str, untyped: str, then: str, both: str) -> None:
    told = firnline.append(root, [{"id": 0, "v": json.loads(code(first))}]).untyped
    assert told == json.loads(code(untyped))
    assert firnline.append(root, [{"id": 1, "v": json.loads(code(then))}]).untyped == {}
    rows = sorted(firnline.scan(root).to_arrow().to_pylist(), key=lambda row: int(row["id"]))
    assert [row["v"] for row in rows] == json.loads(code(both))


def _dictionary(values: list[Any], texts: pa.DataType) -> pa.DictionaryArray:
    return pa.DictionaryArray.from_arrays(
        pa.array(values, pa.uint32()), pa.array(["x", "y"]).cast(texts)
    )


@pytest.mark.long
@pytest.mark.parametrize("texts", [pa.string(), pa.string_view()])
def test_categories_are_texts_also_inside_lists_and_structs(root: str, texts: pa.DataType) -> None:
    """As Polars hands over ``Categorical`` and ``Enum``: codes, and texts as views."""
    column = _dictionary([1, 0, None], texts)
    rows = pa.table(
        {
            "v": column,
            "l": pa.ListArray.from_arrays([0, 1, 1, 3], column),
            "s": pa.StructArray.from_arrays([column], ["c"]),
        }
    )
    firnline.append(root, rows)
    assert firnline.scan(root).columns == {
        "v": "VARCHAR",
        "l": "VARCHAR[]",
        "s": "STRUCT(c VARCHAR)",
    }
    found = firnline.scan(root).to_arrow().to_pylist()
    assert [row["v"] for row in found] == ["y", "x", None]
    assert [row["l"] for row in found] == [["y"], [], ["x", None]]
    assert [row["s"] for row in found] == [{"c": "y"}, {"c": "x"}, {"c": None}]


@pytest.mark.long
def test_frames_with_categories_are_taken(root: str) -> None:
    polars = pytest.importorskip("polars")
    pandas = pytest.importorskip("pandas")
    for kind in (polars.Categorical, polars.Enum(["x", "y"])):
        firnline.append(root, polars.DataFrame({"v": ["y", "x", None]}, schema={"v": kind}))
    firnline.append(root, pandas.DataFrame({"v": pandas.Categorical(["y", "x", None])}))
    found = [row["v"] for row in firnline.scan(root).to_arrow().to_pylist()]
    assert sorted(found, key=str) == [None] * 3 + ["x"] * 3 + ["y"] * 3


class LazyFrame:
    """Of Polars: it has no rows yet."""


class Series:
    """Of Polars or pandas: a column, and no rows."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return pa.chunked_array([[1]]).__arrow_c_stream__(requested_schema)


class Mixed:
    """A frame of pandas with a column of objects, as it refuses to become Arrow."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        raise pa.ArrowInvalid("Could not convert 'a'", "Conversion failed for column x")


def _map_of_nulls() -> pa.Table:
    return pa.table({"id": [1], "m": pa.array([[("k", None)]], pa.map_(pa.string(), pa.null()))})


@pytest.mark.long
@pytest.mark.parametrize(
    ("given", "said"),
    [
        (LazyFrame(), r"pass what its collect\(\) returns"),
        (Series(), r"pass what its to_frame\(\) returns"),
        (Mixed(), "Could not convert 'a'; Conversion failed for column x"),
        ({"v": [1, 2]}, r"`pyarrow\.table\(\.\.\.\)` of columns"),
        (({"v": n} for n in range(2)), r"pass list\(\.\.\.\) of it"),
        (pa.table({"v": pa.array([[1]], pa.list_view(pa.int64()))}), "'v' .* build it as a list"),
        (pa.table({"v": pa.array([1], pa.duration("ms"))}), r"'v' .* int64, .* unit \(ms\)"),
        ([{"v": datetime.timedelta(1)}], "'v' .* cast it to int64"),
        (_map_of_nulls(), "column 'm' .* its keys would be lost"),
        ([{"v": None}, {"v": []}], "column 'v' holds only nulls and has no type"),
        (pa.table({"v": pa.nulls(1)}), "column 'v' holds only nulls and has no type"),
    ],
)
def test_what_is_refused_says_what_to_pass_instead(root: str, given: Any, said: str) -> None:
    with pytest.raises(FirnlineError, match=said):
        firnline.append(root, given)


def test_first_rows_of_a_buffer_with_and_without_fractions_are_double(root: str) -> None:
    with firnline.Appender(root, max_age_ms=60_000) as appender:
        for value in (1, 1.5, 2):
            appender.append({"v": value, "w": None, "x": [], "big": 2**53 + 1})
        with pytest.raises(FirnlineError, match=r"'big' .* 1\.5 is no whole number"):
            appender.append({"big": 1.5})
        ack = appender.append({"w": "typed by now"})
        appender.flush()
        assert ack.result().untyped == {"x": 3}
        with pytest.raises(FirnlineError, match=r"0\.5 is no text"):
            appender.append({"w": 0.5})
    assert firnline.scan(root).columns == {"v": "DOUBLE", "big": "BIGINT", "w": "VARCHAR"}
    found = [row["v"] for row in firnline.scan(root).to_arrow().to_pylist()]
    assert sorted(found, key=str) == [1.0, 1.5, 2.0, None]


def test_a_column_that_an_earlier_buffer_has_is_not_made_double(root: str) -> None:
    with firnline.Appender(root) as appender:
        appender.append({"v": 1})
        appender.flush()
        with pytest.raises(FirnlineError, match="schema fix TABLE --column v --type DOUBLE"):
            appender.append({"v": 1.5})
    assert firnline.scan(root).columns == {"v": "BIGINT"}


@pytest.mark.long
@pytest.mark.parametrize("form", ["arrow", "pandas", "polars", "file"])
def test_what_has_no_type_waits_in_every_form(root: str, form: str, tmp_path: Path) -> None:
    rows = pa.table({"id": [1], "v": pa.nulls(1), "p": [{"a": 1, "b": None}], "l": [[]]})
    given: Any = rows
    if form == "pandas":
        given = rows.to_pandas()
    if form == "polars":
        given = pytest.importorskip("polars").from_arrow(rows)
    if form == "file":
        import pyarrow.parquet as pq

        given = [tmp_path / "one.parquet"]
        pq.write_table(rows, given[0])
    told = firnline.append(root, given).untyped
    assert {path: lost for path, lost in told.items() if lost} == {"l": 1}
    assert {"v", "l"} <= told.keys()
    assert "v" not in firnline.scan(root).columns
    typed = pa.table({"id": [2], "v": ["x"], "p": [{"a": 1, "b": 0.5}], "l": [[7]]})
    firnline.append(root, typed)
    found = sorted(firnline.scan(root).to_arrow().to_pylist(), key=lambda row: int(row["id"]))
    assert found == [
        {"id": 1, "p": {"a": 1, "b": None}, "v": None, "l": None},
        {"id": 2, "p": {"a": 1, "b": 0.5}, "v": "x", "l": [7]},
    ]


def test_an_empty_list_for_a_column_of_another_kind_is_refused(root: str) -> None:
    firnline.append(root, [{"id": 1, "v": 5, "w": "x"}])
    for more in (pa.table({"v": [[]]}), pa.table({"v": [{}]}), pa.table({"w": [[None]]})):
        with pytest.raises(FirnlineError, match=r"column '[vw]' holds a value that does not fit"):
            firnline.append(root, more)
    nulls = pa.array([None], pa.list_(pa.null()))
    assert firnline.append(root, pa.table({"id": [2], "v": nulls})).untyped == {}
    assert firnline.scan(root).to_arrow().num_rows == 2
