"""The columns of a sample file: Parquet, JSON lines or CSV."""

from __future__ import annotations

import re
from pathlib import Path

from firnline.errors import UsageError

_READERS = {
    ".json": "read_json",
    ".jsonl": "read_json",
    ".ndjson": "read_json",
    ".csv": "read_csv",
    ".tsv": "read_csv",
}
"""Function of DuckDB by suffix; a ``.gz`` behind it does not count."""
_UNTYPED = r'(?:"NULL"|JSON)(?:\[\])*'
"""Type of what is null, empty, or now one type and now another, in all rows of a sample."""
_FIELD = r'(?:"(?:[^"]|"")*"|\w+)'
_LATER_FIELD = re.compile(rf", {_FIELD} {_UNTYPED}(?=[,)])")
_FIRST_FIELD = re.compile(rf"\({_FIELD} {_UNTYPED}, ")


def columns_of(path: Path) -> tuple[dict[str, str], list[str]]:
    """Return SQL type by column of a file, and the columns whose type it does not show.

    A field of a column without a type is left out of that: an append adds it when it has one.

    Raises UsageError: it cannot be read, or is none of these formats.
    """
    suffixes = [suffix.lower() for suffix in path.suffixes if suffix.lower() != ".gz"]
    suffix = suffixes[-1] if suffixes else ""
    if suffix == ".parquet":
        return _of_parquet(path), []
    if suffix not in _READERS:
        raise UsageError(
            f"{path} ends in none of .parquet, {', '.join(_READERS)}",
            next_step="give a sample in one of these formats",
        )
    found = _described(path, _READERS[suffix])
    shown = {name: _with_types(kind) for name, kind in found.items()}
    columns = {name: kind for name, kind in shown.items() if kind is not None}
    return columns, [name for name in shown if name not in columns]


def _of_parquet(path: Path) -> dict[str, str]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    from firnline.types.arrow import from_arrow

    try:
        return from_arrow(pq.read_schema(path))
    except (OSError, pa.ArrowException) as error:
        raise _unreadable(path, error) from None


def _described(path: Path, reader: str) -> dict[str, str]:
    import duckdb

    if not path.is_file():
        raise UsageError(f"{path} is no file", next_step="give a file of this machine")
    connection = duckdb.connect()
    try:
        rows = connection.execute(
            f"DESCRIBE SELECT * FROM {reader}(?)",  # noqa: S608 - one of two names
            [str(path)],
        ).fetchall()
    except duckdb.Error as error:
        raise _unreadable(path, error) from None
    finally:
        connection.close()
    return {name: kind for name, kind, *_ in rows}


def _with_types(kind: str) -> str | None:
    """Return a type without fields that have none; None if nothing is left."""
    from firnline.types.sql import parse_sql_type

    before = ""
    while before != kind:
        before, kind = kind, _FIRST_FIELD.sub("(", _LATER_FIELD.sub("", kind))
    if re.search(_UNTYPED, kind) or parse_sql_type(kind) is None:
        return None
    return kind


def _unreadable(path: Path, error: Exception) -> UsageError:
    said = str(error).strip().splitlines()
    return UsageError(
        f"{path} cannot be read: {said[0] if said else type(error).__name__}",
        next_step="give a sample in Parquet, JSON lines or CSV",
    )
