"""The plan of a rewrite of partitions, and the work of its kernels: pure, printable."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from firnline.errors import UsageError
from firnline.kernel.query.process import check_query
from firnline.log.records import Marker
from firnline.operations.groups import LeftAlone, PlannedGroup
from firnline.operations.kernel_tasks import RowWork
from firnline.operations.options import RewriteOptions
from firnline.operations.prepare_options import Preparable
from firnline.operations.prepared.compare import Asked, check_asked
from firnline.operations.requests import COMMIT_REQUESTS, FIXED_REQUESTS, upload_requests
from firnline.operations.selection import NO_ROW, Selected, Verdict, select, select_whole
from firnline.parquet.partition import span_of
from firnline.predicate.pruning import Pruner
from firnline.predicate.sql import parse_sql
from firnline.predicate.tree import Predicate, columns_of, to_sql
from firnline.settings.fields import TIME_TRANSFORMS
from firnline.settings.load import TableSettings
from firnline.shown import ShownFigures, when
from firnline.state.holds import Held
from firnline.state.partitions import choose
from firnline.state.snapshot import Snapshot
from firnline.table import Table

STAYS = "its statistics prove that every row stays"
BEYOND = "its partition reaches beyond the interval"
OP = "rewrite"
SOURCE = "_rows"
"""Name of the rows of a partition in the query."""


@dataclass(frozen=True, slots=True)
class PlannedPartition:
    """One partition, rewritten in one transaction of its own."""

    partition: str
    groups: tuple[PlannedGroup, ...]
    """Groups to read. With a filter, parts that lose no row stay as they are."""
    dropped: tuple[Marker, ...]
    """Parts dropped unread: statistics prove that none of their rows stays."""
    rows_elsewhere: int
    """Visible rows of the parts that are left alone, of those in which they are known."""
    uncounted: int = 0
    """Parts that are left alone and count as empty: they state no rows, or a delete may hide
    some."""

    @property
    def parts(self) -> int:
        """Parts that are read or dropped."""
        return sum(len(group.parts) for group in self.groups) + len(self.dropped)

    @property
    def bytes(self) -> int:
        """Bytes to read, and at most about as many to write."""
        return sum(group.bytes for group in self.groups)


@dataclass(frozen=True, slots=True, repr=False)
class RewritePlan(ShownFigures):
    """The plan of a rewrite: partitions in order of their names."""

    seq: int
    """Transaction of the snapshot it was made from."""
    partitions: tuple[PlannedPartition, ...]
    left_alone: tuple[LeftAlone, ...]

    @property
    def nothing_to_do(self) -> bool:
        """True when no part can lose a row."""
        return not self.partitions

    @property
    def groups(self) -> list[PlannedGroup]:
        """Groups of all partitions."""
        return [group for partition in self.partitions for group in partition.groups]

    @property
    def parts_in(self) -> int:
        """Parts that would be read."""
        return sum(len(group.parts) for group in self.groups)

    @property
    def parts_dropped(self) -> int:
        """Parts that would go unread."""
        return sum(len(partition.dropped) for partition in self.partitions)

    @property
    def bytes_in(self) -> int:
        """Bytes that would be read, and at most about as many written."""
        return sum(partition.bytes for partition in self.partitions)

    @property
    def requests(self) -> int:
        """Upper estimate of store requests; log reads not counted."""
        if self.nothing_to_do:
            return 0
        uploads = sum(upload_requests(g.bytes) for g in self.groups)
        more = COMMIT_REQUESTS * (len(self.partitions) - 1)
        return self.parts_in + uploads + FIXED_REQUESTS + more

    def to_json(self) -> dict[str, Any]:
        """Plain data: totals, a row per partition, the reasons with their counts."""
        reasons = Counter(part.reason for part in self.left_alone)
        return {
            "seq": self.seq,
            "parts_to_read": self.parts_in,
            "parts_to_drop": self.parts_dropped,
            "bytes_in": self.bytes_in,
            "requests": self.requests,
            "partitions": [
                {
                    "partition": p.partition,
                    "parts_to_read": p.parts - len(p.dropped),
                    "parts_to_drop": len(p.dropped),
                    "groups": len(p.groups),
                    "bytes": p.bytes,
                }
                for p in self.partitions
            ],
            "left_alone": dict(reasons.most_common()),
        }


def plan_rewrite(
    snapshot: Snapshot,
    settings: TableSettings,
    where: Predicate | None,
    *,
    partitions: Sequence[str] = (),
    interval: tuple[int, int] | None = None,
    only: frozenset[str] | None = None,
) -> RewritePlan:
    """Decide which partitions are rewritten and which of their parts are read.

    Args:
        snapshot: the state to plan on.
        settings: of the table.
        where: rows to keep, bound; None for a query, which has to see every part.
        partitions: globs over partition paths; empty for all.
        interval: (start, end), unix ms, end exclusive: only partitions whose whole span of time
            lies in it.
        only: partitions to plan, when the others are done already; None for all.

    Raises:
        UsageError: a glob matches no partition; an interval for a table that is not partitioned
            by time.
    """
    chosen, left = _within(snapshot, settings, choose(snapshot.partitions, partitions), interval)
    if only is not None:
        chosen = [partition for partition in chosen if partition in only]
    if where is None:
        if settings.deleted is not None:
            raise UsageError(
                f"table {settings.name} has key tombstones (column {settings.deleted!r}), which a "
                "query would take for rows",
                next_step="rewrite by a condition (where), or append the new rows: they replace "
                "those of their keys",
            )
        planned = [_whole(snapshot, partition) for partition in chosen]
        refuse_held(snapshot, planned, "a rewrite")
        return RewritePlan(snapshot.seq, tuple(planned), tuple(left))
    planned = []
    by_winners = bool(settings.outside_key(columns_of(where)))
    for partition in chosen:
        selected = _select(snapshot, settings, partition, where, by_winners=by_winners)
        left += [
            msgspec.structs.replace(part, reason=STAYS) if part.reason == NO_ROW else part
            for part in selected.left_alone
        ]
        if not selected.only_record:
            planned.append(planned_partition(snapshot, partition, selected))
    refuse_held(snapshot, planned, "a rewrite")
    return RewritePlan(snapshot.seq, tuple(planned), tuple(left))


def refuse_held(snapshot: Snapshot, planned: Sequence[PlannedPartition], what: str) -> None:
    """Raise UsageError if a legal hold may cover rows of parts that are to be replaced.

    Args:
        snapshot: the state to plan on.
        planned: what is to be replaced.
        what: the operation, as the beginning of a sentence: "a rewrite".
    """
    parts = (
        (one.partition, m)
        for one in planned
        for m in (*(m for g in one.groups for m in g.parts), *one.dropped)
    )
    Held.of(snapshot).refuse(what, parts)


def _select(
    snapshot: Snapshot,
    settings: TableSettings,
    partition: str,
    keep: Predicate,
    *,
    by_winners: bool,
) -> Selected:
    """Sort the parts of a partition by whether they lose no row, some rows or all."""
    pruner = Pruner(keep, snapshot.schema)

    def judge(marker: Marker) -> Verdict:
        stays = pruner.outcomes(snapshot.stats_of(marker), snapshot.hashes_of(marker))
        if not stays.false and not stays.unknown:
            return "none"
        # Dropped unread only where the number of visible rows that it loses is known.
        countable = marker.n is not None and not snapshot.pending_deletes(marker, partition)
        return "all" if countable and not stays.true else "some"

    if by_winners:
        return select_whole(snapshot, [partition], judge)
    return select(snapshot, settings, [partition], judge, frozenset())


def _within(
    snapshot: Snapshot,
    settings: TableSettings,
    chosen: Sequence[str],
    interval: tuple[int, int] | None,
) -> tuple[list[str], list[LeftAlone]]:
    """Return partitions wholly in the interval; parts of those that it cuts, with the reason."""
    if interval is None:
        return list(chosen), []
    fields = settings.partition_by
    column = next((f.column for f in fields if f.transform in TIME_TRANSFORMS), None)
    if column is None:
        raise UsageError(
            f"table {settings.name} is not partitioned by time, so an interval chooses nothing",
            next_step="name partitions instead, or partition the table by day, month or hour",
        )
    start, end = interval
    within: list[str] = []
    left: list[LeftAlone] = []
    for partition in chosen:
        span = (span_of(partition, fields) or {}).get(column)
        if span is None or span[1] <= start or span[0] >= end:
            continue
        if start <= span[0] and span[1] <= end:
            within.append(partition)
            continue
        left += [LeftAlone(m.p, partition, m.b, BEYOND) for m in snapshot.partitions[partition]]
    return within, left


def _whole(snapshot: Snapshot, partition: str) -> PlannedPartition:
    """Return all parts of a partition as one group: a query may aggregate over any of its rows."""
    parts = sorted(snapshot.partitions[partition], key=lambda m: (*m.order(), m.p))
    pending = {d.id: d for m in parts for d in snapshot.pending_deletes(m, partition)}
    group = PlannedGroup(partition, tuple(parts), tuple(pending.values()))
    return PlannedPartition(partition, (group,), (), 0)


def planned_partition(snapshot: Snapshot, partition: str, selected: Selected) -> PlannedPartition:
    """Return a partition with the parts that are selected, and what is known of the others."""
    dropped = tuple(marker for _, marker in selected.dropped)
    handled = {m.p for g in selected.groups for m in g.parts} | {m.p for m in dropped}
    rest = [m for m in snapshot.partitions[partition] if m.p not in handled]
    rows = [_visible(snapshot, marker, partition) for marker in rest]
    known = [count for count in rows if count is not None]
    return PlannedPartition(partition, selected.groups, dropped, sum(known), len(rows) - len(known))


def _visible(snapshot: Snapshot, marker: Marker, partition: str) -> int | None:
    """Return the visible rows of a part; None where only reading it would tell."""
    pending = snapshot.pending_deletes(marker, partition)
    if not pending:
        return marker.n
    return 0 if snapshot.hidden_whole(marker, pending) else None


def refuse_evidence(options: Preparable) -> None:
    """Raise UsageError if evidence is asked of a rewrite that nobody looks at before its commit."""
    asked = options.assertions or options.keys or options.samples or options.keep
    if asked and not options.prepare:
        raise UsageError(
            "assertions, key columns, sample rows and the time to decide are about what is "
            "prepared before it is committed",
            next_step="prepare it (--prepare, or approve in Airflow), or leave them out",
        )


def asked_evidence(table: Table, snapshot: Snapshot, options: Preparable) -> Asked:
    """Return the evidence that the options ask for, as far as it can be checked without rows.

    Raises UsageError: an assertion that is none, a key column that the table does not have.
    """
    asked = Asked(keys=options.keys, assertions=options.assertions, samples=options.samples or 0)
    return check_asked(table, snapshot, asked)


def make_plan(
    table: Table, snapshot: Snapshot, options: RewriteOptions, only: frozenset[str] | None
) -> RewritePlan:
    """Return the plan of the options. Raises UsageError."""
    return plan_rewrite(
        snapshot,
        table.settings,
        _condition(table, snapshot, options),
        partitions=options.partitions,
        interval=_interval(options),
        only=only,
    )


def _interval(options: RewriteOptions) -> tuple[int, int] | None:
    start, end = options.start_ms, options.end_ms
    if start is None and end is None:
        return None
    if start is None or end is None:
        lacks, has = ("--from", "--until") if start is None else ("--until", "--from")
        raise UsageError(
            f"the interval has {has} and no {lacks}", next_step="give both; --until is exclusive"
        )
    if start >= end:
        raise UsageError(
            f"the interval ends ({when(end)}) where it begins ({when(start)}) or before",
            next_step="exchange --from and --until, or set --until to the day after the last one",
        )
    return start, end


def _condition(table: Table, snapshot: Snapshot, options: RewriteOptions) -> Predicate | None:
    """Return the bound filter; None for a query, which is checked. Raises UsageError."""
    if (options.where is None) == (options.sql is None):
        raise UsageError(
            "a rewrite takes a condition (where) or a query (sql)",
            next_step="give --where or --sql",
        )
    if options.where is None:
        check_query(str(options.sql), SOURCE, snapshot.schema, table.clock)
        return None
    try:
        return parse_sql(options.where, snapshot.schema)
    except UsageError as error:
        raise UsageError(
            error.message,
            next_step=f"{error.next_step.removesuffix('; nothing else')}; whatever is more takes a "
            "query (sql) over _rows",
        ) from None


def make_work(table: Table, snapshot: Snapshot, options: RewriteOptions) -> RowWork:
    """Return the kernels' work for the options. Raises UsageError."""
    condition = _condition(table, snapshot, options)
    if condition is None:
        limit = table.settings.rewrite.time_limit
        return RowWork(op=OP, query=options.sql, source=SOURCE, time_limit_ms=limit)
    return RowWork(
        op=OP,
        keep=to_sql(condition, snapshot.schema),
        only_touched=True,
        keep_winners=bool(table.settings.outside_key(columns_of(condition))),
    )
