"""Predicates as people read them: one line, without casts."""

from __future__ import annotations

from firnline.predicate.tree import And, In, IsNull, Not, Or, Predicate

_VALUES = 5
"""Values of a list that are written out."""


def in_words(tree: Predicate, longest: int = 200) -> str:
    """Return a predicate as one line of SQL, cut at ``longest`` characters; not to be parsed."""
    shown = _words(tree).replace(".000000", "")
    return shown if len(shown) <= longest else shown[: longest - 1] + "…"


def _words(tree: Predicate) -> str:
    if isinstance(tree, And | Or):
        word = "and" if isinstance(tree, And) else "or"
        inner = (
            f"({_words(arg)})"
            if isinstance(arg, And | Or) and type(arg) is not type(tree)
            else _words(arg)
            for arg in tree.args
        )
        return f" {word} ".join(inner)
    if isinstance(tree, Not):
        return f"not ({_words(tree.arg)})"
    if isinstance(tree, IsNull):
        return f"{tree.column} is null"
    if isinstance(tree, In):
        some = [_value(value) for value in tree.values[:_VALUES]]
        more = len(tree.values) - len(some)
        return f"{tree.column} in ({', '.join(some)}{f' and {more:,} more' if more else ''})"
    return f"{tree.column} {tree.op} {_value(tree.value)}"


def _value(value: object) -> str:
    return f"'{value}'" if isinstance(value, str) else str(value).lower()
