"""Tables laid out over a column: which cells, which layer, what is hidden."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from firnline.errors import UsageError
from firnline.log.reader import LogObject, LogRead
from firnline.log.records import Delete, LogContent, Marker, stats_json
from firnline.operations.inspect.axis import extent, reader
from firnline.operations.inspect.timeline import (
    HIDDEN,
    PARTLY,
    SEEN,
    Bounds,
    Timeline,
    plan_timeline,
)
from firnline.paths import TablePaths
from firnline.predicate.pruning import evaluate
from firnline.predicate.tree import (
    And,
    Equal,
    Greater,
    GreaterEqual,
    In,
    IsNull,
    Less,
    LessEqual,
    Not,
    NotEqual,
    Or,
    Predicate,
    to_json,
)
from firnline.state.snapshot import Snapshot, build
from tests.support.effort import examples

PATHS = TablePaths("t")
COLUMNS = {"n": "BIGINT", "ts": "TIMESTAMP", "day": "DATE", "c": "VARCHAR", "f": "DOUBLE"}


def part(number: int, low: Any, high: Any, q: int = 0, column: str = "n", **more: Any) -> Marker:
    stats = {column: (low, high, 0)}
    return Marker(
        p=f"t/_data/{number:04d}.parquet", b=100, t=1, n=10, q=q, s=stats_json(stats), **more
    )


def hides(seq: int, tree: Predicate) -> Delete:
    return Delete(f"id-{seq}", seq, 5, msgspec.Raw(to_json(tree)))


def table(*records: Marker | Delete, seq: int = 0) -> Snapshot:
    key = PATHS.append_log(1, "w-018bcfe5-6800-7000-8000-000000000001")
    content = LogContent(
        t=1,
        schema=COLUMNS,
        markers=[r for r in records if isinstance(r, Marker)],
        deletes=[r for r in records if isinstance(r, Delete)],
    )
    listing = {key: LogObject(PATHS.parse_log(key), 10, 1)}
    return replace(build(PATHS, LogRead(listing, {key: content})), seq=seq)


def laid(*records: Marker | Delete, column: str = "n", **bounds: int) -> Timeline:
    return plan_timeline(table(*records), column, Bounds(**{"cells": 10, **bounds}))


def spans(found: Timeline) -> list[list[list[tuple[int, int]]]]:
    return [[[(bar.first, bar.last) for bar in lane] for lane in y.lanes] for y in found.layers]


def interval(low: int, high: int) -> And:
    return And((GreaterEqual("n", low), Less("n", high)))


def test_parts_of_one_sequence_share_a_lane_where_they_do_not_touch() -> None:
    found = laid(part(1, 0, 30), part(2, 20, 59), part(3, 70, 100))
    assert spans(found) == [[[(0, 3), (7, 9)], [(2, 5)]]]
    assert (found.axis.text(found.axis.low), found.axis.text(found.axis.high)) == ("0", "100")


def test_a_replace_lies_above_its_record_and_that_above_what_it_hides() -> None:
    found = laid(part(1, 0, 100), hides(2, interval(20, 60)), part(2, 30, 40, q=2))
    new, record, old = found.layers
    assert (new.newest, record.newest, old.newest) == (2, 2, 0)
    assert [(r.first, r.last, r.whole) for r in record.records] == [(2, 5, True)]
    assert new.lanes[0][0].shades == (SEEN, SEEN)
    dark = [cell for cell, shade in enumerate(old.lanes[0][0].shades) if shade == HIDDEN]
    assert dark == [2, 3, 4, 5]
    assert [round(rows, 1) for rows in found.visible] == [1, 1, 0, 5, 5, 0, 1, 1, 1, 1]


def test_a_record_with_other_columns_hides_some_rows_and_applied_ones_none() -> None:
    some = And((*interval(20, 60).args, Equal("c", "x")))
    found = laid(part(1, 0, 100), part(2, 0, 100, d=("id-2",)), hides(2, some))
    assert found.layers[0].records[0].whole is False
    shades = [set(lane[0].shades) for lane in found.layers[1].lanes]
    assert shades == [{SEEN, PARTLY}, {SEEN}]


def test_times_and_dates_and_floats_are_axes_and_texts_are_none() -> None:
    times = laid(part(1, "2026-01-05T00:00:00", "2026-01-05T12:00:00", column="ts"), column="ts")
    assert times.to_json()["end"] == "2026-01-05T12:00:00"
    days = laid(part(1, "2026-01-05", "2026-01-15", column="day"), column="day")
    assert (days.to_json()["start"], days.to_json()["end"]) == ("2026-01-05", "2026-01-15")
    assert spans(laid(part(1, 0.5, 2.5, column="f"), column="f")) == [[[(0, 9)]]]
    with pytest.raises(UsageError, match="'c' is VARCHAR, which is no axis"):
        laid(part(1, "a", "b", column="c"), column="c")
    with pytest.raises(UsageError, match="no column 'x', but n, ts"):
        laid(part(1, 0, 1), column="x")
    with pytest.raises(UsageError, match="no part says between which values of 'ts'"):
        laid(part(1, 0, 1), column="ts")


def test_parts_that_do_not_say_and_parts_outside_are_counted() -> None:
    state = table(part(1, 0, 9), part(2, 50, 60), part(3, None, None), part(4, 0, 1, column="f"))
    found = plan_timeline(state, "n", Bounds(cells=10), 0, 20)
    assert (found.parts, found.outside) == (1, 1)
    assert (found.unknown_parts, found.unknown_rows) == (2, 20)
    with pytest.raises(UsageError, match="nothing between 7 and 7"):
        plan_timeline(state, "n", Bounds(cells=10), 7, 7)
    with pytest.raises(UsageError, match="the interval to show is none"):
        plan_timeline(state, "n", Bounds(cells=10), "soon")


def test_one_value_is_one_cell_and_an_unknown_end_reaches_the_edge() -> None:
    assert spans(laid(part(1, 5, 5))) == [[[(0, 0)]]]
    assert spans(laid(part(1, 0, 100), part(2, 50, None))) == [[[(0, 9)], [(5, 9)]]]


def test_a_million_parts_would_be_no_larger_than_their_summary() -> None:
    many = [part(i, i % 97, i % 97 + 3, q=i % 50) for i in range(1000)]
    found = laid(*many, cells=20, lanes=2, layers=6)
    assert len(found.layers) == 6
    assert [y.newest for y in found.layers[:3]] == [49, 48, 47]
    assert (found.layers[-1].newest, found.layers[-1].oldest) == (14, 0)
    assert all(len(y.density) == 20 and not y.lanes for y in found.layers)
    assert sum(y.parts for y in found.layers) == 1000
    assert len(msgspec.json.encode(found.to_json())) < 6_000


LEAVES = st.one_of(
    st.builds(
        lambda kind, value: kind("n", value),
        st.sampled_from([Equal, NotEqual, Less, LessEqual, Greater, GreaterEqual]),
        st.integers(-4, 4),
    ),
    st.builds(lambda values: In("n", tuple(values)), st.lists(st.integers(-4, 4), min_size=1)),
    st.sampled_from([IsNull("n"), Equal("c", "x")]),
)
TREES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.builds(Not, inner),
        st.builds(lambda args: And(tuple(args)), st.lists(inner, min_size=1, max_size=3)),
        st.builds(lambda args: Or(tuple(args)), st.lists(inner, min_size=1, max_size=3)),
    ),
    max_leaves=5,
)


@pytest.mark.long
@examples(100, 3_000)
@given(TREES, st.integers(-6, 6), st.sampled_from(["x", "y"]))
def test_no_row_outside_of_an_extent_is_hidden_and_every_one_in_a_whole_one_is(
    tree: Predicate, n: int, c: str
) -> None:
    found = extent(tree, "n", reader("n", "BIGINT"))
    above = found.low is None or n >= found.low
    below = found.high is None or (n < found.high if found.open_high else n <= found.high)
    answer = evaluate(tree, {"n": n, "c": c}, COLUMNS) is True
    if answer:
        assert above
        assert below
    if found.whole and above and below and n not in (found.low, found.high):
        assert answer
