"""A column can be declared with exactly the types that a part keeps."""

from __future__ import annotations

import pytest

from firnline.errors import PartSchemaError
from firnline.types.arrow import from_arrow, to_arrow
from firnline.types.held import held
from firnline.types.sql import _BUILT_IN, SqlType, parse_sql_type

ARGUMENTS = {"DECIMAL": "(9,2)", "ENUM": "('a')", "MAP": "(VARCHAR, INTEGER)"}
FIELDS = {"STRUCT": "(a INTEGER, b VARCHAR)", "UNION": "(a INTEGER)"}


def kept_by_arrow(kind: str) -> str | None:
    try:
        return from_arrow(to_arrow({"x": kind}), {"x": kind})["x"]
    except PartSchemaError:
        return None


@pytest.mark.parametrize("name", sorted(_BUILT_IN | {"STRUCT"}))
@pytest.mark.parametrize("around", ["{}", "{}[]", "{}[3]", "STRUCT(a {})", "MAP(VARCHAR, {})"])
def test_it_is_what_is_read_from_a_part_that_was_written_with_it(name: str, around: str) -> None:
    kind = str(parse_sql_type(around.format(name + (ARGUMENTS | FIELDS).get(name, ""))))
    found, kept = held(parse_sql_type(kind) or SqlType("?")), kept_by_arrow(kind)
    assert (found is None) == (kept is None)
    assert (str(found) == kind) == (kept == kind)
    if found is not None:
        assert kept_by_arrow(str(found)) == str(found)


@pytest.mark.parametrize("kind", ["DECIMAL(39,0)", "DECIMAL(2,3)", "STRUCT", "BIGINT" + "[]" * 17])
def test_what_no_part_holds_has_none(kind: str) -> None:
    assert held(parse_sql_type(kind) or SqlType("?")) is None
