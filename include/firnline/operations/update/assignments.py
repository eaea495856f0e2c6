"""New values of columns (``--set "status = 'x'"``), and the query that computes them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from firnline.errors import CHOICES, UsageError, some
from firnline.kernel.query.check import in_brackets
from firnline.kernel.query.process import QueryTooLargeError, check_query
from firnline.kernel.visibility import goes, stays
from firnline.operations.rewrite.plan import SOURCE
from firnline.predicate.tree import Predicate, to_sql
from firnline.settings.load import TableSettings
from firnline.table import Table
from firnline.types.sql import fold_name, quote_name

# ruff: noqa: S608 -- names are quoted; DuckDB's parse tree of the text is checked before it is run

_ASSIGNMENT = re.compile(r'\s*(?:"((?:[^"]|"")+)"|([^\s"=]+))\s*=(.*)', re.DOTALL)
_FORM = (
    "write COLUMN = EXPRESSION, such as --set \"status = 'closed'\", once for each column; a name "
    "with spaces or signs stands in double quotes"
)


@dataclass(frozen=True, slots=True)
class Assignment:
    """A column, and the expression of its new values."""

    column: str
    """As the table spells it."""
    expression: str
    """In DuckDB's dialect, over the columns of the row as they were before."""

    def __str__(self) -> str:
        return f"{self.column} = {self.expression}"


def parse(
    texts: Sequence[str], schema: Mapping[str, str], settings: TableSettings
) -> tuple[Assignment, ...]:
    """Return the assignments of some texts.

    Args:
        texts: each as ``column = expression``, the column in double quotes if it needs them.
        schema: the table's columns.
        settings: of the table.

    Raises:
        UsageError: there is none, a text is no assignment, a column is named twice, is not in the
            table, or decides where a row is or which of its key is visible.
    """
    if not texts:
        raise UsageError("an update sets at least one column", next_step=_FORM)
    known, found = {fold_name(name): name for name in schema}, dict[str, Assignment]()
    for text in texts:
        match = _ASSIGNMENT.fullmatch(text)
        if match is None or not match[3].strip():
            raise UsageError(f"{text!r} sets no column", next_step=_FORM)
        named = match[1].replace('""', '"') if match[1] else match[2]
        column = known.get(fold_name(named))
        if column is None:
            raise _unknown(named, known, settings)
        if column in found:
            raise UsageError(f"column {column!r} is set twice", next_step="set it once")
        _refuse_fixed(column, settings)
        found[column] = Assignment(column, match[3].strip())
    return tuple(found.values())


def _unknown(named: str, known: Mapping[str, str], settings: TableSettings) -> UsageError:
    """Return the error for a column that the table does not have."""
    of_struct = known.get(fold_name(named.partition(".")[0]))
    step = f"correct --set; the columns are {some(list(known.values()), CHOICES)}"
    if of_struct is not None:
        step = f"a field is set with all of its column: --set '{of_struct} = …'"
    return UsageError(f"table {settings.name} has no column {named!r}", next_step=step)


def _refuse_fixed(column: str, settings: TableSettings) -> None:
    """Raise UsageError for a column whose value places a row, or decides which row is visible."""
    name = fold_name(column)
    fixed = {fold_name(key): "part of the primary key" for key in settings.primary_key}
    fixed |= {fold_name(f.column): f"in partition_by ({f})" for f in settings.partition_by}
    for key, what in ((settings.version, "version"), (settings.deleted, "deleted")):
        if key is not None:
            fixed[fold_name(key)] = f"the table's {what}"
    if name in fixed:
        raise UsageError(
            f"column {column!r} of table {settings.name} is {fixed[name]}: an update keeps each "
            "row where it is, and which row of a key readers see",
            next_step="append the rows with their new values, and delete the old ones",
        )


def condition_of(where: Predicate, schema: Mapping[str, str], settings: TableSettings) -> str:
    """Return the DuckDB condition of the rows that an update changes: no key tombstone is one."""
    condition = to_sql(where, schema)
    if settings.deleted is None:
        return condition
    return f"({condition}) AND {stays(quote_name(settings.deleted))}"


def query_of(assignments: Sequence[Assignment], condition: str, schema: Mapping[str, str]) -> str:
    """Return the query over ``SOURCE`` that computes every row, changed or as it is."""
    changed = goes(condition)
    new = [
        f"CASE WHEN {changed} THEN CAST({in_brackets(each.expression)} AS {schema[each.column]}) "
        f"ELSE {name} END AS {name}"
        for each in assignments
        for name in (quote_name(each.column),)
    ]
    return f"SELECT * REPLACE ({', '.join(new)}) FROM {SOURCE}"


def check(
    assignments: Sequence[Assignment], query: str, schema: Mapping[str, str], table: Table
) -> None:
    """Check the expressions as far as possible without rows.

    Raises UsageError: one is no expression over the columns of a row, or has no value of its
    column's type; or together with the condition they are too much.
    """
    try:
        check_query(query, SOURCE, schema, table.clock, [each.expression for each in assignments])
    except QueryTooLargeError as error:
        raise UsageError(
            error.message.replace("the query", "the update with its condition"),
            next_step="shorten --where or --set: give a range, or update in several runs",
        ) from None
    except UsageError as error:
        reason = error.message
        for mark in (" is refused: ", " fails: "):
            reason = reason.partition(mark)[2] or reason
        named = "; ".join(map(str, assignments))
        raise UsageError(
            f"`{named}` cannot be computed: {' '.join(reason.split())}",
            next_step="correct --set: for each column one expression over the columns of the row, "
            "in DuckDB's dialect, without subqueries and without functions over other rows",
        ) from None
