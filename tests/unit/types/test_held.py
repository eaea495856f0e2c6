"""A column can be declared with exactly the types that a part keeps."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from firnline.errors import PartSchemaError
from firnline.types.arrow import plain_type, to_arrow
from firnline.types.held import held
from firnline.types.sql import _BUILT_IN, SqlType, parse_sql_type

ARGUMENTS = {"DECIMAL": "(9,2)", "ENUM": "('a')", "MAP": "(VARCHAR, INTEGER)"}
FIELDS = {"STRUCT": "(a INTEGER, b VARCHAR)", "UNION": "(a INTEGER)"}
FINER = {"TIMESTAMP_MS": "TIMESTAMP"}
"""What a table keeps and DuckDB does not tell apart."""


def parsed(text: str) -> SqlType:
    found = parse_sql_type(text)
    assert found is not None
    return found


def read_from_a_part(kind: str, file: Path) -> str | None:
    """What DuckDB calls the type of a part that was written with one; None: none can be."""
    try:
        schema = to_arrow({"x": kind})
        column = pa.nulls(1, plain_type(schema.field("x").type)).cast(schema.field("x").type)
        pq.write_table(pa.table([column], schema=schema), file)
    except (PartSchemaError, pa.ArrowNotImplementedError):
        return None
    with duckdb.connect() as connection:
        ((_, found, *_),) = connection.execute(f"DESCRIBE FROM '{file}'").fetchall()
    return str(parsed(found))


@pytest.mark.long
@pytest.mark.parametrize("name", sorted(_BUILT_IN | {"STRUCT"}))
@pytest.mark.parametrize("around", ["{}", "{}[]", "{}[3]", "STRUCT(a {})", "MAP(VARCHAR, {})"])
def test_it_is_what_is_read_from_a_part_that_was_written_with_it(
    name: str, around: str, tmp_path: Path
) -> None:
    text = around.format(name + (ARGUMENTS | FIELDS).get(name, ""))
    found, read = held(parsed(text)), read_from_a_part(text, tmp_path / "x.parquet")
    kept = None if found is None else str(found)
    for finer, coarser in FINER.items():
        kept = kept.replace(finer, coarser) if kept is not None else None
    assert kept == read


@pytest.mark.long
@pytest.mark.parametrize(
    "kind",
    [
        "DECIMAL(39,0)",
        "DECIMAL(2,3)",
        "STRUCT",
        "STRUCT(a BIGINT, A BIGINT)",
        "BIGINT" + "[]" * 17,
    ],
)
def test_what_no_part_holds_has_none(kind: str) -> None:
    assert held(parsed(kind)) is None
