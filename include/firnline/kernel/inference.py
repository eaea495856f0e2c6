"""The columns of a sample file: Parquet, JSON lines or CSV."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from firnline.errors import PartSchemaError, UsageError

_READERS = {
    ".json": "read_json(?, records = true, sample_size = -1)",
    ".jsonl": "read_json(?, records = true, sample_size = -1)",
    ".ndjson": "read_json(?, records = true, sample_size = -1)",
    ".csv": "read_csv(?, sample_size = -1)",
    ".tsv": "read_csv(?, sample_size = -1)",
}
"""Reader of DuckDB by suffix; a ``.gz`` behind it does not count."""
_UNTYPED = r'(?:"NULL"|JSON)(?:\[\])*'
"""Type of what is null, empty, or now one type and now another, in all rows of a sample."""
_FIELD = r'(?:"(?:[^"]|"")*"|\w+)'
_LATER_FIELD = re.compile(rf", {_FIELD} {_UNTYPED}(?=[,)])")
_FIRST_FIELD = re.compile(rf"\({_FIELD} {_UNTYPED}, ")
_INSTEAD = ("DOUBLE", "DECIMAL(38,0)", "VARCHAR")
"""Types for values that do not fit the one that DuckDB has found, in the order of preference."""


def columns_of(path: Path) -> tuple[dict[str, str], list[str]]:
    """Return SQL type by column of a file, and the columns whose type it does not show.

    A field of a column without a type is left out of that: an append adds it when it has one.

    Raises UsageError: it cannot be read, or is none of these formats.
    """
    suffixes = [suffix.lower() for suffix in path.suffixes if suffix.lower() != ".gz"]
    suffix = suffixes[-1] if suffixes else ""
    if suffix == ".parquet":
        return _of_parquet(path), []
    if not path.is_file():
        raise UsageError(f"{path} is no file", next_step="give a file of this machine")
    if suffix not in _READERS:
        raise UsageError(
            f"{path} ends in none of .parquet, {', '.join(_READERS)}",
            next_step="give a sample in one of these formats",
        )
    described = _described(path, _READERS[suffix])
    shown = {name: _with_types(kind) for name, kind in described.items()}
    columns = {name: kind for name, kind in shown.items() if kind is not None}
    if described and _READERS[suffix].startswith("read_json"):
        rows = _rows(path)
        _refuse_renamed(path, described, rows)
        columns = _that_rows_fit(rows, columns)
    return columns, [name for name in shown if name not in columns]


def _rows(path: Path) -> list[dict[str, Any]]:
    """Return the rows of a sample of JSON, as an append gets them."""
    import duckdb

    with duckdb.connect() as connection:
        texts = connection.execute("SELECT json FROM read_json_objects(?)", [str(path)]).fetchall()
    return [json.loads(text) for (text,) in texts]


def _refuse_renamed(path: Path, columns: Iterable[str], rows: Iterable[dict[str, Any]]) -> None:
    """Raise UsageError for a column that no row has: DuckDB has renamed one of two."""
    for name in sorted(set(columns) - {key for row in rows for key in row}):
        raise UsageError(
            f"{path} has no key {name!r}: two of its keys are one name in SQL",
            next_step="give one of them another name",
        )


def _that_rows_fit(rows: Sequence[dict[str, Any]], columns: Mapping[str, str]) -> dict[str, str]:
    """Return the columns with types that an append reads the values of the sample by.

    DuckDB takes more forms of dates and times than an append does, and numbers of any size.
    """
    fitting_types: dict[str, str] = {}
    for name, kind in columns.items():
        values = [{name: row.get(name)} for row in rows]
        kinds = (kind, *_INSTEAD)
        fitting = next((each for each in kinds if _fits(values, name, each)), None)
        fitting_types |= {} if fitting is None else {name: fitting}
    return fitting_types


def _fits(rows: Sequence[dict[str, Any]], name: str, kind: str) -> bool:
    from firnline.rows.dictionaries import as_table

    try:
        as_table(rows, {name: kind})
    except PartSchemaError:
        return False
    return True


def _of_parquet(path: Path) -> dict[str, str]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    from firnline.parquet.footers import arrow_schema
    from firnline.types.arrow import from_arrow

    try:
        return from_arrow(arrow_schema(pq.read_metadata(path)))
    except (OSError, pa.ArrowException) as error:
        raise _unreadable(path, error) from None


def _described(path: Path, reader: str) -> dict[str, str]:
    import duckdb

    if not path.stat().st_size:
        return {}
    with duckdb.connect() as connection:
        try:
            query = f"DESCRIBE SELECT * FROM {reader}"  # noqa: S608 - one of two readers
            rows = connection.execute(query, [str(path)]).fetchall()
        except duckdb.Error as error:
            raise _unreadable(path, error) from None
    return {name: kind for name, kind, *_ in rows}


def _with_types(kind: str) -> str | None:
    """Return the type of a part for it, without fields that have none; None: there is none."""
    from firnline.types.held import held
    from firnline.types.sql import parse_sql_type

    before = ""
    while before != kind:
        before, kind = kind, _FIRST_FIELD.sub("(", _LATER_FIELD.sub("", kind))
    parsed = None if re.search(_UNTYPED, kind) else parse_sql_type(kind)
    kept = None if parsed is None else held(parsed)
    return None if kept is None else str(kept)


def _unreadable(path: Path, error: Exception) -> UsageError:
    lines = str(error).strip().splitlines()
    return UsageError(
        f"{path} cannot be read: {lines[0] if lines else type(error).__name__}",
        next_step="give a sample in Parquet, JSON lines or CSV",
    )
