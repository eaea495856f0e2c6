"""Columns that only the folders of files state: ``day=2024-01-01/part-0.parquet``.

Spark, Hive, Athena and pyarrow leave them out of the files. They become columns of the table.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from urllib.parse import unquote

from firnline.errors import PartSchemaError, UsageError
from firnline.paths import NULL_VALUE
from firnline.types.schema import normalise
from firnline.types.sql import fold_name, parse_sql_type

Values = Mapping[str, str | None]
"""Column -> the text of its value; None for a null."""

_NULLS = ("__HIVE_DEFAULT_PARTITION__", NULL_VALUE, "")
# Only what Arrow casts to the type (rows/foreign.py): Python would take other digits, too.
_INTEGER = re.compile(r"[+-]?[0-9]{1,19}")
_DOUBLE = re.compile(r"[+-]?([0-9]+\.[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?|[+-]?[0-9]+[eE][+-]?[0-9]+")
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_TIME = re.compile(rf"{_DATE.pattern}[ T][0-9]{{2}}:[0-9]{{2}}:[0-9]{{2}}(\.[0-9]{{1,6}})?")
_WIDER = (("INTEGER", "BIGINT", "DOUBLE"), ("DATE", "TIMESTAMP"))
"""Types of which each holds the values of those before it."""
_INT32, _INT64 = 2**31, 2**63
_STATED = frozenset(
    """
    BIGINT BOOLEAN DATE DECIMAL DOUBLE FLOAT INTEGER SMALLINT TIME TIMESTAMP TIMESTAMP_MS
    TIMESTAMP_NS TINYINT UBIGINT UINTEGER USMALLINT UTINYINT VARCHAR
    """.split()  # noqa: SIM905 - a table of words is easier to read
) | {"TIMESTAMP WITH TIME ZONE"}
"""Types that the text of a folder can have."""


def path_values(source: str, key: str) -> dict[str, str | None]:
    """Return what the folders of a file state.

    Those at the end of the imported folder itself count too: who imports one day of a table wants
    to know the day.

    Args:
        source: key prefix of the imported folder, ending in ``/``.
        key: of the file.

    Raises PartSchemaError: an escape of theirs is no UTF-8, so that nobody knows what it stood for.
    """
    above: list[str] = []
    for segment in reversed(source.rstrip("/").split("/")):
        if not _column(segment):
            break
        above.insert(0, segment)
    segments = [*above, *key.removeprefix(source).split("/")[:-1]]
    values: dict[str, str | None] = {}
    for segment in segments:
        name, _, text = segment.partition("=")
        if _column(segment):
            values[_unescaped(name, key)] = None if text in _NULLS else _unescaped(text, key)
    return values


def _unescaped(text: str, key: str) -> str:
    try:
        return unquote(text, errors="strict")
    except UnicodeDecodeError:
        raise PartSchemaError(
            f"the folder of {key} states {text!r}, whose escapes are no UTF-8",
            next_step="rename the folder, or import without its columns (--no-path-columns)",
        ) from None


def own_folder(folder: str) -> str:
    """Return the folder of a file as a partition of the table: nulls in its words."""
    hive = _NULLS[0]
    return "/".join(
        f"{segment.removesuffix(hive)}{NULL_VALUE}" if segment.endswith(f"={hive}") else segment
        for segment in folder.split("/")
    )


def types_of(values: Sequence[Values], stated: Mapping[str, str]) -> dict[str, str]:
    """Return the type of each column: the stated one, or what fits all of its values.

    Whole numbers are INTEGER or BIGINT, others DOUBLE, ISO dates DATE, ISO times TIMESTAMP, and
    everything else VARCHAR, as Spark infers them; but numbers with more digits than a DOUBLE has
    stay texts.
    """
    names = dict.fromkeys(name for each in values for name in each)
    return {
        name: stated[name] if name in stated else _fitting([each.get(name) for each in values])
        for name in names
    }


def parse_types(given: Iterable[str]) -> dict[str, str]:
    """Return column -> type of ``day=DATE``. Raises UsageError."""
    types = {}
    for text in given:
        name, mark, kind = text.partition("=")
        parsed = parse_sql_type(kind)
        if not name or not mark or parsed is None or parsed.name not in _STATED:
            raise UsageError(
                f"{text!r} states no type of a path column",
                next_step="write NAME=TYPE, such as --path-types day=DATE",
            )
        types[name] = normalise(kind)
    return types


def refuse_unknown_types(stated: Mapping[str, str], names: Iterable[str]) -> None:
    """Raise UsageError for a type of a column that no folder states."""
    known = {fold_name(name) for name in names}
    for name in stated:
        if fold_name(name) not in known:
            raise UsageError(
                f"no folder states a column {name!r}, of which --path-types states the type",
                next_step=f"the folders state {', '.join(names) or 'none'}",
            )


def _column(segment: str) -> bool:
    name, mark, _ = segment.partition("=")
    return bool(name and mark)


def _fitting(texts: Sequence[str | None]) -> str:
    stated = {text for text in texts if text is not None}
    kinds = {_kind_of(text) for text in stated}
    for wider in _WIDER:
        if kinds and kinds <= set(wider):
            found = max(kinds, key=wider.index)
            return found if found != "DOUBLE" or all(map(_is_double, stated)) else "VARCHAR"
    return "VARCHAR"


def _is_double(text: str) -> bool:
    """Return True if the nearest DOUBLE is written with the same digits."""
    try:
        return Decimal(text) == Decimal(repr(float(text)))
    except ArithmeticError:  # an exponent that no number has
        return False


def _kind_of(text: str) -> str:
    if _INTEGER.fullmatch(text):
        number = int(text)
        if -_INT32 <= number < _INT32:
            return "INTEGER"
        return "BIGINT" if -_INT64 <= number < _INT64 else "VARCHAR"
    if _DOUBLE.fullmatch(text):
        return "DOUBLE"
    for kind, form, parse in (("DATE", _DATE, date), ("TIMESTAMP", _TIME, datetime)):
        if form.fullmatch(text) and _parses(text, parse):
            return kind
    return "VARCHAR"


def _parses(text: str, parse: type[date]) -> bool:
    try:
        parse.fromisoformat(text)
    except ValueError:  # such as a 31st of April
        return False
    return True
