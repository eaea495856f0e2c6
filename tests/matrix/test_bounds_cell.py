"""One set of versions of what firnline requires: a table's life, and values of each type.

It runs in an environment with these versions, firnline and what firnline requires, and imports
nothing else of the repository.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from datetime import UTC, date, datetime, time
from decimal import Decimal
from importlib.metadata import version
from pathlib import Path
from typing import Any
from uuid import UUID

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import firnline
from firnline.errors import EnvironmentFaultError
from firnline.parquet.arrow_versions import MAJOR

REPO = Path(__file__).resolve().parents[2]
DAY = datetime(2013, 11, 3, 4, 30, tzinfo=UTC)
"""In New York, the night in which the clocks are set back."""
VALUES: dict[str, tuple[pa.DataType, Any]] = {
    "BIGINT": (pa.int64(), -(2**62)),
    "BLOB": (pa.binary(), b"\x00\xff"),
    "BOOLEAN": (pa.bool_(), True),
    "DATE": (pa.date32(), date(2013, 11, 3)),
    "DECIMAL(10,2)": (pa.decimal128(10, 2), Decimal("-1.50")),
    "DOUBLE": (pa.float64(), 0.1),
    "FLOAT": (pa.float32(), 0.5),
    "INTEGER[]": (pa.list_(pa.int32()), [1, None]),
    "JSON": (pa.json_(), '{"a": 1}'),
    "MAP(VARCHAR, INTEGER)": (pa.map_(pa.string(), pa.int32()), [("a", 1)]),
    "SMALLINT": (pa.int16(), -7),
    "STRUCT(a INTEGER, b VARCHAR[])": (
        pa.struct([("a", pa.int32()), ("b", pa.list_(pa.string()))]),
        {"a": 1, "b": ["é"]},
    ),
    "TIMESTAMP": (pa.timestamp("us"), DAY.replace(tzinfo=None)),
    "TIMESTAMP WITH TIME ZONE": (pa.timestamp("us", "UTC"), DAY),
    "UBIGINT": (pa.uint64(), 2**64 - 1),
    "UTINYINT": (pa.uint8(), 255),
    "UUID": (pa.uuid(), b"\x01" * 16),
    "VARCHAR": (pa.string(), "naïve"),
}


class NoPandas:
    """A finder of modules by which whoever imports pandas fails, as where it is not installed."""

    def find_spec(self, name: str, *_: object) -> None:
        if name == "pandas":
            raise ModuleNotFoundError("No module named 'pandas'", name=name)


@pytest.fixture(autouse=True)
def without_pandas(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "meta_path", [NoPandas(), *sys.meta_path])


@pytest.fixture
def root(tmp_path: Path) -> str:
    return (tmp_path / "t").as_uri()


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    """A settings file with a table ``t`` that has all that merges do for a table."""
    path = tmp_path / "tables.yaml"
    path.write_text(
        f"""\
tables:
  t:
    root: {(tmp_path / "keyed").as_uri()}
    partition_by: [{{transform: month, column: at}}]
    primary_key: [id]
    version: seen
