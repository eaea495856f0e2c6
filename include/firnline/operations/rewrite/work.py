"""Options of a rewrite, checked, as a plan and as work for kernels."""

from __future__ import annotations

from firnline.commit.keys import outside_key
from firnline.errors import UsageError
from firnline.kernel.query.process import check_query
from firnline.operations.kernel_tasks import Work
from firnline.operations.rewrite.options import RewriteOptions
from firnline.operations.rewrite.plan import RewritePlan, plan_rewrite
from firnline.predicate.sql import parse_sql
from firnline.predicate.tree import Predicate, columns_of, to_sql
from firnline.state.snapshot import Snapshot
from firnline.table import Table

OP = "rewrite"
SOURCE = "_rows"
"""Name of the rows of a partition in the query."""


def make_plan(
    table: Table, snapshot: Snapshot, options: RewriteOptions, only: frozenset[str] | None
) -> RewritePlan:
    """Return the plan of the options. Raises UsageError."""
    return plan_rewrite(
        snapshot,
        table.settings,
        _condition(snapshot, options),
        partitions=options.partitions,
        interval=_interval(options),
        only=only,
    )


def _interval(options: RewriteOptions) -> tuple[int, int] | None:
    start, end = options.start_ms, options.end_ms
    if start is None and end is None:
        return None
    if start is None or end is None or start >= end:
        raise UsageError(
            "the interval has no start or no end, or ends before it starts",
            next_step="give both, the end exclusive",
        )
    return start, end


def _condition(snapshot: Snapshot, options: RewriteOptions) -> Predicate | None:
    """Return the bound filter; None for a query, which is checked. Raises UsageError."""
    if (options.where is None) == (options.sql is None):
        raise UsageError(
            "a rewrite takes a condition (where) or a query (sql)", next_step="give one of them"
        )
    if options.where is None:
        check_query(str(options.sql), SOURCE, snapshot.schema)
        return None
    try:
        return parse_sql(options.where, snapshot.schema)
    except UsageError as error:
        raise UsageError(
            error.message,
            next_step=f"{error.next_step.removesuffix('; nothing else')}; whatever is more takes a "
            "query (sql) over _rows",
        ) from None


def make_work(table: Table, snapshot: Snapshot, options: RewriteOptions) -> Work:
    """Return the kernels' work for the options. Raises UsageError."""
    condition = _condition(snapshot, options)
    if condition is None:
        limit = table.settings.rewrite.time_limit
        return Work(op=OP, query=options.sql, source=SOURCE, time_limit_ms=limit)
    return Work(
        op=OP,
        keep=to_sql(condition, snapshot.schema),
        only_touched=True,
        keep_winners=bool(outside_key(table.settings, columns_of(condition))),
    )
