"""Plans of deletes and erases against a plain model of three-valued logic."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import settings as limits
from hypothesis import strategies as st

from firnline.errors import UsageError
from firnline.log.reader import LogObject, LogRead
from firnline.log.records import Delete, LogContent, Marker, stats_json
from firnline.operations.delete.plan import KeyColumn, plan_delete, plan_erase
from firnline.operations.selection import HIDDEN, NO_ROW
from firnline.parquet.stats import from_table
from firnline.paths import TablePaths
from firnline.predicate.pruning import evaluate
from firnline.predicate.tree import (
    COMPARISONS,
    And,
    Compare,
    In,
    IsNull,
    Not,
    Or,
    Predicate,
    parse_json,
    to_json,
)
from firnline.settings.load import TableSettings
from firnline.state.snapshot import Snapshot, build
from tests.support.predicates import COLUMNS, ROWS, TREES, arrow

PATHS = TablePaths("t")
NAMES = PATHS.data_dir
UUIDS = [f"018bcfe5-6800-7000-8000-{n:012x}" for n in range(100)]
SCHEMA = {"i": "INTEGER", "s": "VARCHAR"}


def table_of(
    parts: list[tuple[str, Marker]],
    schema: dict[str, str] | None = None,
    deletes: tuple[Delete, ...] = (),
) -> Snapshot:
    key = PATHS.append_log(1, f"w-{UUIDS[99]}")
    content = LogContent(
        t=1, schema=schema or SCHEMA, markers=[m for _, m in parts], deletes=list(deletes)
    )
    listing = {key: LogObject(PATHS.parse_log(key), 10, 1)}
    return build(PATHS, LogRead(listing, {key: content}))


def part(number: int, partition: str = "p=1", **fields: Any) -> tuple[str, Marker]:
    key = PATHS.data_part(partition, UUIDS[number])
    fields = {"b": 100, "n": 10, "q": 0, "o": number, **fields}
    return partition, Marker(p=key, t=1, **fields)


def settings(**more: Any) -> TableSettings:
    return TableSettings.model_validate({"name": "t", "root": "memory://b/t", **more})


def answer(tree: Predicate, row: dict[str, Any]) -> bool | None:
    """SQL's logic over integers, from its truth tables alone."""
    if isinstance(tree, Not):
        inner = answer(tree.arg, row)
        return None if inner is None else not inner
    if isinstance(tree, And | Or):
        values = [answer(arg, row) for arg in tree.args]
        order = [False, None, True] if isinstance(tree, And) else [True, None, False]
        return min(values, key=order.index)
    value = row[tree.column]
    if isinstance(tree, IsNull):
        return value is None
    if value is None:
        return None
    if isinstance(tree, In):
        return value in tree.values
    assert isinstance(tree, Compare)
    answers: dict[str, bool] = {
        "=": value == tree.value,
        "!=": value != tree.value,
        "<": value < tree.value,
        "<=": value <= tree.value,
        ">": value > tree.value,
        ">=": value >= tree.value,
    }
    return answers[tree.op]


COLUMN = st.sampled_from(["a", "b"])
SMALL = st.integers(-2, 2)
LEAF = (
    COLUMN.map(IsNull)
    | st.builds(lambda c, v: In(c, tuple(v)), COLUMN, st.lists(SMALL, min_size=1, max_size=3))
    | st.builds(
        lambda op, c, v: COMPARISONS[op](c, v), st.sampled_from(list(COMPARISONS)), COLUMN, SMALL
    )
)
TREE = st.recursive(
    LEAF,
    lambda inner: (
        st.lists(inner, min_size=1, max_size=3).map(lambda args: And(tuple(args)))
        | st.lists(inner, min_size=1, max_size=3).map(lambda args: Or(tuple(args)))
        | inner.map(Not)
    ),
    max_leaves=5,
)
ROW = st.fixed_dictionaries({"a": st.none() | SMALL, "b": st.none() | SMALL})
PARTS = st.lists(st.lists(ROW, min_size=1, max_size=4), min_size=1, max_size=4)


def stated(rows: list[dict[str, Any]], *names: str) -> dict[str, Any]:
    """Statistics of some columns."""
    found: dict[str, Any] = {}
    for name in names:
        values = [row[name] for row in rows if row[name] is not None]
        bounds = (min(values), max(values)) if values else (None, None)
        found[name] = (*bounds, len(rows) - len(values))
    return found


@given(tree=TREE, parts=PARTS, known=st.sampled_from([("a", "b"), ("a",), ()]))
def test_no_matching_row_is_left_alone_and_no_other_row_is_dropped(
    tree: Predicate, parts: list[list[dict[str, Any]]], known: tuple[str, ...]
) -> None:
    markers = [
        part(n, n=len(rows), s=stats_json(stated(rows, *known))) for n, rows in enumerate(parts)
    ]
    columns = {"a": "INTEGER", "b": "INTEGER"}
    plan = plan_delete(table_of(markers, columns), settings(), tree, mode="eager")
    by_key = {marker.p: rows for (_, marker), rows in zip(markers, parts, strict=True)}
    for left in plan.left_alone:
        assert not any(answer(tree, row) for row in by_key.pop(left.key))
    for _, marker in plan.dropped:
        assert all(answer(tree, row) for row in by_key.pop(marker.p))
    assert set(by_key) == {m.p for group in plan.groups for m in group.parts}


