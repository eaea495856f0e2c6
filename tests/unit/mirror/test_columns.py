"""Columns and statistics as Delta spells them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from firnline.errors import MirrorRefusedError
from firnline.log.records import Marker
from firnline.mirror.delta.columns import (
    digest,
    features_of,
    schema_string,
    widens_in_place,
)
from firnline.mirror.delta.stats import file_stats


def delta_type(kind: str) -> Any:
    return json.loads(schema_string("t", {"c": kind}))["fields"][0]["type"]


@pytest.mark.long
@pytest.mark.parametrize(
    ("kind", "wanted"),
    [
        ("BOOLEAN", "boolean"),
        ("TINYINT", "byte"),
        ("UTINYINT", "short"),
        ("UINTEGER", "long"),
        ("BIGINT", "long"),
        ("FLOAT", "float"),
        ("DECIMAL(38,10)", "decimal(38,10)"),
        ("VARCHAR", "string"),
        ("BLOB", "binary"),
        ("DATE", "date"),
        ("TIMESTAMP", "timestamp_ntz"),
        ("TIMESTAMP_MS", "timestamp_ntz"),
        ("TIMESTAMP WITH TIME ZONE", "timestamp"),
        ("INTEGER[]", {"type": "array", "elementType": "integer", "containsNull": True}),
        ("INTEGER[3]", {"type": "array", "elementType": "integer", "containsNull": True}),
        (
            "MAP(VARCHAR, DOUBLE)",
            {
                "type": "map",
                "keyType": "string",
                "valueType": "double",
                "valueContainsNull": True,
            },
        ),
        (
            "STRUCT(a DATE)",
            {
                "type": "struct",
                "fields": [{"name": "a", "type": "date", "nullable": True, "metadata": {}}],
            },
        ),
    ],
)
def test_a_type_has_its_counterpart(kind: str, wanted: Any) -> None:
    assert delta_type(kind) == wanted


@pytest.mark.parametrize(
    "kind",
    [
        *("UBIGINT", "HUGEINT", "UHUGEINT", "BIGNUM", "TIME", "TIME WITH TIME ZONE", "INTERVAL"),
        *("UUID", "JSON", "BIT", "TIMESTAMP_NS", "ENUM('a')", "GEOMETRY", "VARIANT", "FLOAT16"),
        *("UBIGINT[]", "STRUCT(a UBIGINT)", "MAP(VARCHAR, TIME)", "UNION(a INTEGER)"),
    ],
)
def test_a_type_that_delta_does_not_have_is_refused_by_name(kind: str) -> None:
    with pytest.raises(MirrorRefusedError, match="column 'c' of table t is"):
        delta_type(kind)


@pytest.mark.parametrize("name", ["a b", "a,b", "a;b", "{a", "a)", "a=b", "a\tb", "a\nb"])
def test_a_name_that_needs_column_mapping_is_refused(name: str) -> None:
    with pytest.raises(MirrorRefusedError, match="has a column"):
        schema_string("t", {name: "INTEGER"})


def test_a_column_without_a_zone_needs_a_feature() -> None:
    zoned = schema_string("t", {"a": "TIMESTAMP WITH TIME ZONE"})
    local = schema_string("t", {"a": "TIMESTAMP"})
    assert (features_of(zoned), features_of(local)) == ((), ("timestampNtz",))
    assert digest(zoned) != digest(local)
    assert features_of(schema_string("t", {"a": "STRUCT(b TIMESTAMP[])"})) == ("timestampNtz",)


@pytest.mark.parametrize(
    ("kind", "wanted", "seen"),
    [
        ("INTEGER", "BIGINT", True),
        ("UTINYINT", "INTEGER", True),
        ("FLOAT", "DOUBLE", True),
        ("INTEGER", "DOUBLE", False),
        ("DATE", "TIMESTAMP", False),
        ("DECIMAL(5,2)", "DECIMAL(6,2)", False),
    ],
)
def test_readers_widen_whole_numbers_and_floats_by_themselves(
    kind: str, wanted: str, seen: bool
) -> None:
    assert widens_in_place(kind, wanted) == seen


def stats(kind: str, low: Any, high: Any, rows: int | None = 7) -> Any:
    marker = Marker(p="t/_data/x.parquet", b=1, t=1, n=rows)
    found = file_stats(marker, {"c": (low, high, 2)}, {"c": kind})
    return None if found is None else json.loads(found, parse_float=str)


@pytest.mark.parametrize(
    ("kind", "low", "high", "least", "most"),
    [
        ("BIGINT", -5, 2**62, -5, 2**62),
        ("DOUBLE", 0.5, 1.5, "0.5", "1.5"),
        ("DECIMAL(20,2)", "-0.50", "123456789012345678.05", "-0.50", "123456789012345678.05"),
        ("VARCHAR", "a", "b", "a", "b"),
        ("DATE", "2024-01-02", "2024-01-03", "2024-01-02", "2024-01-03"),
        # Down and up to the millisecond.
        (
            "TIMESTAMP",
            "2024-01-02T03:04:05.123456",
            "2024-01-02T03:04:05.123456",
            "2024-01-02T03:04:05.123",
            "2024-01-02T03:04:05.124",
        ),
        (
            "TIMESTAMP WITH TIME ZONE",
            "1969-12-31T23:59:59.999999Z",
            "2024-01-02T03:04:05.123000Z",
            "1969-12-31T23:59:59.999Z",
            "2024-01-02T03:04:05.123Z",
        ),
    ],
)
def test_a_bound_is_spelled_as_delta_does(
    kind: str, low: Any, high: Any, least: Any, most: Any
) -> None:
    assert stats(kind, low, high) == {
        "numRecords": 7,
        "minValues": {"c": least},
        "maxValues": {"c": most},
        "nullCount": {"c": 2},
    }


@pytest.mark.parametrize(
    ("kind", "low", "high"),
    [
        ("BOOLEAN", False, True),
        ("BLOB", "a", "b"),
        ("BIGINT", "no number", "2.5"),
        ("DECIMAL(4,2)", '1,"x":', "1e999"),
        ("TIMESTAMP", "yesterday", "9999-12-31T23:59:59.9999"),
        ("VARCHAR", None, None),
        ("INTEGER[]", 1, 2),
    ],
)
def test_a_bound_that_has_no_spelling_is_left_out(kind: str, low: Any, high: Any) -> None:
    assert stats(kind, low, high) == {"numRecords": 7, "nullCount": {"c": 2}}


def test_without_a_number_of_rows_there_are_no_statistics() -> None:
    assert stats("BIGINT", 1, 2, rows=None) is None
