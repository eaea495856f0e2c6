"""Parse SQL conditions into predicate trees; anything that a tree cannot hold is refused."""

from __future__ import annotations

import datetime
import re
from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any

from firnline.errors import UsageError, cut
from firnline.predicate.tree import (
    COMPARISONS,
    And,
    Equal,
    GreaterEqual,
    In,
    IsNull,
    LessEqual,
    Not,
    Or,
    Predicate,
    bind,
    parse_json,
    to_json,
)
from firnline.types.schema import normalise
from firnline.types.sql import fold_name, quote_name
from firnline.types.values import bound_key, canonical

if TYPE_CHECKING:
    from sqlglot import exp

_ALLOWED = (
    "use and, or, not, =, !=, <, <=, >, >=, IN, BETWEEN and IS NULL between a column and literals"
)
_OTHERWISE = (
    "any other condition: --sql of `firnline rewrite --help` changes rows, "
    "firnline.scan(…).duckdb() reads them"
)
_MAX_LENGTH = 1_000_000
_MAX_DIGITS = 1_000
_DATE = re.compile(r"(\d{4}) - (\d{1,2}) - (\d{1,2})")
_FLIPPED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "=", "!=": "!="}


def parse_sql(text: str, columns: Mapping[str, str]) -> Predicate:
    """Parse a condition in DuckDB's dialect: ``carrier = 'UA' and day < DATE '2013-02-01'``.

    Args:
        text: the condition, as after WHERE.
        columns: the table's schema, column -> SQL type.

    Returns:
        The bound tree.

    Raises:
        UsageError: the text does not parse, has something else than comparisons of columns with
            literals (names the piece), or ``bind`` refuses it.
    """
    try:
        tree = bind(_tree_of(_expression(text), columns), columns)
    except RecursionError:
        raise UsageError(
            f"the condition {_short(text)} is nested too deeply", next_step=_ALLOWED
        ) from None
    # Apply the bounds on depth and size that a tree in JSON has.
    return parse_json(to_json(tree))


def _expression(text: str) -> exp.Expression:
    import sqlglot
    from sqlglot.errors import SqlglotError

    try:
        text.encode()
    except UnicodeEncodeError:  # a lone surrogate, as from an argument that is not UTF-8
        raise _refused(ascii(text)) from None
    if len(text) > _MAX_LENGTH:
        raise UsageError("the condition is longer than a million characters", next_step=_ALLOWED)
    try:
        # The SQL is only parsed, never run.
        statements = sqlglot.parse(f"SELECT * FROM t WHERE {text}\n", read="duckdb")  # noqa: S608
    except (SqlglotError, RecursionError) as error:
        raise UsageError(
            f"the condition {_short(text)} does not parse: {_reason(error)}", next_step=_ALLOWED
        ) from None
    statement = statements[0] if len(statements) == 1 else None
    where = None if statement is None else statement.args.get("where")
    if statement is None or where is None:
        raise _refused(text)
    used = {name for name, value in statement.args.items() if value}
    if not used <= {"expressions", "from", "from_", "where", "kind"}:
        raise _refused(text)  # ORDER BY, UNION and the like after the condition
    condition: exp.Expression = where.this
    return condition


def _tree_of(condition: exp.Expression, columns: Mapping[str, str]) -> Predicate:
    from sqlglot import exp

    kinds = {fold_name(name): normalise(kind) for name, kind in columns.items()}
    try:
        tree = _tree(condition)
        for column in condition.find_all(exp.Column):
            _refuse_lone(column, kinds)
        return tree
    except UsageError:
        pieces = condition.find_all(exp.Expression)
        habit = next(filter(None, (_habit(piece, kinds) for piece in pieces)), None)
        if habit is None:
            raise
        raise habit from None


def _tree(node: exp.Expression) -> Predicate:
    from sqlglot import exp

    if isinstance(node, exp.Paren):
        return _tree(node.this)
    if isinstance(node, exp.And | exp.Or):
        return _chain(node)
    if isinstance(node, exp.Not):
        return Not(_tree(node.this))
    if isinstance(node, exp.Column):
        return Equal(_column(node), True)  # a BOOLEAN, which bind makes sure of
    if isinstance(node, exp.Is):
        return _is(node)
    if isinstance(node, exp.In):
        return _in(node)
    if isinstance(node, exp.Between):
        return _between(node)
    return _comparison(node)


def _refuse_lone(column: exp.Column, kinds: Mapping[str, str]) -> None:
    """Raise UsageError for a column that is a condition of its own, and not a BOOLEAN.

    Args:
        column: of a condition.
        kinds: the table's columns by ``fold_name`` -> canonical SQL type.
    """
    from sqlglot import exp

    kind = kinds.get(fold_name(_column(column)), "BOOLEAN")  # of others bind says what is wrong
    around = column.parent
    while isinstance(around, exp.Paren):
        around = around.parent
    if kind == "BOOLEAN" or not isinstance(around, exp.And | exp.Or | exp.Not | exp.Where):
        return
    name, literal = _name(column), _example(kind)
    compare = f"`{name} = {literal}` or " if literal else ""
    raise UsageError(
        f"column {_column(column)!r} is {kind}, and only a BOOLEAN column is a condition of its "
        "own",
        next_step=f"compare it, as in {compare}`{name} IS NOT NULL`",
    )