@pytest.mark.long
@limits(max_examples=30)
@given(tree=TREES, parts=st.lists(ROWS, min_size=1, max_size=3))
def test_the_same_holds_for_every_type_with_the_statistics_that_an_append_writes(
    tree: Predicate, parts: list[list[dict[str, Any]]]
) -> None:
    markers = [
        part(n, n=len(rows), s=stats_json(from_table(arrow(rows), COLUMNS)))
        for n, rows in enumerate(parts)
    ]
    plan = plan_delete(table_of(markers, COLUMNS), settings(), tree, mode="eager")
    by_key = {marker.p: rows for (_, marker), rows in zip(markers, parts, strict=True)}
    for left in plan.left_alone:
        assert not any(evaluate(tree, row, COLUMNS) for row in by_key[left.key])
    for _, marker in plan.dropped:
        assert all(evaluate(tree, row, COLUMNS) for row in by_key[marker.p])


@given(
    keys=st.sets(st.integers(-5, 5), min_size=1),
    parts=st.lists(st.lists(st.none() | st.integers(-6, 6), min_size=1, max_size=4), min_size=1),
)
def test_an_erase_reads_every_part_that_holds_a_key(
    keys: set[int], parts: list[list[int | None]]
) -> None:
    rows = [[{"i": value} for value in values] for values in parts]
    markers = [part(n, s=stats_json(stated(found, "i"))) for n, found in enumerate(rows)]
    column = KeyColumn.of("i", "INTEGER", tuple(keys))
    plan = plan_erase(table_of(markers), settings(), [column], len(keys))
    left = {found.key for found in plan.left_alone}
    for (_, marker), values in zip(markers, parts, strict=True):
        if marker.p in left:
            assert not keys & set(values)
        bounds = [value for value in values if value is not None]
        if not bounds or not any(min(bounds) <= key <= max(bounds) for key in keys):
            assert marker.p in left, "statistics exclude every key"


def test_texts_are_excluded_by_bounds_that_were_cut() -> None:
    long = "k" * 64
    marker = part(1, s=stats_json({"s": (long, None, 0)}))
    plan = plan_erase(table_of([marker]), settings(), [KeyColumn.of("s", "VARCHAR", ("a",))], 1)
    assert plan.excluded == 1
    later = plan_erase(table_of([marker]), settings(), [KeyColumn.of("s", "VARCHAR", ("z",))], 1)
    assert later.parts_in == 1


def test_bounds_of_another_type_exclude_nothing() -> None:
    marker = part(1, s=stats_json({"i": ("x", "y", 0)}))
    plan = plan_erase(table_of([marker]), settings(), [KeyColumn.of("i", "INTEGER", (1,))], 1)
    assert plan.parts_in == 1


def test_one_column_that_excludes_the_keys_suffices() -> None:
    marker = part(1, s=stats_json({"i": (5, 9, 0)}))
    keys = [KeyColumn.of("s", "VARCHAR", ("a",)), KeyColumn.of("i", "INTEGER", (1,))]
    assert plan_erase(table_of([marker]), settings(), keys, 1).excluded == 1


def test_parts_are_read_in_groups_up_to_the_target_partition_by_partition() -> None:
    parts = [part(n, f"p={n % 2}", b=400 * 2**20) for n in range(6)]
    plan = plan_delete(table_of(parts), settings(), IsNull("i"), mode="eager")
    assert [(g.partition, len(g.parts)) for g in plan.groups] == [
        *[("p=0", 1)] * 3,
        *[("p=1", 1)] * 3,
    ]
    small = [part(n, f"p={n % 2}") for n in range(6)]
    plan = plan_delete(table_of(small), settings(), IsNull("i"), mode="eager")
    assert [[m.o for m in g.parts] for g in plan.groups] == [[0, 2, 4], [1, 3, 5]]


def test_with_a_primary_key_no_two_parts_are_read_together() -> None:
    plan = plan_delete(
        table_of([part(n) for n in range(3)]),
        settings(primary_key=["i"]),
        IsNull("i"),
        mode="eager",
    )
    assert [len(g.parts) for g in plan.groups] == [1, 1, 1]


def test_groups_carry_the_deletes_that_are_pending_on_their_parts() -> None:
    pending = Delete(UUIDS[50], 5, 1, where_of('{"op":"is_null","column":"s"}'))
    parts = [part(1), part(2, q=9)]
    plan = plan_delete(table_of(parts, deletes=(pending,)), settings(), IsNull("i"), mode="eager")
    assert [g.deletes for g in plan.groups] == [(pending,)]
    later = plan_delete(
        table_of([part(2, q=9)], deletes=(pending,)), settings(), IsNull("i"), mode="eager"
    )
    assert [g.deletes for g in later.groups] == [()]


def where_of(text: str) -> Any:
    return msgspec.Raw(to_json(parse_json(text)))


def test_a_lazy_plan_touches_nothing_and_says_what_will_go() -> None:
    parts = [part(1, s=stats_json({"i": (1, 2, 0)})), part(2, s=stats_json({"i": (7, 9, 0)}))]
    plan = plan_delete(table_of(parts), settings(), COMPARISONS["<"]("i", 5), mode="lazy")
    assert (plan.only_record, plan.hidden, plan.excluded) == (True, 1, 1)
    assert plan.to_json()["left_alone"] == {HIDDEN: 1, NO_ROW: 1}


def test_a_glob_that_matches_no_partition_is_an_error() -> None:
    with pytest.raises(UsageError, match="the first partitions are: p=1"):
        plan_delete(table_of([part(1)]), settings(), IsNull("i"), mode="eager", partitions=["q=*"])


def test_a_plan_of_an_erase_as_json_has_no_key() -> None:
    plan = plan_erase(
        table_of([part(1)]), settings(), [KeyColumn.of("s", "VARCHAR", ("secret",))], 1
    )
    assert plan.to_json()["keys"] == 1
    assert "secret" not in str(plan.to_json())


def test_columns_whose_values_have_no_order_are_no_keys() -> None:
    with pytest.raises(UsageError, match="values cannot be compared"):
        KeyColumn.of("b", "BLOB", ())
