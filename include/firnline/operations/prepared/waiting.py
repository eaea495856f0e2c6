"""The prepared changes that wait for somebody to commit or discard them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from firnline.log.txn_file import RunIdentity
from firnline.operations.prepared import objects
from firnline.operations.prepared.evidence import Evidence
from firnline.operations.prepared.record import Prepared
from firnline.operations.runner import Report
from firnline.table import Table


class WaitingChange(msgspec.Struct, frozen=True, kw_only=True):
    """A prepared change that waits for a decision."""

    id: str
    t: int
    """Unix milliseconds at which it was prepared."""
    seq: int
    keep: int
    run: RunIdentity
    options: dict[str, Any]
    partitions: tuple[str, ...]
    parts: int
    bytes: int
    evidence: Evidence
    begun: bool
    """Somebody has decided on it, and died: a commit or discard is ended by being run again."""


class WaitingReport(Report, frozen=True, kw_only=True):
    """The prepared changes of a table, oldest first."""

    table: str
    prepared: tuple[WaitingChange, ...]


def waiting(table: Table) -> WaitingReport:
    """Return the changes that wait for somebody to commit or discard them.

    Requests: 1 LIST, and 1 GET for each of them. Raises LogCorruptError.
    """
    found = waiting_of(table, objects.entries(table))
    return WaitingReport(table=table.settings.name, prepared=found)


def waiting_of(table: Table, found: Sequence[objects.Entry]) -> tuple[WaitingChange, ...]:
    """Return those of the listed changes that wait. Requests: 1 GET for each of them."""
    read = objects.statements(table, found)
    return tuple(_waits(read[e.id], begun=not e.waits) for e in found if e.id in read)


def _waits(change: Prepared, *, begun: bool) -> WaitingChange:
    return WaitingChange(
        id=change.id,
        t=change.t,
        seq=change.seq,
        keep=change.keep,
        run=change.run,
        options=change.options,
        partitions=change.partitions,
        parts=len(change.adds),
        bytes=change.bytes,
        evidence=change.evidence,
        begun=begun,
    )


def of_run(table: Table, run: RunIdentity) -> list[WaitingChange]:
    """Return the waiting changes of a run, by DAG id and run id. Requests: those of ``waiting``."""
    return [change for change in waiting(table).prepared if change.run.is_run_of(run)]
