"""One part that several log files name: the same state in whatever order they are read."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from firnline.errors import LogCorruptError
from firnline.log.records import LogContent, Marker, with_unknown
from firnline.log.union import Past, combine, is_live, union_parts
from firnline.types.order import SortKey

P = "t/_data/d=1/1.parquet"
ONE, TWO = msgspec.Raw(b'{"v":[1,2,0]}'), msgspec.Raw(b'{"v":[1,3,0]}')


def marker(**changes: Any) -> Marker:
    return Marker(**{"p": P, "b": 100, "t": 10, **changes})


def both(a: Marker, b: Marker) -> Marker:
    """The union, in either order."""
    found = combine(a, b)
    assert found == combine(b, a) == combine(combine(a, b), a)
    return found


@pytest.mark.parametrize(
    ("a", "b", "state"),
    [
        ({}, {}, {}),
        ({}, {"tmb": 20}, {"tmb": 20}),
        ({"tmb": 30}, {"tmb": 20}, {"tmb": 20}),
        ({"t": 11}, {"t": 12}, {"t": 11}),
        ({"n": 5}, {}, {"n": 5}),
        ({"n": 0}, {}, {"n": 0}),
        ({"n": 5, "q": 1}, {"n": 5}, {"n": 5, "q": 1}),
        ({"q": 0}, {}, {"q": 0}),
        ({"q": 1}, {"q": 2}, {"q": 2}),
        ({"d": ("x",)}, {}, {"d": ("x",)}),
        ({"d": ("x",)}, {"d": ("w", "x")}, {"d": ("w", "x")}),
        ({"s": ONE}, {}, {"s": ONE}),
        ({"s": ONE}, {"s": TWO}, {"s": ONE}),
        ({"c": "a"}, {}, {"c": "a"}),
        ({"c": "a"}, {"c": "b"}, {"c": "a"}),
        ({"o": 5}, {}, {"o": 5}),
        ({"o": 5, "n": 1}, {"o": 5}, {"o": 5, "n": 1}),
        ({"o": (3, 5), "n": 1}, {"o": (3, 5)}, {"o": (3, 5), "n": 1}),
        ({"o": 5}, {"o": 7}, {"o": (5, 7)}),
        ({"o": (3, 8)}, {"o": 5}, {"o": (3, 8)}),
    ],
)
def test_what_only_one_log_file_says_of_a_part_is_kept_and_death_wins(
    a: dict[str, Any], b: dict[str, Any], state: dict[str, Any]
) -> None:
    assert both(marker(**a), marker(**b)) == marker(**state)


def test_keys_that_this_version_does_not_know_are_kept_from_both() -> None:
    x, y = msgspec.Raw(b"1"), msgspec.Raw(b"2")
    found = both(with_unknown(marker(), {"x": x}), with_unknown(marker(tmb=20), {"y": y}))
    assert found.tmb == 20
    assert {key: bytes(value) for key, value in found.unknown().items()} == {"x": b"1", "y": b"2"}


@pytest.mark.parametrize(
    ("a", "b"), [({"b": 100}, {"b": 101}), ({"n": 5}, {"n": 6}), ({"n": 0}, {"n": 6})]
)
def test_log_files_that_disagree_on_the_object_itself_are_an_error(
    a: dict[str, Any], b: dict[str, Any]
) -> None:
    for one, other in permutations((marker(**a), marker(**b))):
        with pytest.raises(LogCorruptError, match=P):
            combine(one, other)


def test_the_union_is_the_same_in_any_order_and_any_number_of_repetitions() -> None:
    files = [
        LogContent(t=1, schema={}, markers=[m])
        for m in (marker(q=1), marker(tmb=30), marker(tmb=20, n=5))
    ]
    for order in permutations(files):
        assert union_parts([*order, *order]) == {P: marker(q=1, tmb=20, n=5)}


PAST = Past(upto=20, early=frozenset({50}))


@pytest.mark.parametrize(
    ("t", "tmb", "past", "live"),
    [
        (10, None, None, True),
        (10, 15, None, False),
        (20, None, PAST, True),
        (21, None, PAST, False),
        (50, None, PAST, True),  # dated far ahead, and there already
        (10, 20, PAST, False),
        (10, 21, PAST, True),
        (10, 50, PAST, False),
        (10, 51, PAST, True),
        (50, 51, PAST, True),
        (10, 21, replace(PAST, purged=20), True),
        (10, 30, replace(PAST, purged=30), False),  # its object is deleted
        (10, 31, replace(PAST, purged=30), True),
        (10, None, replace(PAST, purged=30), True),
    ],
)
def test_a_part_is_live_from_when_it_came_until_it_died(
    t: int, tmb: int | None, past: Past | None, live: bool
) -> None:
    assert is_live(marker(t=t, tmb=tmb), past) is live


def marker_with(stats: str = "", hashes: str = "", order: str = "") -> Marker:
    return Marker(p="t/_data/x.parquet", b=1, t=1, s=raw(stats), h=raw(hashes), k=raw(order))


def raw(text: str) -> msgspec.Raw:
    return msgspec.Raw(text.encode())


STATED = st.builds(
    marker_with,
    st.sampled_from(["", '{"a":[1,2,0]}', '{"b":[1,2,0]}', '{"a":[0,9,0],"c":[1,1,0]}', "broken"]),
    st.sampled_from(["", '[[["a"],["long"],8,1,1]]', '[[["b"],["text"],0,1,9]]', "[1", '{"a":1}']),
    st.sampled_from(["", '["a"]', '["a desc","b"]', '"a"', "[]"]),
)


@given(one=STATED, two=STATED, three=STATED)
def test_what_markers_state_of_the_rows_is_united_in_any_order(
    one: Marker, two: Marker, three: Marker
) -> None:
    assert combine(one, two) == combine(two, one)
    assert combine(combine(one, two), three) == combine(one, combine(two, three))
    assert combine(combine(one, two), two) == combine(one, two)


def test_bounds_and_hash_ranges_that_only_one_marker_states_are_kept() -> None:
    found = combine(
        marker_with('{"b":[1,2,0],"a":[1,2,0]}', '[[["a"],["long"],8,1,1]]'),
        marker_with('{"c":["x","y",3]}', '[[["b"],["text"],0,1,9]]'),
    )
    assert found.stats() == {"a": (1, 2, 0), "b": (1, 2, 0), "c": ("x", "y", 3)}
    assert [each.about for each in found.hashes()] == [
        (("a",), ("long",), 8),
        (("b",), ("text",), 0),
    ]


def test_a_text_that_cannot_be_read_gives_way_to_one_that_can() -> None:
    found = combine(marker_with("broken", "[1", '"a"'), marker_with('{"a":[1,2,0]}', "[]", '["a"]'))
    assert (bytes(found.s), bytes(found.h)) == (b'{"a":[1,2,0]}', b"[]")
    assert found.sorted_by() == (SortKey("a"),)
