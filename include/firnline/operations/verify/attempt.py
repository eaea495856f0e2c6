"""Try whether a part can be merged: as a merge does it, up to the upload."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from msgspec.structs import replace

from firnline.errors import (
    FirnlineError,
    KernelError,
    PartGoneError,
    PartSchemaError,
    PartUnreadableError,
    RowsDifferError,
    raised_elsewhere,
)
from firnline.kernel.task import KernelResult, KernelTask
from firnline.log.records import Marker
from firnline.operations.groups import PlannedGroup
from firnline.operations.kernel_tasks import RowWork, kernel_task
from firnline.state.snapshot import Snapshot
from firnline.table import Table

_OF_THE_PART = (PartGoneError, PartSchemaError, PartUnreadableError, KernelError)


_STEP = "write it anew from where its rows came from, and report this with the object"


@dataclass(frozen=True, slots=True)
class Tried:
    """The result of a merge that was tried."""

    rows: int = 0
    error: FirnlineError | None = None
    """What stands in its way, by a fault of the part."""


def not_tried(_marker: Marker, _folder: Path) -> Tried:
    """Return that nothing stands in the way of a merge, for callers that try none."""
    return Tried()


def try_merge(
    table: Table, snapshot: Snapshot, marker: Marker, folder: Path, told: Collection[str] = ()
) -> Tried:
    """Read a part with all readers as a merge does, and compare what they have read.

    Requests: 1 GET.

    Args:
        table: the table.
        snapshot: its state.
        marker: of a live part.
        folder: on local disk, for the part and what becomes of it.
        told: parts of which others tell that they have other columns than the table.

    Raises:
        StoreError, ScratchFullError: what says nothing about the part.
    """
    from firnline.kernel.merge import try_group

    group = PlannedGroup(table.paths.parse_part(marker.p).partition, (marker,))
    task = kernel_task(table, snapshot, 0, group, RowWork(op="verify", keep="true"))
    result = try_group(_plain(task), table.store, folder, table.ids, table.clock)
    error = _error_of(result, task.name)
    if isinstance(error, RowsDifferError):
        why = f"part {marker.p} is read as other rows by Arrow than by DuckDB"
        error = PartSchemaError(why, next_step=_STEP)
    if error is not None and not isinstance(error, _OF_THE_PART):
        raise error
    if isinstance(error, PartSchemaError) and marker.p in told:
        return Tried(result.rows_in)
    return Tried(result.rows_in, error)


def _plain(task: KernelTask) -> KernelTask:
    """Return the task without what has nothing to do with reading; all rows are read as values."""
    return replace(
        task,
        sort_by=(),
        stats_columns=(),
        hashes=(),
        buckets=(),
        primary_key=(),
        version=None,
        deleted=None,
        bloom_filters=None,
        proof="rows",
    )


def _error_of(result: KernelResult, name: str) -> FirnlineError | None:
    """Return the error that ended the task, without the task's name: it is about one part."""
    if result.error is None:
        return None
    step = result.error_next_step or "run it again"
    return raised_elsewhere(result.error_type, result.error.removeprefix(f"{name} "), step)
