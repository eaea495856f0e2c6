"""Predicates that hold for every log file before it is committed.

Each docstring names the failure that the predicate prevents. They check the finished file
independently; a mistake in building it becomes an error here instead of a damaged table.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from firnline.errors import InvariantError, RowCountMismatchError, SchemaConflictError
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
    """Parts that it tombstones."""
    adds: frozenset[str]
    """Parts that it adds."""
    folds: frozenset[str]
    """Log files that it folds."""
    gone: frozenset[str] = frozenset()
    """Columns that it removes from the schema, by ``fold_name``."""

    @property
    def after(self) -> Snapshot:
        """The base with the schema changes that will be known after the commit."""
        base, carried = self.base, list(self.content.deletes)
        for key in standing(base.log):
            carried += base.contents[key].deletes if key not in self.folds else ()
        return replace(base, changes=split(carried)[1])

    @property
    def meanwhile(self) -> Snapshot:
        """The base with the schema changes known before or after the commit: one may be dropped."""
        carried = [*self.base.records.values(), *self.content.deletes]
        return replace(self.base, changes=split(carried)[1])


def rows_are_accounted_for(counts: Counts) -> None:
    """Check that rows in + added = rows out + deleted + de-duplicated + removed: none is lost.

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
    """Prevent two operations from replacing the same part, which doubles its rows."""
    return all(p in c.base.live for p in c.replaces)


def new_parts_are_new(c: Candidate) -> bool:
    """Prevent a name from being used twice, which revives a dead part."""
    return not any(p in c.base.parts for p in c.adds)


def new_parts_are_alive_replaced_ones_dead(c: Candidate) -> bool:
    """Prevent rows of the output from being missing, and rows of the inputs from staying."""
    dead = {m.p for m in c.content.markers if m.tmb is not None}
    named = {m.p for m in c.content.markers}
    return c.adds <= named - dead and c.replaces <= dead


def each_part_stands_once(c: Candidate) -> bool:
    """Prevent two lines for a part, of which a v1 reader takes the last."""
    return len({m.p for m in c.content.markers}) == len(c.content.markers)


def time_is_after_every_log_file(c: Candidate) -> bool:
    """Prevent a v1 reader, who goes by file order, from reviving the parts marked dead here."""
    t = c.content.t
    return all(item.name.t < t for item in c.base.listing.values())


def dead_parts_stay_dead(c: Candidate) -> bool:
    """Prevent a dropped part from coming back when the log file that marked it dead is deleted."""
    for marker in c.content.markers:
        before = c.base.parts.get(marker.p)
        if before is not None and before.tmb is not None and marker.tmb != before.tmb:
            return False
    return True


def folded_markers_are_carried(c: Candidate) -> bool:
    """Prevent the loss of a live part, or the revival of a dead one, with a folded log file."""
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
    """Prevent clean-up from deleting a log file whose content is not carried on."""
    return all(
        item.p in c.folds or item.p in c.base.log_tombstones for item in c.content.tombstones
    ) and c.folds <= {item.p for item in c.content.tombstones}


def folded_log_files_were_read(c: Candidate) -> bool:
    """Prevent the content of an unread log file from vanishing with it."""
    return all(key in c.base.contents for key in c.folds)


def folded_columns_are_carried(c: Candidate) -> bool:
    """Prevent the loss of a column with the log file that named it."""
    carried, base = {fold_name(name) for name in c.content.schema}, c.meanwhile
    named = {name for key in c.folds for name in base.line(key)}
    return {fold_name(name) for name in named} - c.gone <= carried - c.gone


def properties_are_said(c: Candidate) -> bool:
    """Prevent the loss of the properties, which would let settings decide what is deleted."""
    stated = {record.seq for record in c.content.properties}
    return bool(stated) and max(stated) >= max((r.seq for r in c.base.properties), default=0)


def schema_lines_go_together(c: Candidate) -> bool:
    """Prevent an unreadable table; a repair may leave a conflict that existed before."""
    if c.base.conflict is not None:
        return True
    stay = [k for k in standing(c.base.log) if k not in c.folds]
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
    """Raise InvariantError, naming the broken rule, or ForeignPathError for a foreign key."""
    for key in candidate.adds:
        paths.check_part(key)
    for invariant in INVARIANTS:
        if not invariant(candidate):
            raise InvariantError(
                f"the log file to commit breaks the rule '{invariant.__name__.replace('_', ' ')}'",
                next_step="nothing was committed; report this with the log of the run",
            )
