"""Predicates as people read them: one line, without casts."""

from __future__ import annotations

from collections.abc import Callable

from firnline.predicate.tree import And, In, IsNull, Not, Or, Predicate
from firnline.shown import HIDDEN

_VALUES = 5
"""Values of a list that are written out."""


def in_words(tree: Predicate, longest: int = 200) -> str:
    """Return a predicate as one line of SQL, cut at ``longest`` characters; not to be parsed."""
    return _cut(_words(tree, _value).replace(".000000", ""), longest)


def without_values(tree: Predicate, longest: int = 200) -> str:
    """Return a predicate as ``in_words`` does, with its columns and none of its values."""
    return _cut(_words(tree, lambda _: HIDDEN), longest)


def _cut(text: str, longest: int) -> str:
    return text if len(text) <= longest else text[: longest - 1] + "…"


def _words(tree: Predicate, show: Callable[[object], str]) -> str:
    if isinstance(tree, And | Or):
        word = "and" if isinstance(tree, And) else "or"
        inner = (
            f"({_words(arg, show)})"
            if isinstance(arg, And | Or) and type(arg) is not type(tree)
            else _words(arg, show)
            for arg in tree.args
        )
        return f" {word} ".join(inner)
    if isinstance(tree, Not):
        return f"not ({_words(tree.arg, show)})"
    if isinstance(tree, IsNull):
        return f"{tree.column} is null"
    if isinstance(tree, In):
        some = [show(value) for value in tree.values[:_VALUES]]
        more = len(tree.values) - len(some)
        return f"{tree.column} in ({', '.join(some)}{f' and {more:,} more' if more else ''})"
    return f"{tree.column} {tree.op} {show(tree.value)}"


def _value(value: object) -> str:
    return f"'{value}'" if isinstance(value, str) else str(value).lower()
