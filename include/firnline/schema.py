"""The columns of a table: SQL type names as DuckDB spells them, and the union of schema lines."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache

from firnline.errors import SchemaConflictError
from firnline.sql_types import fold_name, parse_sql_type

_NEXT_STEP = (
    "find the writer of the wrong one and have its parts rewritten with the right type, "
    "or append to another table"
)


@lru_cache(maxsize=16384)
def normalise(type_text: str) -> str:
    """A type text in DuckDB's canonical spelling (``int4[]`` -> ``INTEGER[]``).

    A text that is no type known here is kept as it is, with its blanks made single: a foreign
    client may write types of a later DuckDB, and equal texts still agree.
    """
    kind = parse_sql_type(type_text)
    return " ".join(type_text.split()) if kind is None else str(kind)


def union(lines: Iterable[tuple[str, Mapping[str, str]]]) -> dict[str, str]:
    """The columns of all schema lines, in the order in which they are first seen.

    Args:
        lines: (log file, column -> type text) per log file.

    Returns:
        column -> canonical type text.

    Raises:
        SchemaConflictError: two log files give one column different types, or two columns whose
            names differ only in the case of letters (DuckDB and SQL see one column there).
    """
    merged: dict[str, str] = {}
    first_file: dict[str, str] = {}
    spelling: dict[str, str] = {}
    seen: set[tuple[tuple[str, str], ...]] = set()
    last: Mapping[str, str] | None = None
    for log_file, columns in lines:
        # Ten thousand appends of one writer carry ten thousand equal lines.
        if columns is last:
            continue
        last = columns
        line = tuple(columns.items())
        if line in seen:
            continue
        seen.add(line)
        for name, type_text in line:
            kind = normalise(type_text)
            known = merged.get(name)
            if known is None:
                _check_case(name, log_file, spelling, first_file)
                merged[name] = kind
                first_file[name] = log_file
            elif known != kind:
                raise SchemaConflictError(
                    f"column {name!r} is {known} in log file {first_file[name]} "
                    f"but {kind} in {log_file}",
                    next_step=_NEXT_STEP,
                )
    return merged


def _check_case(
    name: str, log_file: str, spelling: dict[str, str], first_file: dict[str, str]
) -> None:
    """Note the spelling of a new column; refuse a second one in other letters."""
    other = spelling.setdefault(fold_name(name), name)
    if other != name:
        raise SchemaConflictError(
            f"column {name!r} of log file {log_file} differs only in the case of its letters "
            f"from {other!r} of {first_file[other]}",
            next_step=_NEXT_STEP,
        )