def _example(kind: str) -> str:
    """Return a literal of a type; empty where there is none."""
    if bound_key(kind) is None:
        return ""
    if kind == "VARCHAR":
        return "'x'"
    return "'2026-01-31'" if kind.startswith(("DATE", "TIMESTAMP")) else "1"


def _is(node: exp.Is) -> Predicate:
    from sqlglot import exp

    if isinstance(node.expression, exp.Null):
        return IsNull(_column(node.this))
    if isinstance(node.expression, exp.Boolean):
        column = _column(node.this)
        return And((Not(IsNull(column)), Equal(column, bool(node.expression.this))))
    raise _refused(node)


def _chain(node: exp.Expression) -> Predicate:
    """Make one node of a chain of one connective, so that its length adds no levels."""
    kind = type(node)
    args: list[Predicate] = []
    pending = [node]
    while pending:
        current = pending.pop()
        if isinstance(current, kind):
            pending += [current.args["expression"], current.args["this"]]
        else:
            args.append(_tree(current))
    from sqlglot import exp

    return And(tuple(args)) if kind is exp.And else Or(tuple(args))


def _comparison(node: exp.Expression) -> Predicate:
    from sqlglot import exp

    operators: dict[type[exp.Expression], str] = {
        exp.EQ: "=",
        exp.NEQ: "!=",
        exp.LT: "<",
        exp.LTE: "<=",
        exp.GT: ">",
        exp.GTE: ">=",
    }
    op = operators.get(type(node))
    if op is None:
        raise _refused(node)
    left, right = node.args["this"], node.args["expression"]
    columns = [each for each in map(_plain, (left, right)) if isinstance(each, exp.Column)]
    if len(columns) == 2:
        raise UsageError(
            f"the condition compares `{_name(columns[0])}` with `{_name(columns[1])}`, two columns",
            next_step="compare a column with a literal; a text stands in single quotes",
        )
    if isinstance(_plain(right), exp.Column):
        left, right, op = right, left, _FLIPPED[op]
    return COMPARISONS[op](_column(left), _literal(right))


def _habit(node: exp.Expression, kinds: Mapping[str, str]) -> UsageError | None:
    """Return the error for a piece that is written as elsewhere but not in SQL; None for others.

    Args:
        node: a piece of a condition that was refused.
        kinds: the table's columns, by ``fold_name`` -> canonical SQL type.
    """
    from sqlglot import exp

    if isinstance(node, exp.ArrayOverlaps | exp.DPipe):
        sign, word = ("&&", "and") if isinstance(node, exp.ArrayOverlaps) else ("||", "or")
        return UsageError(f"`{sign}` does not join conditions", next_step=f"write {word}")
    if isinstance(node, exp.Sub) and (date := _DATE.fullmatch(node.sql(dialect="duckdb"))):
        around = node.parent or node
        shown = _DATE.sub(_dated, around.sql(dialect="duckdb"))
        return UsageError(
            f"`{_dated(date).strip(chr(39))}` without quotes is a subtraction",
            next_step=f"a date stands in single quotes: {shown}",
        )
    field = _field(node, kinds)
    if field is not None:
        return field
    wrong = next((c for c in _for_literals(node) if fold_name(str(c.this.this)) not in kinds), None)
    if wrong is None:
        return None
    text = str(wrong.this.this).replace("'", "''")
    how = " in double quotes" if wrong.this.args.get("quoted") else ""
    return UsageError(
        f"`{_name(wrong)}`{how} is a column, as in SQL, and the table has none of this name",
        next_step=f"write '{text}' in single quotes if it is a text",
    )


def _field(node: exp.Expression, kinds: Mapping[str, str]) -> UsageError | None:
    """Return the error for a field of a structure; None for other pieces. Arguments of ``_habit``.

    It may also be a column with a point in its name.
    """
    from sqlglot import exp

    if isinstance(node, exp.Column) and node.table:
        name = ".".join(str(part.this) for part in node.parts)
        if fold_name(name) in kinds:
            return UsageError(
                f"`{name}` without quotes is the field {node.name} of {node.table}",
                next_step=f"a column with a point in its name stands in double quotes: "
                f"{quote_name(name)}",
            )
        first = str(node.parts[0].this)
    elif isinstance(node, exp.Bracket) and isinstance(node.this, exp.Column):
        first = str(node.this.parts[0].this)
    else:
        return None
    if not kinds.get(fold_name(first), "").startswith("STRUCT"):
        return None
    return UsageError(
        f"`{node.sql(dialect='duckdb')}` is a field of column {first!r}, a STRUCT, and fields of "
        "structures cannot stand in a condition",
        next_step="--sql of `firnline rewrite --help` changes rows by a field, "
        "firnline.scan(…).duckdb().filter(…) reads them",
    )


