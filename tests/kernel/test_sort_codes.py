"""Text columns of a sort order are compared by codes: the same rows in the same order."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from firnline.kernel import outputs, sort_codes
from firnline.kernel.task import Conversion
from firnline.types.order import SortKey
from tests.kernel.conftest import Group

TEXTS = ["b", "", "a\0b", None, "a", "Z", "a\0", "\u00e9", "ab", "b" * 60, "a", None, "\U0001f600"]
BYTES = [text.encode() for text in TEXTS if text is not None]


@pytest.fixture
def coded(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, str]]:
    """The codes of every merge."""
    seen: list[dict[str, str]] = []

    def record(*asked: Any) -> dict[str, str]:
        seen.append(sort_codes.sort_codes(*asked))
        return seen[-1]

    monkeypatch.setattr(outputs, "sort_codes", record)
    return seen


@pytest.mark.parametrize("descending", [False, True])
def test_texts_sort_by_their_bytes_and_nulls_are_last(
    group: Group, coded: list[dict[str, str]], descending: bool
) -> None:
    table = pa.table({"t": TEXTS, "n": list(range(len(TEXTS)))})
    keys = (SortKey("t", descending), SortKey("n"))
    _, found = group.merge(table, table, sort_by=keys)
    expected = sorted(BYTES * 2, reverse=descending)
    assert [text.encode() for text in found["t"].to_pylist()[:-4]] == expected
    assert found["t"].to_pylist()[-4:] == [None] * 4
    assert found["n"].to_pylist()[-4:] == [3, 3, 11, 11]
    assert coded == [{"t": "firnline_code_0"}]


def test_only_texts_with_few_short_values_have_codes(
    group: Group, coded: list[dict[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sort_codes, "MOST_VALUES", 50)
    rows = range(400)
    table = pa.table(
        {
            "few": [f"{i % 9}" for i in rows],
            "many": [f"{i % 200}" for i in rows],
            "long": ["a" * 2**19 if i == 200 else f"{i % 9}" for i in rows],
            "none": pa.nulls(400, pa.string()),
            "n": list(rows),
        }
    )
    _, found = group.merge(table, sort=("few", "many", "long", "none", "n"))
    assert coded == [{"few": "firnline_code_0"}]
    order = [(row["few"], row["many"], row["n"]) for row in found.to_pylist()]
    assert order == sorted(order)


def test_rows_of_a_query_have_codes_of_their_own(group: Group) -> None:
    table = pa.table({"t": ["b", "a", "c"]})
    query = "SELECT 'x' || t AS t FROM _rows"
    assert group.merge(table, sort=("t",), query=query)[1]["t"].to_pylist() == ["xa", "xb", "xc"]


def test_hidden_and_converted_values_and_other_spellings_of_names_may_be_sorted(
    group: Group,
) -> None:
    (key,) = group.put(pa.table({"T": [30, 9, 4, 1]}))
    task = group.task(
        [key],
        {"t": "VARCHAR"},
        sort_by=(SortKey("T"),),
        hidden={key: "T = 4"},
        conversions=(Conversion(column="T", name="t"),),
    )
    assert group.read(group.run(task))["t"].to_pylist() == ["1", "30", "9"]


def test_a_table_with_a_key_is_sorted_with_codes(group: Group, coded: list[dict[str, str]]) -> None:
    old = pa.table({"t": ["b", "a"], "n": [1, 2]})
    new = pa.table({"t": ["c", "a"], "n": [1, 3]})
    _, found = group.merge(old, new, sort=("t", "n"), primary_key=("n",))
    assert found.to_pylist() == [{"t": "a", "n": 2}, {"t": "a", "n": 3}, {"t": "c", "n": 1}]
    assert coded == [{"t": "firnline_code_0"}]


@pytest.mark.parametrize(
    ("kind", "fixed"),
    [
        ("BIGINT", True),
        ("INT8", True),
        ("DECIMAL(9,2)", True),
        ("TIMESTAMP WITH TIME ZONE", True),
        ("UUID", True),
        ("VARCHAR", False),
        ("BLOB", False),
        ("DATE[]", False),
    ],
)
def test_a_key_without_texts_or_with_their_codes_has_a_fixed_width(
    group: Group, kind: str, fixed: bool
) -> None:
    task = group.task([], {"k": kind, "n": "INTEGER"}, sort=("n", "k"))
    assert sort_codes.has_fixed_width(task, {}) is fixed
    assert sort_codes.has_fixed_width(task, {"k": "firnline_code_0"})
