"""Sort orders as text: one notation in settings and markers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firnline.settings.fields import SortField
from firnline.types.order import (
    Order,
    SortKey,
    is_other,
    order_of,
    order_text,
    parse_key,
    plain_key,
)

columns = st.text(st.characters(exclude_categories=("Cc", "Cs")), min_size=1).filter(str.strip)
keys = st.builds(SortKey, columns | st.sampled_from(["a desc", " a", "a,b", "asc"]), st.booleans())


def raw(*keys: SortKey | str) -> Order:
    return tuple(SortKey(key) if isinstance(key, str) else key for key in keys)


def test_an_order_is_written_as_sort_by_of_the_settings() -> None:
    order = raw("event", SortKey("ts", descending=True))
    assert order_text(order) == "event, ts desc"
    assert order_text(()) == ""


@pytest.mark.long
@given(key=keys)
def test_a_key_is_spelled_as_a_field_of_the_settings_is(key: SortKey) -> None:
    field = SortField(column=key.column, descending=key.descending)
    assert plain_key(key) == field.model_dump()
    assert order_of([field]) == (key,)
    assert str(field) == str(key)


def test_asc_is_understood_and_not_written() -> None:
    found = tuple(map(parse_key, ["ts ASC", "id DESC"]))
    assert found == raw("ts", SortKey("id", descending=True))
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
