"""The form of a column in a Parquet file, and whether all readers agree what it holds.

Parquet has many ways to write one value, and its readers know different ones: DuckDB, Arrow and
Spark read a time of old Spark, a list of old Hive or an annotation that is new as different types,
or not at all. All of them agree about the parts that this package writes. So a column of anybody's
file is read as it is if its form is that of a part, but for differences about which no reader
disagrees; every other file is written anew.
"""

# ruff: noqa: TID253 - used in the process that parses footers; no DAG file imports it at parse

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from datetime import date
from functools import lru_cache
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from firnline.errors import PartSchemaError
from firnline.parquet.arrow_versions import refuse_changed
from firnline.predicate.tree import NULLS_BY_BOUNDS
from firnline.types.arrow import holds, to_arrow

_ENCODINGS = frozenset(
    {
        "PLAIN",
        "PLAIN_DICTIONARY",
        "RLE_DICTIONARY",
        "RLE",
        "BIT_PACKED",
        "DELTA_BINARY_PACKED",
        "DELTA_LENGTH_BYTE_ARRAY",
        "DELTA_BYTE_ARRAY",
        "BYTE_STREAM_SPLIT",
    }
)
_SPLIT_TYPES = ("FLOAT", "DOUBLE", "INT32", "INT64")
"""Physical types of which DuckDB reads BYTE_STREAM_SPLIT."""
_CODECS = frozenset({"UNCOMPRESSED", "SNAPPY", "GZIP", "ZSTD", "BROTLI"})
"""Not LZ4: two forms of it have this name, and readers guess which it is."""
_WIDE = 2**31
"""From this distance of the largest and the smallest number on, steps up and down, of which the
smallest one is taken away, have more than 32 bits: DuckDB writes them, and Arrow does not read them
(nor write them: its own steps overflow)."""
_MOST_MILLIS = (2**63 - 1) // 1_000

_MAP_LEVEL = ".key_value."
_GEOMETRIES = b"geo"
"""Key of the metadata by which DuckDB takes bytes for geometries (GeoParquet)."""

Form = tuple[str, str, int, int]
"""Annotation, physical type, depth of its path, levels of lists."""
_OLD_SPARK = re.compile(rb"[12]\.")
_JULIAN_BEFORE = date(1582, 10, 15).toordinal() - date(1970, 1, 1).toordinal()
"""Days from 1970 to the first day of the Gregorian calendar."""
_DAY_MICROS = 86_400 * 10**6


def odd_columns(footer: pq.FileMetaData, columns: Mapping[str, str]) -> dict[str, str]:
    """Return the columns whose form is not that of a part -> what differs, in words.

    Args:
        footer: of a file, whose chunks may be looked at (``parquet.footers``).
        columns: all of its columns in their order -> SQL type as ``types.arrow.from_arrow`` says.
    """
    places = _places(footer.schema, footer.num_columns, tuple(columns))
    odd = {}
    for name, kind in columns.items():
        leaves = [footer.schema.column(place) for place in places[name]]
        forms, usual = [_form(leaf) for leaf in leaves], _forms_of(kind)
        if forms != usual:
            odd[name] = _difference(forms, usual)
        elif "MAP(" not in kind and any(_MAP_LEVEL in leaf.path for leaf in leaves):
            odd[name] = "written as a map without values"
        elif kind == "BLOB" and _GEOMETRIES in (footer.metadata or {}):
            odd[name] = "maybe a geometry, by the metadata of the file"
        elif why := _strange_pages(footer, places[name], kind):
            odd[name] = why
    return odd


def _places(schema: pq.ParquetSchema, count: int, names: tuple[str, ...]) -> dict[str, list[int]]:
    """Return the leaves of each column; of two columns that may have one the first has it."""
    places: dict[str, list[int]] = {name: [] for name in names}
    paths = [schema.column(place).path for place in range(count)]
    at = 0
    for name in names:
        while at < count and (paths[at] == name or paths[at].startswith(f"{name}.")):
            places[name].append(at)
            at += 1
    return places


