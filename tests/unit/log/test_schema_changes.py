"""How the columns of parts and schema lines become the table's."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from firnline.errors import LogCorruptError
from firnline.log.records import Delete
from firnline.log.schema_changes import (
    AS_IT_IS,
    Evolved,
    SchemaChange,
    is_change,
    line_now,
    part_columns,
    pending,
    record,
    record_of,
    split,
    stats_now,
)
from firnline.types.values import Stats

NAMES = ["a", "b", "c", "d"]


@st.composite
def lives(draw: st.DrawFn) -> tuple[list[SchemaChange], list[set[str]]]:
    """Changes, and the columns that the table has before and after each of them."""
    changes: list[SchemaChange] = []
    states = [set(draw(st.sets(st.sampled_from(NAMES), min_size=1)))]
    for seq in range(1, draw(st.integers(1, 5)) + 1):
        now = set(states[-1])
        if draw(st.booleans()):
            now.add(draw(st.sampled_from(NAMES)))  # an append brought a column
        states[-1] = set(now)
        free = sorted(set(NAMES) - now)
        column = draw(st.sampled_from(sorted(now))) if now else None
        what = Evolved()
        if column is not None and free and draw(st.booleans()):
            new = draw(st.sampled_from(free))
            what, now = Evolved(rename={column: new}), now - {column} | {new}
        elif column is not None:
            what, now = Evolved(drop=(column,)), now - {column}
        changes.append(SchemaChange(f"i{seq}", seq, seq, what))
        states.append(now)
    return changes, states


@given(lives(), st.integers(0, 5))
def test_a_part_shows_what_its_schema_line_says_and_its_columns_only_once(
    life: tuple[list[SchemaChange], list[set[str]]], q: int
) -> None:
    changes, states = life
    q = min(q, len(changes))
    held = states[q]
    columns = part_columns(pending(changes, q))
    line = line_now(changes, dict.fromkeys(sorted(held), "INTEGER"), q)
    shown = [columns.column(name) for name in sorted(held)]
    assert sorted(name for name in shown if name is not None) == sorted(line)
    for name in held:
        now = columns.column(name)
        assert now is None or name in columns.names(now)
    # What the table has now and the part does not hold comes from nowhere.
    for name in states[-1] - set(line):
        assert not set(columns.names(name)) & {
            n for n, s in zip(sorted(held), shown, strict=True) if s
        }


def test_a_record_is_one_of_a_delete_that_hides_no_row() -> None:
    what = Evolved(widen={"a": "BIGINT"}, rename={"b": "c"}, drop=("d",))
    change = SchemaChange("x", 7, 9, what)
    plain = Delete(id="y", seq=3, t=4, where=msgspec.Raw(b'{"op":"=","column":"schema","value":1}'))
    quoted = Delete(
        id="z", seq=3, t=4, where=msgspec.Raw(b'{"op":"is_null","column":"\\"schema\\""}')
    )
    rows, changes = split([record_of(change), plain, quoted])
    assert (set(rows), changes) == ({"y", "z"}, (change,))
    assert is_change(record("x", what))
    assert record_of(change).seq == 7


def test_a_delete_by_a_column_that_got_another_name_since_was_over_by_then() -> None:
    change = SchemaChange("x", 7, 9, Evolved(rename={"b": "c"}, drop=("d",)))
    trees = {"b": 3, "D": 6, "c": 3, "late": 3}
    records = [
        Delete(
            id=name,
            seq=seq,
            t=4,
            where=msgspec.Raw(b'{"op":"is_null","column":"%s"}' % name.encode()),
        )
        for name, seq in trees.items()
    ]
    again = Delete(id="again", seq=8, t=9, where=records[0].where)
    rows, _ = split([*records, again, record_of(change)])
    assert set(rows) == {"c", "late", "again"}


@pytest.mark.parametrize(
    "where",
    [b'{"op":"schema","move":{}}', b'{"op":"schema","drop":7}', b'{"op":"schema"', b'["schema"]'],
)
def test_a_record_that_a_later_version_wrote_is_refused(where: bytes) -> None:
    with pytest.raises(LogCorruptError, match="x of transaction 7") as raised:
        split([Delete(id="x", seq=7, t=9, where=msgspec.Raw(where))])
    assert "upgrade firnline" in raised.value.next_step


def test_parts_that_name_a_change_or_are_newer_show_it() -> None:
    changes = [SchemaChange("x", 7, 9, Evolved(drop=("a",)))]
    assert pending(changes, 6) == tuple(changes)
    assert pending(changes, 7) == pending(changes, 6, ["x"]) == ()
    assert part_columns(()) is AS_IT_IS


def test_a_wider_type_counts_for_every_line_and_follows_the_column() -> None:
    changes = [
        SchemaChange("x", 3, 3, Evolved(widen={"a": "BIGINT"})),
        SchemaChange("y", 5, 5, Evolved(rename={"a": "b"})),
    ]
    assert line_now(changes, {"a": "INTEGER"}, 0) == {"b": "BIGINT"}
    assert line_now(changes, {"A": "INTEGER"}, 4) == {"b": "BIGINT"}
    assert line_now(changes, {"b": "SMALLINT"}, 9) == {"b": "BIGINT"}
    assert line_now(changes, {"a": "INTEGER", "b": "VARCHAR"}, 9) == {
        "a": "INTEGER",
        "b": "VARCHAR",
    }


def test_two_names_of_one_column_in_a_line_contradict_each_other_only_by_their_types() -> None:
    changes = [SchemaChange("x", 3, 3, Evolved(rename={"a": "b"}))]
    for line in ({"a": "DATE", "b": "TIME"}, {"b": "TIME", "a": "DATE"}):
        assert line_now(changes, line, 0) == {"b": "TIME"}
    assert line_now(changes, {"a": "DATE", "b": "DATE"}, 0) == {"b": "DATE"}


def test_statistics_go_with_the_column_and_its_type_or_are_left_out() -> None:
    changes = [
        SchemaChange(
            "x", 3, 3, Evolved(widen={"n": "DECIMAL(12,4)"}, rename={"a": "b"}, drop=("c",))
        )
    ]
    stats: Stats = {
        "n": ("1.50", None, 0),
        "a": (1, 2, 0),
        "b": (1, 2, 0),
        "c": (1, 2, 0),
        "x": ("y", "z", 0),
    }
    schema = {"n": "DECIMAL(12,4)", "b": "BIGINT", "c": "DATE", "x": "BIGINT"}
    assert stats_now(part_columns(changes), stats, schema) == {"n": ("1.5000", None, 0)}
