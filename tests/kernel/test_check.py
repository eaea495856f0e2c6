"""Conditions asked of rows."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from firnline.kernel.convert import row_check

ROWS = pa.table({"a b": [1, 2, None, 4], "c": ["x", "y", "z", None]})


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ('"a b" > 0 OR "a b" IS NULL', (0, ())),
        ('"a b" < 2', (3, (2, "y"))),
        ("c = 'x'", (3, (2, "y"))),
        ("c <> 'q'", (1, (4, None))),
    ],
)
def test_rows_for_which_it_is_false_or_null_break_a_condition(
    condition: str, expected: object, tmp_path: Path
) -> None:
    with row_check(tmp_path) as check:
        assert check.breaking(ROWS, condition, ["a b", "c"]) == expected
        assert check.breaking(ROWS.slice(0, 0), condition, ["a b"]) == (0, ())
