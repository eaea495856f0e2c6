"""Markers: what a new part states, and its sort order as JSON."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firnline.log.records import marker_of, parse_order, sort_json
from firnline.parquet.part import WrittenPart
from firnline.types.hashes import HashRange
from firnline.types.order import Order, SortKey
from tests.unit.types.test_order import keys, raw

orders = st.lists(keys, max_size=4).map(tuple)


def test_an_order_is_written_as_sort_by_of_the_settings() -> None:
    order = raw("event", SortKey("ts", descending=True))
    assert bytes(sort_json(order)) == b'["event","ts desc"]'
    assert bytes(sort_json(())) == b""


@given(order=orders)
def test_an_order_reads_back_as_it_is_written(order: Order) -> None:
    assert parse_order(bytes(sort_json(order))) == order


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"[]",
        b"7",
        b"null",
        b'"ts"',
        b"[7]",
        b'[""]',
        b'["  "]',
        b'["ts"',
        b'[{"descending":true}]',
        b'[{"column":"ts","nulls":"first"}]',  # a later version may say more
        b'["\xff"]',
        b"[" * 100_000,
    ],
)
def test_what_does_not_read_is_no_order(text: bytes) -> None:
    assert parse_order(text) == ()


def test_asc_is_understood() -> None:
    assert parse_order(b'["ts ASC","id DESC"]') == raw("ts", SortKey("id", descending=True))


def test_the_marker_of_a_new_part_has_all_that_its_writer_states() -> None:
    part = WrittenPart(
        key="t/_data/d=1/a.parquet",
        partition="d=1",
        bytes=9,
        rows=3,
        stats={"id": (1, 3, 0)},
        hashes=(HashRange(("id",), ("int",), 4, 1, 2),),
        digest="r1:0",
        sorted_by=raw("id"),
    )
    found = marker_of(part, t=7, q=5, d=("x",), o=(1, 2), c="run")
    assert (found.p, found.b, found.n) == (part.key, 9, 3)
    assert (found.t, found.q, found.d, found.o, found.c) == (7, 5, ("x",), (1, 2), "run")
    assert (found.stats(), found.hashes()) == (part.stats, part.hashes)
    assert (found.g, found.sorted_by()) == ("r1:0", raw("id"))
    later = marker_of(part)
    assert (later.t, later.q, later.d, later.o, later.c) == (0, None, None, None, None)