@lru_cache(maxsize=4096)
def _forms_of(kind: str) -> list[Form]:
    """Return the forms of the leaves of a column of a part.

    Raises EnvironmentFaultError: this pyarrow writes another type.
    """
    schema = to_arrow({"x": kind})
    refuse_changed(schema)
    sink = pa.BufferOutputStream()
    pq.ParquetWriter(sink, schema, store_schema=False).close()
    footer = pq.read_metadata(pa.BufferReader(sink.getvalue()))
    return [_form(footer.schema.column(place)) for place in range(footer.num_columns)]


def _form(leaf: pq.ColumnSchema) -> Form:
    """Return the form of a leaf without the differences about which no reader disagrees."""
    physical = leaf.physical_type
    kind = json.loads(leaf.logical_type.to_json())
    # The names of the levels of lists and maps differ between writers, and say nothing.
    depth = leaf.path.count(".") if leaf.max_repetition_level else 0
    if kind["Type"] == "Decimal" and physical != "BYTE_ARRAY":
        physical = "number"
    if kind["Type"] == "None" and physical == "FIXED_LEN_BYTE_ARRAY":
        physical = "BYTE_ARRAY"
    return _annotation(kind), physical, depth, leaf.max_repetition_level


def _annotation(kind: Mapping[str, Any]) -> str:
    """Return a logical type as text."""
    name = kind["Type"]
    if name == "Int":
        plain = kind["isSigned"] and kind["bitWidth"] in (32, 64)
        return "None" if plain else f"Int({kind['bitWidth']}, signed {kind['isSigned']})"
    if name == "Decimal":
        return f"Decimal({kind['precision']}, {kind['scale']})"
    if name == "Timestamp":
        # Before there were logical types, nobody said whether a time is one in UTC.
        zone = "unknown" if kind.get("is_from_converted_type") else str(kind["isAdjustedToUTC"])
        unit = "nanoseconds" if kind["timeUnit"] == "nanoseconds" else "microseconds"
        return f"Timestamp({unit}, in UTC: {zone})"
    if name == "Time":
        unit = "nanoseconds" if kind["timeUnit"] == "nanoseconds" else "microseconds"
        return f"Time({unit}, in UTC: {kind['isAdjustedToUTC']})"
    return str(name)


def _difference(forms: list[Form], usual: list[Form]) -> str:
    if len(forms) != len(usual):
        return "nested in a form that readers take for different types"
    for (kind, physical, *levels), (other, other_physical, *other_levels) in zip(
        forms, usual, strict=True
    ):
        if (kind, physical) != (other, other_physical):
            return f"written as {physical if kind == 'None' else kind}"
        if levels != other_levels:
            return "nested in an old form of lists"
    return "written in another form"


def _strange_pages(footer: pq.FileMetaData, places: list[int], kind: str) -> str:
    """Return how pages are written that not all readers read; empty for none."""
    by_duckdb = (footer.created_by or "").startswith("DuckDB")
    for place in places:
        leaf = footer.schema.column(place)
        unit = json.loads(leaf.logical_type.to_json())
        coarse = unit["Type"] == "Timestamp" and unit["timeUnit"] == "milliseconds"
        # DuckDB states bounds of its own files by which it answers rightly.
        text = kind in NULLS_BY_BOUNDS and not by_duckdb
        for group, chunk in _chunks(footer, place):
            why = _strange_form(chunk) or _strange_values(chunk, text=text, coarse=coarse)
            if by_duckdb and _may_be_array(leaf, chunk, group.num_rows):
                why = (
                    "maybe an ARRAY with nulls, which DuckDB writes with more values than there are"
                )
            if why:
                return why
    return ""


def _may_be_array(leaf: pq.ColumnSchema, chunk: pq.ColumnChunkMetaData, rows: int) -> bool:
    """Return True for lists with nulls that may all have one length."""
    levels = leaf.max_repetition_level
    if not levels or (chunk.statistics is not None and chunk.statistics.null_count == 0):
        return False
    return levels > 1 or (rows > 0 and chunk.num_values % rows == 0)


def _strange_form(chunk: pq.ColumnChunkMetaData) -> str:
    encodings = set(chunk.encodings)
    if not encodings <= _ENCODINGS:
        return f"encoded as {', '.join(sorted(encodings - _ENCODINGS))}"
    if "BYTE_STREAM_SPLIT" in encodings and chunk.physical_type not in _SPLIT_TYPES:
        return f"encoded as BYTE_STREAM_SPLIT of {chunk.physical_type}"
    return "" if chunk.compression in _CODECS else f"compressed as {chunk.compression}"


