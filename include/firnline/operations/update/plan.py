"""The plan of an update: which parts may hold rows that change, and the work of its kernels."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from firnline.log.records import Marker
from firnline.operations.groups import LeftAlone
from firnline.operations.kernel_tasks import RowWork
from firnline.operations.options import UpdateOptions
from firnline.operations.rewrite.plan import (
    SOURCE,
    PlannedPartition,
    RewritePlan,
    planned_partition,
    refuse_held,
)
from firnline.operations.selection import Verdict, select, select_whole
from firnline.operations.update.assignments import (
    Assignment,
    check,
    condition_of,
    parse,
    query_of,
)
from firnline.predicate.pruning import Pruner
from firnline.predicate.sql import parse_sql
from firnline.predicate.tree import Predicate, columns_of
from firnline.state.partitions import choose
from firnline.state.snapshot import Snapshot
from firnline.table import Table
from firnline.types.sql import quote_name

OP = "update"


@dataclass(frozen=True, slots=True)
class _Asked:
    """The options of an update, bound to the columns of a table."""

    where: Predicate
    new: tuple[Assignment, ...]
    condition: str
    """DuckDB's condition of the rows that change."""
    query: str

    @classmethod
    def of(cls, table: Table, snapshot: Snapshot, options: UpdateOptions) -> _Asked:
        """Bind them. Raises UsageError."""
        schema, settings = snapshot.schema, table.settings
        where = _where(snapshot, options)
        new = parse(options.set, schema, settings)
        condition = condition_of(where, schema, settings)
        return cls(where, new, condition, query_of(new, condition, schema))


def make_plan(table: Table, snapshot: Snapshot, options: UpdateOptions) -> RewritePlan:
    """Return the plan: a part is read unless its statistics prove that no row of it changes.

    Of a table with a primary key and a condition on other columns, whole partitions are read: what
    changes is the row that readers see. All expressions are checked.

    Raises UsageError: a condition or an expression that is refused; a glob that matches nothing.
    """
    asked, settings = _Asked.of(table, snapshot, options), table.settings
    check(asked.new, asked.query, snapshot.schema, table)
    judge = partial(_verdict, Pruner(asked.where, snapshot.schema), snapshot)
    by_winners = bool(settings.outside_key(columns_of(asked.where)))
    planned: list[PlannedPartition] = []
    left: list[LeftAlone] = []
    for partition in choose(snapshot.partitions, options.partitions):
        if by_winners:
            selected = select_whole(snapshot, [partition], judge)
        else:
            selected = select(snapshot, settings, [partition], judge, frozenset())
        left += selected.left_alone
        if not selected.only_record:
            planned.append(planned_partition(snapshot, partition, selected))
    refuse_held(snapshot, planned, "an update")
    return RewritePlan(snapshot.seq, tuple(planned), tuple(left))


def make_work(table: Table, snapshot: Snapshot, options: UpdateOptions) -> RowWork:
    """Return the kernels' work for the options. Raises UsageError."""
    asked = _Asked.of(table, snapshot, options)
    return RowWork(
        op=OP,
        query=asked.query,
        source=SOURCE,
        time_limit_ms=table.settings.rewrite.time_limit,
        changes=asked.condition,
        only_touched=True,
    )


def _verdict(pruner: Pruner, snapshot: Snapshot, marker: Marker) -> Verdict:
    outcomes = pruner.outcomes(snapshot.stats_of(marker), snapshot.hashes_of(marker))
    return "some" if outcomes.true else "none"


def _where(snapshot: Snapshot, options: UpdateOptions) -> Predicate:
    """Return the bound condition; ``true`` stands for every row. Raises UsageError."""
    where = options.where
    if where.strip().lower() == "true" and snapshot.schema:
        any_column = quote_name(next(iter(snapshot.schema)))
        where = f"{any_column} is null or {any_column} is not null"
    return parse_sql(where, snapshot.schema)
