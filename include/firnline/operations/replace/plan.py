"""The plan of a replace: drops, rewrites or hides parts; pure, printable, with reasons."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from firnline.commit.keys import refuse_outside_key
from firnline.errors import CommitConflictError, UsageError
from firnline.log.parts_view import summed
from firnline.log.records import Marker
from firnline.operations.common_options import Mode
from firnline.operations.delete.plan import judge_by
from firnline.operations.groups import LeftAlone, PlannedGroup
from firnline.operations.options import ReplaceOptions
from firnline.operations.selection import HIDDEN, Selected, select
from firnline.predicate.pruning import Pruner
from firnline.predicate.tree import And, Equal, GreaterEqual, IsNull, Less, Predicate, bind, to_json
from firnline.settings.fields import TIME_TRANSFORMS
from firnline.settings.load import TableSettings
from firnline.state.holds import Held
from firnline.state.snapshot import Snapshot
from firnline.types.schema import SchemaUnion, as_known, normalise
from firnline.types.values import Scalar, bound_key, canonical
from firnline.units import counted


@dataclass(frozen=True, slots=True)
class Span:
    """The rows that are replaced: ``[start, end)`` of a column, and values of other columns."""

    column: str
    start: Scalar
    end: Scalar
    """End of the interval, exclusive."""
    equal: tuple[tuple[str, Scalar], ...] = ()

    def bound(self, columns: Mapping[str, str]) -> Span:
        """Return it with columns as the table spells them and values in their columns' form.

        Args:
            columns: of the table and of the new rows, column -> SQL type.

        Raises:
            UsageError: a column that there is not, a value that its column cannot hold, a column
                that is named twice, an empty interval, a column whose values have no order.
        """
        name, kind = _column(self.column, columns)
        key = bound_key(kind)
        if key is None or kind == "BOOLEAN":
            raise UsageError(
                f"column {name!r} is {kind}, which has no intervals",
                next_step="name a column of times, dates or numbers",
            )
        start, end = (_value(name, kind, value) for value in (self.start, self.end))
        if not key(start) < key(end):
            raise UsageError(
                f"there is nothing between {start} and {end} in column {name!r}",
                next_step="give an end after the start; the end itself is not replaced",
            )
        equal = tuple(_equal(column, value, columns) for column, value in self.equal)
        named = [name, *(column for column, _ in equal)]
        twice = next((column for column in named if named.count(column) > 1), None)
        if twice is not None:
            raise UsageError(
                f"column {twice!r} is named twice", next_step="give each column one condition"
            )
        return Span(name, start, end, equal)

    def predicate(self, columns: Mapping[str, str]) -> Predicate:
        """Return the predicate of the rows that are replaced. Raises UsageError as ``bound``."""
        span = self.bound(columns)
        limits = (GreaterEqual(span.column, span.start), Less(span.column, span.end))
        return bind(And((*limits, *(Equal(*pair) for pair in span.equal))), columns)

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns of the interval and of ``equal``."""
        return (self.column, *(column for column, _ in self.equal))

    def __str__(self) -> str:
        start, end = (str(value).replace(".000000", "") for value in (self.start, self.end))
        text = f"{self.column} from {start} to {end}"
        return text + "".join(f", {column} = {value}" for column, value in self.equal)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplacePlan(Selected):
    """The plan of a replace for the existing parts."""

    mode: Mode
    span: Span
    where: bytes
    """The bound predicate as JSON."""
    rows_cut: int | None
    """Rows of the parts that the interval cuts; None if one of them does not state them."""
    rows_new: int | None = 0
    """New rows by the footers of their files; None if they are not in files."""
    inside: bool = True
    """True if footers prove that every new row lies in the interval; a run checks each in any case
    when it reads it."""

    def to_json(self) -> dict[str, Any]:
        """Plain data: the interval, totals, a row per group and per partition."""
        return {
            "mode": self.mode,
            "column": self.span.column,
            "start": self.span.start,
            "end": self.span.end,
            "equal": dict(self.span.equal),
            "where": msgspec.json.decode(self.where),
            "parts_hidden": self.hidden,
            "rows_cut": self.rows_cut,
            "rows_new": self.rows_new,
            "rows_new_inside": self.inside,
            **self.as_json(),
        }


