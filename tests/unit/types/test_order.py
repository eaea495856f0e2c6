"""Sort orders as text: one notation in settings and markers, and nothing where it does not read."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firnline.settings.fields import SortField
from firnline.types.order import (
    Order,
    SortKey,
    is_other,
    order_json,
    order_of,
    order_text,
    parse_key,
    parse_order,
    plain_key,
)

columns = st.text(st.characters(exclude_categories=("Cc", "Cs")), min_size=1).filter(str.strip)
keys = st.builds(SortKey, columns | st.sampled_from(["a desc", " a", "a,b", "asc"]), st.booleans())
orders = st.lists(keys, max_size=4).map(tuple)


def raw(*keys: SortKey | str) -> Order:
    return tuple(SortKey(key) if isinstance(key, str) else key for key in keys)


def test_an_order_is_written_as_sort_by_of_the_settings() -> None:
    order = raw("event", SortKey("ts", descending=True))
    assert order_json(order) == b'["event","ts desc"]'
    assert order_text(order) == "event, ts desc"
    assert (order_json(()), order_text(())) == (b"", "")


@given(order=orders)
def test_an_order_reads_back_as_it_is_written(order: Order) -> None:
    assert parse_order(order_json(order)) == order


@given(key=keys)
def test_a_key_is_spelled_as_a_field_of_the_settings_is(key: SortKey) -> None:
    field = SortField(column=key.column, descending=key.descending)
    assert plain_key(key) == field.model_dump()
    assert order_of([field]) == (key,)
    assert str(field) == str(key)


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


def test_asc_is_understood_and_not_written() -> None:
    assert parse_order(b'["ts ASC","id DESC"]') == raw("ts", SortKey("id", descending=True))
    assert plain_key(parse_key("ts asc")) == "ts"


@pytest.mark.parametrize(
    ("stated", "wanted", "other"),
    [
        ((), ("a",), False),  # not known
        (("a",), (), False),  # none is wanted
        (("a",), ("a",), False),
        (("a", "b"), ("a",), False),
        (("a",), ("a", "b"), True),
        (("b", "a"), ("a", "b"), True),
        ((SortKey("a", descending=True),), ("a",), True),
    ],
)
def test_rows_are_in_another_order_if_it_is_known_and_does_not_begin_with_the_wanted_one(
    stated: tuple[SortKey | str, ...], wanted: tuple[SortKey | str, ...], other: bool
) -> None:
    assert is_other(raw(*stated), raw(*wanted)) is other
