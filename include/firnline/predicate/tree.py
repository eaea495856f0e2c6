"""The predicate tree of deletes and filters: and, or, not over ``column op literal``.

As JSON (docs/format.md): ``{"op":"and","args":[…]}``, ``{"op":"or","args":[…]}``,
``{"op":"not","arg":…}``, ``{"op":"<","column":c,"value":v}`` for ``= != < <= > >=``,
``{"op":"in","column":c,"values":[…]}``, ``{"op":"is_null","column":c}``. Literals have the JSON
form of ``firnline.types.values``. Logic is three-valued, as in SQL.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import ClassVar

import msgspec

from firnline.errors import UsageError, quoted
from firnline.types.schema import normalise
from firnline.types.sql import fold_name, quote_name
from firnline.types.values import Scalar, canonical, literal_sql

MAX_DEPTH = 100
MAX_NODES = 100_000
"""Nodes and listed values of a tree; bounds the work that a log file can cause a reader."""


_FLOATS = ("DOUBLE", "FLOAT")
NULLS_BY_BOUNDS = frozenset({"VARCHAR", "BLOB", "JSON"})
"""Types of which DuckDB 2.0 answers IS NULL by the bounds in the header of a page alone, where
there is no dictionary: of a page of one value and nulls it takes all for nulls
(``parquet.page_bounds``)."""
_LONG = 100
"""Values of a list; a longer list is written as a join."""


class And(msgspec.Struct, frozen=True, tag_field="op", tag="and", forbid_unknown_fields=True):
    """True when all arguments are true."""

    args: tuple[Predicate, ...]


class Or(msgspec.Struct, frozen=True, tag_field="op", tag="or", forbid_unknown_fields=True):
    """True when any argument is true."""

    args: tuple[Predicate, ...]


class Not(msgspec.Struct, frozen=True, tag_field="op", tag="not", forbid_unknown_fields=True):
    """True when its argument is false."""

    arg: Predicate


class IsNull(
    msgspec.Struct, frozen=True, tag_field="op", tag="is_null", forbid_unknown_fields=True
):
    """True when the column is null; never unknown."""

    column: str


class In(msgspec.Struct, frozen=True, tag_field="op", tag="in", forbid_unknown_fields=True):
    """True when the column equals one of the values."""

    column: str
    values: tuple[Scalar, ...]


class Compare(msgspec.Struct, frozen=True, tag_field="op", tag="=", forbid_unknown_fields=True):
    """Compares a column with a literal; one class per operator, since the operator is the tag."""

    op: ClassVar[str] = "="
    column: str
    value: Scalar


class Equal(Compare, frozen=True, tag="="):
    """Equal."""


class NotEqual(Compare, frozen=True, tag="!="):
    """Not equal."""

    op = "!="


class Less(Compare, frozen=True, tag="<"):
    """Less."""

    op = "<"


class LessEqual(Compare, frozen=True, tag="<="):
    """Less or equal."""

    op = "<="


class Greater(Compare, frozen=True, tag=">"):
    """Greater."""

    op = ">"


class GreaterEqual(Compare, frozen=True, tag=">="):
    """Greater or equal."""

    op = ">="


Predicate = (
    And | Or | Not | IsNull | In | Equal | NotEqual | Less | LessEqual | Greater | GreaterEqual
)


class _Written(str):
    """A number as it was written, before its column's type is known: a float would round it."""

    __slots__ = ()


# Created before there are threads, see ``firnline.parquet.footers``.
_TREE: Callable[[bytes | str | msgspec.Raw], Predicate] = msgspec.json.Decoder(Predicate).decode
_PLAIN: Callable[[str], object] = msgspec.json.Decoder(float_hook=_Written).decode

COMPARISONS: dict[str, Callable[[str, Scalar], Predicate]] = {
    "=": Equal,
    "!=": NotEqual,
    "<": Less,
    "<=": LessEqual,
    ">": Greater,
    ">=": GreaterEqual,
}


def parse_json(data: bytes | str | msgspec.Raw) -> Predicate:
    """Parse a tree of a record. Raises UsageError; columns and literals are checked by ``bind``."""
    return _parsed(lambda: _TREE(data))


def parse_asked(text: str, columns: Mapping[str, str]) -> Predicate:
    """Parse and bind a tree that somebody has written, whose numbers count digit by digit.

    In a record each literal has the form of its column's type already. Here a number may be of a
    decimal column, and be another one as a float. Raises UsageError, also as ``bind`` does.
    """
    return bind(_parsed(lambda: msgspec.convert(_PLAIN(text), Predicate)), columns)


def _parsed(parse: Callable[[], Predicate]) -> Predicate:
    try:
        tree = parse()
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise UsageError(
            f"the predicate cannot be parsed: {error}",
            next_step="write and/or/not over column op literal (docs/format.md, Predicates)",
        ) from None
    _check_size(tree)
    return tree


def to_json(tree: Predicate) -> bytes:
    """Return a tree as JSON; the inverse of ``parse_json``."""
    return msgspec.json.encode(tree)


def columns_of(tree: Predicate) -> tuple[str, ...]:
    """Return the columns of a predicate, in the order of their first occurrence."""
    names = (node.column for node in _nodes(tree) if not isinstance(node, And | Or | Not))
    return tuple(dict.fromkeys(names))