def plan_replace(
    snapshot: Snapshot,
    settings: TableSettings,
    span: Span,
    columns: Mapping[str, str],
    *,
    mode: Mode,
) -> ReplacePlan:
    """Decide which live parts are dropped, rewritten or hidden.

    A part of which statistics prove that every row is replaced dies unread, in either mode. One
    that may hold such rows and others is rewritten (eager), or stays until a merge (lazy).

    Args:
        snapshot: the state to plan on.
        settings: of the table.
        span: which rows are replaced.
        columns: of the table and of the new rows, column -> SQL type.
        mode: what becomes of parts that the interval cuts.

    Raises UsageError as ``Span.bound``, and for columns outside the table's primary key.
    """
    bound = span.bound(columns)
    refuse_outside_key(
        settings,
        bound.columns,
        "a replace",
        next_step="append the new rows, which replace those of their keys, and delete the others",
    )
    tree = bound.predicate(columns)
    partitions = list(snapshot.partitions)
    _refuse_held(snapshot, tree, columns)
    selected = select(
        snapshot, settings, partitions, judge_by(snapshot, tree, columns), frozenset()
    )
    left = selected.left_alone
    if mode == "lazy":
        cut = [(group.partition, m) for group in selected.groups for m in group.parts]
        left = (*(LeftAlone(m.p, name, m.b, HIDDEN) for name, m in cut), *left)
    return ReplacePlan(
        seq=snapshot.seq,
        mode=mode,
        span=bound,
        where=to_json(tree),
        rows_cut=summed(m for group in selected.groups for m in group.parts).rows,
        groups=_by_side(snapshot, selected.groups, bound, columns) if mode == "eager" else (),
        dropped=selected.dropped,
        left_alone=left,
    )


def _refuse_held(snapshot: Snapshot, tree: Predicate, columns: Mapping[str, str]) -> None:
    """Raise UsageError if rows of a legal hold may be replaced, also some that are being appended.

    They cannot stay beside the new ones, as with a delete.
    """
    held, judge = Held.of(snapshot), judge_by(snapshot, tree, columns)
    every = ((name, m) for name, markers in snapshot.partitions.items() for m in markers)
    held.refuse("a replace", ((name, m) for name, m in every if judge(m) != "none"))
    held.refuse_any("a replace")


def _by_side(
    snapshot: Snapshot, groups: Sequence[PlannedGroup], span: Span, columns: Mapping[str, str]
) -> tuple[PlannedGroup, ...]:
    """Split the groups: parts before the interval apart from those behind it.

    Together they would become a part that spans the whole interval, which the next replace of it
    would have to read.
    """
    before = Pruner(Less(span.column, span.start), columns)
    behind = Pruner(GreaterEqual(span.column, span.end), columns)
    halves: list[PlannedGroup] = []
    for group in groups:
        sides: dict[tuple[bool, bool], list[Marker]] = defaultdict(list)
        for marker in group.parts:
            stats = snapshot.stats_of(marker)
            sides[before.matches_nothing(stats), behind.matches_nothing(stats)].append(marker)
        halves += [PlannedGroup(group.partition, tuple(p), group.deletes) for p in sides.values()]
    return tuple(halves)


def with_new_columns(schema: Mapping[str, str], new: Mapping[str, str]) -> Mapping[str, str]:
    """Return the columns of a table and those that only new rows have, column -> SQL type.

    Raises SchemaConflictError.
    """
    union = SchemaUnion()
    union.add("the table", schema)
    step = "cast the column to the type the table has"
    union.add("the new rows", as_known(new, union.columns), next_step=step)
    return union.columns


def plan_nothing(snapshot: Snapshot, span: Span, mode: Mode) -> ReplacePlan:
    """Return the plan for a table without a part: it rewrites nothing."""
    return ReplacePlan(
        seq=snapshot.seq,
        mode=mode,
        span=span,
        where=b"null",
        rows_cut=0,
        groups=(),
        dropped=(),
        left_alone=(),
        rows_new=None,
        inside=False,
    )


