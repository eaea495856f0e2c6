"""Intervals, and what a replace of one does with parts, from markers alone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firnline.errors import CommitConflictError, UsageError
from firnline.log.reader import LogObject, LogRead
from firnline.log.records import LogContent, Marker, stats_json
from firnline.operations.common_options import Mode
from firnline.operations.replace.plan import Span, plan_replace, refuse_rivals, time_column
from firnline.paths import TablePaths
from firnline.predicate.pruning import evaluate
from firnline.settings.load import TableSettings
from firnline.state.snapshot import Snapshot, build
from firnline.types.values import Scalar, Stats

PATHS = TablePaths("t")
COLUMNS = {"ts": "TIMESTAMP", "day": "DATE", "n": "BIGINT", "c": "VARCHAR", "ok": "BOOLEAN"}


def settings(**given: Any) -> TableSettings:
    return TableSettings.model_validate({"name": "t", "root": "memory://b/t", **given})


@pytest.mark.parametrize(
    ("span", "bound"),
    [
        (
            Span("TS", "2026-01-05", "2026-01-05 07:00"),
            Span("ts", "2026-01-05T00:00:00.000000", "2026-01-05T07:00:00.000000"),
        ),
        (Span("day", "2026-01-05", "2026-01-06"), Span("day", "2026-01-05", "2026-01-06")),
        (
            Span("n", "-5", 7, (("C", "x"), ("ok", "true"))),
            Span("n", -5, 7, (("c", "x"), ("ok", True))),
        ),
    ],
)
def test_values_take_the_form_of_their_column(span: Span, bound: Span) -> None:
    assert span.bound(COLUMNS) == bound


@pytest.mark.parametrize(
    ("span", "said"),
    [
        (Span("n", 5, 5), "nothing between 5 and 5 in column 'n'"),
        (Span("n", 1, 5, (("N", 2),)), "'n' is named twice"),
        (Span("n", 1, 5, (("c", "x"), ("c", "y"))), "'c' is named twice"),
        (Span("n", 1, 5, (("c", None),)), "compared with null"),
        (Span("n", None, 5), "compared with null"),
        (Span("ok", False, True), "'ok' is BOOLEAN, which has no intervals"),
        (Span("day", "2026-01-05T01:00", "2026-01-06"), "is a time of day"),
        (Span("n", 1.5, 3), "1.5 is not a whole number"),
        (Span("none", 1, 3), "has no column 'none'"),
    ],
)
def test_an_interval_that_is_none_is_refused(span: Span, said: str) -> None:
    with pytest.raises(UsageError) as raised:
        span.bound(COLUMNS)
    assert said in raised.value.message


@given(st.integers(-9, 9) | st.none(), st.sampled_from(["x", "y", None]))
def test_a_row_is_replaced_where_the_interval_and_all_equalities_say_so(
    n: int | None, c: str | None
) -> None:
    tree = Span("n", -3, 4, (("c", "x"),)).predicate(COLUMNS)
    inside = n is not None and -3 <= n < 4 and c == "x"
    assert (evaluate(tree, {"n": n, "c": c}, COLUMNS) is True) is inside


def part(name: str, stats: Stats, rows: int | None = 10, q: int | None = None) -> Marker:
    return Marker(p=f"t/_data/{name}.parquet", b=1000, t=1, n=rows, q=q, s=stats_json(stats))


def laid(*parts: Marker, seq: int = 0) -> Snapshot:
    key = PATHS.append_log(1, "w-018bcfe5-6800-7000-8000-000000000001")
    content = LogContent(t=1, schema=COLUMNS, markers=list(parts))
    listing = {key: LogObject(PATHS.parse_log(key), 10, 1)}
    return replace(build(PATHS, LogRead(listing, {key: content})), seq=seq)


def bounds(low: Scalar, high: Scalar, nulls: int = 0) -> Stats:
    return {"n": (low, high, nulls)}


def test_parts_are_dropped_read_or_left_by_what_statistics_prove() -> None:
    state = laid(
        part("inside", bounds(0, 9)),
        part("to-the-end", bounds(0, 10)),
        part("with-a-null", bounds(1, 2, 1)),
        part("uncounted", bounds(1, 2), rows=None),
        part("outside", bounds(10, 20)),
        part("silent", {}),
    )
    modes: tuple[Mode, ...] = ("eager", "lazy")
    for mode in modes:
        plan = plan_replace(state, settings(), Span("n", 0, 10), COLUMNS, mode=mode)
        assert [m.p for _, m in plan.dropped] == ["t/_data/inside.parquet"]
        cut = {"to-the-end", "with-a-null", "uncounted", "silent"}
        found = {m.p for g in plan.groups for m in g.parts}
        assert found == ({f"t/_data/{name}.parquet" for name in cut} if mode == "eager" else set())
        assert (plan.excluded, plan.hidden) == (1, 0 if mode == "eager" else 4)
        assert not plan.nothing_to_do


def test_what_lies_before_the_interval_is_not_put_together_with_what_lies_behind() -> None:
    state = laid(
        part("a", bounds(-5, 1)),
        part("b", bounds(-9, 2)),
        part("c", bounds(8, 15)),
        part("d", bounds(-1, 30)),
        part("e", {}),
    )
    plan = plan_replace(state, settings(), Span("n", 0, 10), COLUMNS, mode="eager")
    sides = [sorted(m.p[len("t/_data/")] for m in group.parts) for group in plan.groups]
    assert sorted(sides) == [["a", "b"], ["c"], ["d", "e"]]


def test_an_equality_has_to_be_proven_too() -> None:
    whole = {**bounds(1, 2), "c": ("x", "x", 0)}
    mixed = {**bounds(1, 2), "c": ("x", "y", 0)}
    other = {**bounds(1, 2), "c": ("y", "z", 0)}
    state = laid(part("a", whole), part("b", mixed), part("c", other), part("d", bounds(1, 2)))
    span = Span("n", 0, 10, (("c", "x"),))
    plan = plan_replace(state, settings(), span, COLUMNS, mode="eager")
    assert [m.p for _, m in plan.dropped] == ["t/_data/a.parquet"]
    assert (plan.parts_in, plan.excluded) == (2, 1)
    assert plan.to_json()["equal"] == {"c": "x"}


def test_rows_of_a_rival_inside_the_interval_are_a_reason_to_plan_again() -> None:
    planned = laid(part("old", bounds(0, 9)))
    tree = Span("n", 0, 10).predicate(COLUMNS)
    refuse = refuse_rivals(planned, tree, COLUMNS)
    refuse(planned)
    for low, q, conflict in ((5, 1, True), (50, 1, False), (5, 0, False)):
        new = part("new", bounds(low, low + 1), q=q)
        later = laid(part("old", bounds(0, 9)), new, seq=1)
        if conflict:
            with pytest.raises(CommitConflictError, match="a rival wrote rows"):
                refuse(later)
        else:
            refuse(later)


@pytest.mark.parametrize(
    ("given", "column"),
    [
        ({"partition_by": ["c", "day(ts)"], "sort_by": ["n"]}, "ts"),
        ({"ttl": {"keep": "1d", "column": "day"}, "sort_by": ["n"]}, "day"),
        ({"sort_by": ["n", "ts"]}, "n"),
        ({"partition_by": ["c"]}, None),
    ],
)
def test_the_settings_say_which_column_time_is_in(given: Any, column: str | None) -> None:
    assert time_column(settings(**given)) == column