def bind(tree: Predicate, columns: Mapping[str, str]) -> Predicate:
    """Return the tree with the table's column names and literals in their columns' JSON form.

    Args:
        tree: any tree.
        columns: the table's schema, column -> SQL type.

    Raises:
        UsageError: an unknown column (names the known ones), or a literal that the column's type
            cannot hold exactly.
    """
    if isinstance(tree, And | Or):
        if not tree.args:
            raise UsageError("an and/or without arguments", next_step="give it at least one")
        return type(tree)(tuple(bind(arg, columns) for arg in tree.args))
    if isinstance(tree, Not):
        return Not(bind(tree.arg, columns))
    name = _resolve(tree.column, columns)
    if isinstance(tree, IsNull):
        return IsNull(name)
    if isinstance(tree, In):
        if not tree.values:
            raise UsageError(f"an empty list for {name!r}", next_step="give at least one value")
        return In(name, tuple(_literal(name, columns[name], value) for value in tree.values))
    return type(tree)(name, _literal(name, columns[name], tree.value))


@dataclass(frozen=True, slots=True)
class Dialect:
    """An engine's SQL for the leaves of a tree; and, or, not and ``= != < <= > >=`` are common."""

    name: Callable[[str], str]
    """Quotes a column's name."""
    literal: Callable[[str, Scalar], str]
    """(canonical type, value in its JSON form) -> an expression of the column's type."""
    opaque: Callable[[str], str]
    """Expression -> one of the same value that no reader prunes by; see ``opaque``."""
    is_null: Callable[[str, str], str]
    """(name, canonical type) -> a condition that is true for a null."""
    among: Callable[[str, Sequence[str]], str]
    """(expression, literals) -> a condition that is true if it equals one of them."""


def to_sql(tree: Predicate, columns: Mapping[str, str], dialect: Dialect | None = None) -> str:
    """Return the tree as a condition: names quoted, literals typed, nothing executable.

    Args:
        tree: any tree.
        columns: the table's schema, column -> SQL type.
        dialect: the engine's; None: DuckDB's.

    Raises UsageError as ``bind`` does.
    """
    return _sql(bind(tree, columns), columns, dialect or _DUCKDB)


def _sql(tree: Predicate, columns: Mapping[str, str], dialect: Dialect) -> str:
    if isinstance(tree, And | Or):
        word = " AND " if isinstance(tree, And) else " OR "
        return "(" + word.join(_sql(arg, columns, dialect) for arg in tree.args) + ")"
    if isinstance(tree, Not):
        return f"(NOT {_sql(tree.arg, columns, dialect)})"
    name, kind = dialect.name(tree.column), normalise(columns[tree.column])
    if isinstance(tree, IsNull):
        return dialect.is_null(name, kind)
    if kind in _FLOATS:
        name = dialect.opaque(name)
    if isinstance(tree, In):
        return dialect.among(name, [dialect.literal(kind, value) for value in tree.values])
    return f"({name} {tree.op} {dialect.literal(kind, tree.value)})"


def opaque(name: str) -> str:
    """Return an expression for the same value whose bounds DuckDB does not know.

    Many writers leave NaN out of the bounds in a Parquet file, and for DuckDB NaN is greater than
    every number. Measured with DuckDB 2.0: a filter misses NaN in files of pyarrow, also through
    coalesce, arithmetic and nullif.
    """
    return f"(CASE WHEN {name} IS NULL THEN NULL ELSE {name} END)"


def _is_null(name: str, kind: str) -> str:
    return f"({opaque(name) if kind in NULLS_BY_BOUNDS else name} IS NULL)"


def _among(name: str, literals: Sequence[str]) -> str:
    listed = ", ".join(literals)
    if len(literals) > _LONG:
        # DuckDB compares every row with every literal of a list; with a subquery it joins.
        return f"({name} IN (SELECT unnest([{listed}])))"
    return f"({name} IN ({listed}))"


_DUCKDB = Dialect(quote_name, literal_sql, opaque, _is_null, _among)


def _resolve(name: str, columns: Mapping[str, str]) -> str:
    if name in columns:
        return name
    for column in columns:
        if fold_name(column) == fold_name(name):
            return column
    raise UsageError(
        f"the table has no column {quoted(name)}, but {', '.join(columns) or 'none'}",
        next_step="correct the column's name",
    )


def _literal(name: str, sql_type: str, value: Scalar) -> Scalar:
    if value is None:
        raise UsageError(
            f"column {name!r} is compared with null, which is never true",
            next_step="write is_null (in SQL: IS NULL) instead",
        )
    try:
        exact = Decimal(value) if isinstance(value, _Written) else value
        literal = canonical(normalise(sql_type), exact)
        if isinstance(literal, float) and not math.isfinite(literal):
            # In JSON it would become null, and a record that cannot be bound would stay in the log.
            raise ValueError(f"{value} is not a finite number")
    except ValueError as error:
        raise UsageError(
            f"column {name!r} is {sql_type}: {error}",
            next_step="write a literal that the column's type can hold",
        ) from None
    return literal


def _nodes(tree: Predicate) -> Iterator[Predicate]:
    yield tree
    if isinstance(tree, And | Or):
        for arg in tree.args:
            yield from _nodes(arg)
    elif isinstance(tree, Not):
        yield from _nodes(tree.arg)


def _check_size(tree: Predicate) -> None:
    nodes = 0
    level: list[Predicate] = [tree]
    for _ in range(MAX_DEPTH):
        nodes += sum(1 + len(node.values) if isinstance(node, In) else 1 for node in level)
        below: list[Predicate] = []
        for node in level:
            below += node.args if isinstance(node, And | Or) else ()
            below += (node.arg,) if isinstance(node, Not) else ()
        if not below and nodes <= MAX_NODES:
            return
        level = below
    raise UsageError(
        f"the predicate is deeper than {MAX_DEPTH} levels or larger than {MAX_NODES} values",
        next_step="split it, and run once for each",
    )