""",
        encoding="utf-8",
    )
    return path


def one(kind: pa.DataType, value: Any) -> pa.Array:
    """The value and a null."""
    if isinstance(kind, pa.BaseExtensionType):
        return kind.wrap_array(pa.array([value, None], kind.storage_type))
    return pa.array([value, None], kind)


def as_read(rows: pa.Table) -> pa.Table:
    """The rows as readers get them: UUID and JSON as texts."""
    for place, column in enumerate(rows.columns):
        if isinstance(column.type, pa.BaseExtensionType):
            storage = column.combine_chunks().storage.to_pylist()
            texts = [str(UUID(bytes=each)) if isinstance(each, bytes) else each for each in storage]
            rows = rows.set_column(place, rows.column_names[place], pa.array(texts, pa.string()))
    return rows


def sorted_rows(table: firnline.Table | str, **kwargs: Any) -> list[dict[str, Any]]:
    rows = firnline.scan(table, **kwargs).to_arrow().to_pylist()
    return sorted(rows, key=lambda row: (row["id"], str(row)))


def merged(table: firnline.Table | str) -> bool:
    """Merge all parts, however few; return whether something was."""
    return firnline.merge(table, firnline.MergeOptions(full=True)).groups_done > 0


def cli(*words: str | Path) -> str:
    """Run the command line in a process of its own; return what it prints."""
    done = subprocess.run(
        [sys.executable, "-m", "firnline", *map(str, words)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "COLUMNS": "100"},
    )
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    return done.stdout


def test_the_versions_are_those_that_are_declared() -> None:
    from packaging.requirements import Requirement

    text = (REPO / "pyproject.toml").read_text(encoding="utf-8")
    declared = re.search(r"^dependencies = \[$(.*?)^\]$", text, re.MULTILINE | re.DOTALL)
    assert declared is not None
    for each in map(Requirement, re.findall(r'^ +"(.+)",$', declared[1], re.MULTILINE)):
        assert each.specifier.contains(version(each.name), prereleases=True), each


def test_a_value_of_each_type_is_what_it_was_also_after_a_merge(root: str) -> None:
    columns = {f"c{at}": one(*value) for at, value in enumerate(VALUES.values())}
    rows = pa.table({"id": [1, 2], **columns})
    read = as_read(rows)
    for _ in range(2):
        firnline.append(root, rows)
    before = sorted_rows(root)
    found = firnline.scan(root).to_arrow()
    assert found.schema.types == read.schema.types
    wanted = [*read.slice(0, 1).to_pylist() * 2, *read.slice(1).to_pylist() * 2]
    assert before == wanted
    assert merged(root)
    assert sorted_rows(root) == wanted
    assert not firnline.verify(root, firnline.VerifyOptions(deep=True, rows=True)).findings


def test_times_of_day_are_kept_or_refused(root: str, tmp_path: Path) -> None:
    rows = pa.table({"id": [1, 2], "x": one(pa.time64("us"), time(4, 30))})
    file = tmp_path / "x.parquet"
    duckdb.execute(f"COPY (SELECT 1 AS id, TIME '04:30' AS x) TO '{file}' (FORMAT parquet)")
    if MAJOR < 22:
        for given in (rows, str(file)):
            with pytest.raises(EnvironmentFaultError, match=f"pyarrow {pa.__version__} writes"):
                firnline.append(root, given)
        return
    firnline.append(root, rows)
    firnline.append(root, str(file))
    wanted = [rows.to_pylist()[0], rows.to_pylist()[0], rows.to_pylist()[1]]
    assert sorted_rows(root) == wanted
    assert merged(root)
    assert sorted_rows(root) == wanted


def test_the_life_of_a_table_in_python(lake: Path) -> None:
    table = firnline.open_table("t", settings=lake)
    for seen in range(3):
        given = [
            {"id": n, "at": DAY, "seen": seen, "name": f"n{n}", "inner": {"b": seen, "a": None}}
            for n in range(4)
        ]
        firnline.append(table, given)
    firnline.append(table, pa.table({"id": [9], "at": [DAY], "seen": [0], "name": ["x"]}))
    assert [row["seen"] for row in sorted_rows(table)] == [2, 2, 2, 2, 0]
    firnline.delete(table, "name = 'n1'")
    merged(table)
    kept = firnline.scan(table, where="id < 9", columns=["id", "name"]).to_arrow().to_pylist()
    assert sorted(row["id"] for row in kept) == [0, 2, 3]
    assert firnline.scan(table).count() == 4
    rows = firnline.scan(table).to_arrow()
    assert duckdb.from_arrow(rows).aggregate('max("at")').fetchall() == [(DAY,)]
    assert not firnline.verify(table, firnline.VerifyOptions(deep=True)).findings
    assert {each.op for each in firnline.history(table)} >= {"delete"}


def test_rows_that_only_move_are_merged_with_filters(root: str) -> None:
    for start in (0, 8192):
        firnline.append(root, pa.table({"id": list(range(start, start + 8192))}))
    assert merged(root)
    assert firnline.scan(root, where="id = 9000").to_arrow().to_pylist() == [{"id": 9000}]


def test_texts_with_codes_have_the_digest_of_their_rows(root: str) -> None:
    for _ in range(2):
        names = pa.array(["ice", None, "snow on the glacier"] * 100).dictionary_encode()
        firnline.append(root, pa.table({"id": list(range(300)), "name": names}))
    assert merged(root)
    assert not firnline.verify(root, firnline.VerifyOptions(rows=True)).findings
    assert firnline.scan(root, where="name = 'ice'").count() == 200


def test_the_life_of_a_table_by_the_command_line(root: str, tmp_path: Path) -> None:
    for n in range(2):
        rows = pa.table({"id": [n, n + 10], "at": [DAY, DAY], "name": ["a", "b"]})
        pq.write_table(rows, tmp_path / f"{n}.parquet")
    cli("append", root, tmp_path / "0.parquet", tmp_path / "1.parquet")
    firnline.append(root, str(tmp_path / "0.parquet"))
    cli("merge", root, "--full")
    cli("delete", root, "--where", "name = 'b' and id = 11", "--yes")
    out = tmp_path / "out.parquet"
    cli("read", root, "--output", out)
    assert sorted(pq.read_table(out)["id"].to_pylist()) == [0, 0, 1, 10, 10]
    assert json.loads(cli("verify", root, "--deep", "--json"))
