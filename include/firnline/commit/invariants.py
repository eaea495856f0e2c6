"""Predicates that hold for every log file before it is committed.

Each docstring names the failure it prevents. They repeat, from the outside, what building the
file had to get right; a mistake there becomes an error here and not a damaged table.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from firnline.errors import InvariantError, RowCountMismatchError, SchemaConflictError
from firnline.log.reader import LogRead
from firnline.log.records import LogContent
from firnline.log.schema_changes import split
from firnline.log.txn_file import Counts
from firnline.paths import TablePaths
from firnline.state.snapshot import Snapshot, standing
from firnline.types import schema
from firnline.types.sql import fold_name


@dataclass(frozen=True, slots=True)
class Candidate:
    """A log file that is about to be committed."""

    base: Snapshot
    content: LogContent
    replaces: frozenset[str]
    """Parts it tombstones."""
    adds: frozenset[str]
    """Parts it brings."""
    folds: frozenset[str]
    """Log files it carries."""
    gone: frozenset[str] = frozenset()
    """Columns that it takes out of the schema, by ``fold_name``."""

    @property
    def after(self) -> Snapshot:
        """The base with the changes of the schema that will be known afterwards."""
        base, carried = self.base, list(self.content.deletes)
        for key in standing(LogRead(base.listing, base.contents)):
            carried += base.contents[key].deletes if key not in self.folds else ()
        return replace(base, changes=split(carried)[1])

    @property
    def meanwhile(self) -> Snapshot:
        """The base with the changes that are known before or afterwards: one may be forgotten."""
        carried = [*self.base.records.values(), *self.content.deletes]
        return replace(self.base, changes=split(carried)[1])


def rows_are_accounted_for(counts: Counts) -> None:
    """Rows in and added are rows out + deleted + de-duplicated + removed: else rows are lost.

    Raises RowCountMismatchError.
    """
    out = counts.rows_out + counts.rows_deleted + counts.rows_deduplicated + counts.rows_removed
    if counts.rows_in + counts.rows_added != out:
        added = f" and {counts.rows_added} added" if counts.rows_added else ""
        raise RowCountMismatchError(
            f"{counts.rows_in} rows were read{added}, but {counts.rows_out} written, "
            f"{counts.rows_deleted} deleted, {counts.rows_deduplicated} de-duplicated and "
            f"{counts.rows_removed} removed by a query",
            next_step="nothing was committed; report this with the log of the run",
        )


def replaced_parts_are_live(c: Candidate) -> bool:
    """Else two operations replaced the same part and its rows are doubled."""
    return all(p in c.base.live for p in c.replaces)


def new_parts_are_new(c: Candidate) -> bool:
    """Else a name is used twice and a dead part comes back."""
    return not any(p in c.base.parts for p in c.adds)


def new_parts_are_alive_replaced_ones_dead(c: Candidate) -> bool:
    """Else rows of the output are missing or rows of the inputs stay."""
    dead = {m.p for m in c.content.markers if m.tmb is not None}
    named = {m.p for m in c.content.markers}
    return c.adds <= named - dead and c.replaces <= dead


def each_part_stands_once(c: Candidate) -> bool:
    """Else a v1 reader takes whichever line comes last."""
    return len({m.p for m in c.content.markers}) == len(c.content.markers)


def time_is_after_every_log_file(c: Candidate) -> bool:
    """Else a v1 reader, who goes by file order, revives the parts that this one buries."""
    t = c.content.t
    return all(item.name.t < t for item in c.base.listing.values())


def dead_parts_stay_dead(c: Candidate) -> bool:
    """Else a dropped part comes back when the log file that buried it is cleaned up."""
    for marker in c.content.markers:
        known = c.base.parts.get(marker.p)
        if known is not None and known.tmb is not None and marker.tmb != known.tmb:
            return False
    return True


def folded_markers_are_carried(c: Candidate) -> bool:
    """Else a live part is lost with the log file that named it, or a dead one is revived."""
    carried = {m.p for m in c.content.markers}
    purged = c.content.x.purged if c.content.x is not None else 0
    for key in c.folds:
        for marker in c.base.contents[key].markers:
            if marker.p in carried:
                continue
            state = c.base.parts[marker.p]
            if state.tmb is None or state.tmb > purged:
                return False
    return True


def log_tombstones_name_own_log_files(c: Candidate) -> bool:
    """Else clean-up deletes a log file that nobody carries."""
    return all(
        stone.p in c.folds or stone.p in c.base.log_tombstones for stone in c.content.tombstones
    ) and c.folds <= {stone.p for stone in c.content.tombstones}


def folded_log_files_were_read(c: Candidate) -> bool:
    """Else the content of a log file vanishes with it."""
    return all(key in c.base.contents for key in c.folds)


def folded_columns_are_carried(c: Candidate) -> bool:
    """Else a column is lost with the log file that named it."""
    carried, base = {fold_name(name) for name in c.content.schema}, c.meanwhile
    named = {name for key in c.folds for name in base.line(key)}
    return {fold_name(name) for name in named} - c.gone <= carried - c.gone


def properties_are_said(c: Candidate) -> bool:
    """Else they are gone with the log files that said them, and settings decide what is deleted."""
    said = {record.seq for record in c.content.properties}
    return bool(said) and max(said) >= max((r.seq for r in c.base.properties), default=0)


def schema_lines_go_together(c: Candidate) -> bool:
    """Else nobody can read the table any more; a repair may leave a conflict that was there."""
    if c.base.conflict is not None:
        return True
    stay = [k for k in standing(LogRead(c.base.listing, c.base.contents)) if k not in c.folds]
    after = c.after
    try:
        schema.union([*((k, after.line(k)) for k in stay), ("", c.content.schema)])
    except SchemaConflictError:
        return False
    return True


INVARIANTS: tuple[Callable[[Candidate], bool], ...] = (
    folded_log_files_were_read,
    replaced_parts_are_live,
    new_parts_are_new,
    new_parts_are_alive_replaced_ones_dead,
    each_part_stands_once,
    time_is_after_every_log_file,
    dead_parts_stay_dead,
    folded_markers_are_carried,
    log_tombstones_name_own_log_files,
    folded_columns_are_carried,
    properties_are_said,
    schema_lines_go_together,
)


def check(candidate: Candidate, paths: TablePaths) -> None:
    """Raise InvariantError that names the broken rule; ForeignPathError for a foreign key."""
    for key in candidate.adds:
        paths.check_part(key)
    for invariant in INVARIANTS:
        if not invariant(candidate):
            raise InvariantError(
                f"the log file to commit breaks the rule '{invariant.__name__.replace('_', ' ')}'",
                next_step="nothing was committed; report this with the log of the run",
            )