def _dated(date: re.Match[str]) -> str:
    year, month, day = date.groups()
    return f"'{year}-{month:0>2}-{day:0>2}'"


def _for_literals(node: exp.Expression) -> list[exp.Column]:
    """Return the columns of a comparison that stand where a literal should, the likeliest first."""
    from sqlglot import exp

    if isinstance(node, exp.In):
        places = list(node.expressions)
    elif isinstance(node, exp.Between):
        places = [node.args["low"], node.args["high"]]
    elif isinstance(node, exp.Binary) and isinstance(node, exp.Predicate):
        places = [node.args["expression"], node.args["this"]]
    else:
        return []
    columns = [each for each in map(_plain, places) if isinstance(each, exp.Column)]
    return [] if isinstance(node, exp.Binary) and len(columns) < 2 else columns


def _name(column: exp.Column) -> str:
    return str(column.sql(dialect="duckdb"))


def _in(node: exp.In) -> Predicate:
    if {name for name, value in node.args.items() if value} != {"this", "expressions"}:
        raise _refused(node)
    return In(_column(node.this), tuple(_literal(value) for value in node.expressions))


def _between(node: exp.Between) -> Predicate:
    low, high = _literal(node.args["low"]), _literal(node.args["high"])
    column = _column(node.this)
    if node.args.get("symmetric"):
        raise _refused(node)
    return And((GreaterEqual(column, low), LessEqual(column, high)))


def _plain(node: exp.Expression) -> exp.Expression:
    from sqlglot import exp

    while isinstance(node, exp.Paren):
        node = node.this
    return node


def _column(node: exp.Expression) -> str:
    from sqlglot import exp

    node = _plain(node)
    if not isinstance(node, exp.Column) or node.table or not isinstance(node.this, exp.Identifier):
        raise _refused(node)
    return str(node.this.this)


def _literal(node: exp.Expression) -> Any:  # noqa: ANN401 - a Scalar once bind has seen it
    from sqlglot import exp

    node = _plain(node)
    if isinstance(node, exp.Neg) and isinstance(node.this, exp.Literal) and node.this.is_number:
        return -_number(node.this.this)
    if isinstance(node, exp.Literal):
        return _number(node.this) if node.is_number else str(node.this)
    if isinstance(node, exp.Boolean):
        return bool(node.this)
    if isinstance(node, exp.Null):
        return None
    if isinstance(node, exp.Cast) and isinstance(node.this, exp.Literal) and node.this.is_string:
        return _time(node)
    raise _refused(node)


def _number(text: str) -> Any:  # noqa: ANN401 - int or Decimal until bind gives it its form
    try:
        # Decimal accepts millions of digits; an int of more than 4,300 cannot be made text again.
        return int(text) if text.isdecimal() and len(text) <= _MAX_DIGITS else Decimal(text)
    except InvalidOperation:
        raise _refused(text) from None


def _time(node: exp.Cast) -> Any:  # noqa: ANN401 - date or datetime until bind gives it its form
    from sqlglot import exp

    kinds = {
        exp.DataType.Type.DATE: "DATE",
        exp.DataType.Type.TIMESTAMP: "TIMESTAMP",
        exp.DataType.Type.TIMESTAMPNTZ: "TIMESTAMP",
        exp.DataType.Type.TIMESTAMPTZ: "TIMESTAMP WITH TIME ZONE",
    }
    kind = kinds.get(node.to.this)
    if kind is None or isinstance(node, exp.TryCast):
        raise _refused(node)
    try:
        text = str(canonical(kind, str(node.this.this)))
    except ValueError as error:
        raise UsageError(f"in the condition: {error}", next_step="correct the literal") from None
    # Objects, so that a text column is not compared with the text of a time.
    if kind == "DATE":
        return datetime.date.fromisoformat(text)
    return datetime.datetime.fromisoformat(text)


def _refused(piece: exp.Expression | str) -> UsageError:
    text = piece if isinstance(piece, str) else piece.sql(dialect="duckdb")
    return UsageError(
        f"{_short(text)} is not supported in a condition", next_step=f"{_ALLOWED}; {_OTHERWISE}"
    )


def _short(text: str) -> str:
    return f"`{cut(' '.join(text.split()))}`"


def _reason(error: Exception) -> str:
    """Return what is wrong, in the words of a condition and not in those of its parser."""
    from sqlglot.errors import ParseError, TokenError

    if isinstance(error, TokenError):
        return "a quotation mark is not closed"
    details = error.errors[0] if isinstance(error, ParseError) and error.errors else {}
    description, near = str(details.get("description", "")), str(details.get("highlight", ""))
    if description.startswith("Required keyword"):
        # The parser itself ends with WHERE.
        return "it is empty" if near == "WHERE" else f"something is missing at `{near}`"
    if description.startswith("Invalid expression"):
        return f"nobody expects `{near}` there"
    if description.startswith("Expecting "):
        return f"`{description.removeprefix('Expecting ')}` is missing after `{near}`"
    return description or "it is nested too deeply"