def new_rows_text(figures: Mapping[str, Any]) -> str:
    """Return how many rows come, and whether all are known to lie in the interval.

    Args:
        figures: a plan as plain data.
    """
    rows = figures["rows_new"]
    if rows == 0:
        return "no row would come instead"
    come = "new rows would come" if rows is None else f"{counted(rows, 'new row')} would come"
    if figures["rows_new_inside"]:
        return f"{come}, and all lie inside by their footers"
    return f"{come}; whether each lies inside is checked when it is read"


def rows_text(figures: Mapping[str, Any]) -> str:
    """Return how many rows go, by what the parts state of themselves.

    Args:
        figures: a plan as plain data.
    """
    least, cut = figures["rows_to_drop"], figures["rows_cut"]
    if cut is None:
        return f"at least {counted(least, 'row')} would go, and some parts do not state theirs"
    if not cut:
        return f"{counted(least, 'row')} would go"
    return f"between {least:,} and {counted(least + cut, 'row')} would go"


def refuse_rivals(
    planned: Snapshot, tree: Predicate, columns: Mapping[str, str]
) -> Callable[[Snapshot], None]:
    """Return a check of the base to commit on, for an eager replace.

    Rows that a rival brought since are hidden by the record in any case. But clients of version 1
    do not know records, and would see them beside the new ones: so plan again, and drop or
    rewrite them.

    Args:
        planned: what the plan was made on.
        tree: the bound predicate.
        columns: column -> SQL type.

    Returns:
        what raises CommitConflictError for a base with such rows.
    """
    pruner = Pruner(tree, columns)

    def refuse(base: Snapshot) -> None:
        if base.seq == planned.seq:
            return
        for path, marker in base.live.items():
            if path in planned.live or base.sequence_of(marker) <= planned.seq:
                continue
            if not pruner.matches_nothing(base.stats_of(marker), base.hashes_of(marker)):
                raise CommitConflictError(
                    f"a rival wrote rows of the same interval meanwhile, in {path}",
                    next_step="run it again: it plans on what is there now",
                )

    return refuse


def span_of(options: ReplaceOptions, settings: TableSettings) -> Span:
    """Return the rows that are replaced. Raises UsageError where no column is named."""
    column = options.column or time_column(settings)
    if column is None:
        raise UsageError(
            f"neither table {settings.name} nor its settings name a column of times",
            next_step="name the column (--column)",
        )
    return Span(column, options.start, options.end, tuple(options.equal.items()))


def time_column(settings: TableSettings) -> str | None:
    """Return the time column of the settings: of the partitions, the TTL, or the order of the rows.

    That is the first of ``sort_by`` or ``cluster_by``. None where they name none of these.
    """
    for field in settings.partition_by:
        if field.transform in TIME_TRANSFORMS:
            return field.column
    if settings.ttl is not None and settings.ttl.column is not None:
        return settings.ttl.column
    if settings.sort_by:
        return settings.sort_by[0].column
    return settings.cluster_by.columns[0] if settings.cluster_by is not None else None


def _column(name: str, columns: Mapping[str, str]) -> tuple[str, str]:
    found = bind(IsNull(name), columns)
    assert isinstance(found, IsNull)  # what it was
    return found.column, normalise(columns[found.column])


def _equal(name: str, value: Scalar, columns: Mapping[str, str]) -> tuple[str, Scalar]:
    column, kind = _column(name, columns)
    return column, _value(column, kind, value)


def _value(name: str, kind: str, value: Scalar) -> Scalar:
    """Return the value in canonical form; from the command line every value comes as text."""
    if kind == "BOOLEAN" and isinstance(value, str) and value.lower() in {"true", "false"}:
        return value.lower() == "true"
    if value is None:
        raise UsageError(
            f"column {name!r} is compared with null, which is never true",
            next_step="give a value; rows with a null are not replaced",
        )
    try:
        return canonical(kind, value)
    except ValueError as error:
        raise UsageError(
            f"column {name!r} is {kind}: {error}",
            next_step="write a value that the column's type can hold",
        ) from None