def _strange_values(chunk: pq.ColumnChunkMetaData, *, text: bool, coarse: bool) -> str:
    stats = chunk.statistics
    if text and not chunk.has_dictionary_page and _is_one_value_or_null(stats):
        return "of one value and nulls without a dictionary, all of which DuckDB takes for nulls"
    packed = chunk.physical_type == "INT32" and "DELTA_BINARY_PACKED" in chunk.encodings
    if not (packed or coarse) or (stats is not None and stats.null_count == chunk.num_values):
        return ""
    bounded = stats is not None and stats.has_min_max
    # Modulo: numbers without a sign are shown with one.
    if packed and not (bounded and (stats.max_raw - stats.min_raw) % 2**32 < _WIDE):
        return "encoded as DELTA_BINARY_PACKED, maybe with steps of more than 32 bits"
    if coarse and not (bounded and -_MOST_MILLIS <= stats.min_raw <= stats.max_raw <= _MOST_MILLIS):
        return "in milliseconds, maybe more of them than a number of microseconds holds"
    return ""


def _is_one_value_or_null(statistics: pq.Statistics | None) -> bool:
    if statistics is None or not statistics.has_min_max or statistics.null_count == 0:
        return False
    return bool(statistics.min_raw == statistics.max_raw)


def _chunks(
    footer: pq.FileMetaData, place: int
) -> Iterator[tuple[pq.RowGroupMetaData, pq.ColumnChunkMetaData]]:
    for number in range(footer.num_row_groups):
        group = footer.row_group(number)
        yield group, group.column(place)


def julian_columns(footer: pq.FileMetaData) -> list[str]:
    """Return columns with days of the Julian calendar: old Spark writes them, and Spark if told so.

    Spark alone reads them as they were meant. Where the footer does not say how old the values are,
    as of INT96, they count as new.
    """
    if not says_old_calendar(footer):
        return []
    julian = []
    for place in range(footer.num_columns):
        leaf = footer.schema.column(place)
        units = _units_of_a_day(json.loads(leaf.logical_type.to_json()))
        chunks = _chunks(footer, place) if units else ()
        stated = [c.statistics for _, c in chunks]
        bounds = [each.min_raw for each in stated if each and each.has_min_max]
        if bounds and min(bounds) < _JULIAN_BEFORE * units:
            julian.append(leaf.path.partition(".")[0])
    return julian


def says_old_calendar(footer: pq.FileMetaData) -> bool:
    """Return True if days before 1582 are of the Julian calendar; looks at no chunk."""
    told = footer.metadata or {}
    old = _OLD_SPARK.match(told.get(b"org.apache.spark.version", b"")) is not None
    return old or b"org.apache.spark.legacyDateTime" in told


def refuse_julian(footer: pq.FileMetaData) -> None:
    """Raise PartSchemaError for days that only Spark reads as they were meant."""
    julian = julian_columns(footer)
    if julian:
        raise PartSchemaError(
            f"column {julian[0]!r} has days before 1582-10-15 in the Julian calendar, which all "
            "readers but Spark take for other days",
            next_step="write the file anew by Spark, with CORRECTED as "
            "spark.sql.parquet.datetimeRebaseModeInWrite, or leave the file out",
        )


def _units_of_a_day(kind: Mapping[str, Any]) -> int:
    """Return how many units of a date or time are a day; 0 for other types."""
    if kind["Type"] == "Timestamp":
        return _DAY_MICROS // {"milliseconds": 1_000, "microseconds": 1}.get(kind["timeUnit"], 1)
    return 1 if kind["Type"] == "Date" else 0


def variant_columns(footer: pq.FileMetaData, schema: pa.Schema) -> list[str]:
    """Return columns that may hold a VARIANT, which Arrow shows as a struct of its two parts."""
    # The annotation of a group is shown in the text of a schema only.
    if "(Variant" not in str(footer.schema):
        return []
    return [field.name for field in schema if holds(field.type, _is_variant)]


def _is_variant(kind: pa.DataType) -> bool:
    return pa.types.is_struct(kind) and {"metadata", "value"} <= {field.name for field in kind}
