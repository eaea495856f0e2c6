from __future__ import annotations

from firnline.predicate.tree import And, Equal, In, IsNull, Not, Or, Predicate
from firnline.predicate.words import in_words, without_values

TREE: Predicate = And(
    (
        Or((Equal("customer", 4711), In("name", tuple(f"needle-{n}" for n in range(7))))),
        Not(IsNull("at")),
    )
)


def test_a_condition_is_one_line_and_a_long_list_is_counted() -> None:
    assert in_words(TREE) == (
        "(customer = 4711 or name in ('needle-0', 'needle-1', 'needle-2', 'needle-3', 'needle-4' "
        "and 2 more)) and not (at is null)"
    )


def test_without_values_the_columns_and_the_form_of_a_condition_are_left() -> None:
    assert without_values(TREE) == (
        "(customer = … or name in (…, …, …, …, … and 2 more)) and not (at is null)"
    )


def test_a_condition_is_cut_where_it_is_too_long() -> None:
    for words in (in_words, without_values):
        assert words(TREE, 20) == words(TREE)[:19] + "…"
