"""A prepared change: parts that are written and not committed, and what a person decides on.

Three objects under ``_prepared/``, each created once (docs/format.md, "Prepared changes"): the
statement names the parts, the decision says whether they are committed or discarded, and a closing
ends a commit that was decided on and never made.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal, TypeVar

import msgspec

from firnline.commit.transaction import PLANNED_BY
from firnline.errors import ForeignPathError, LogCorruptError, PreparedChangeError
from firnline.log.codec import UNREADABLE
from firnline.log.records import Marker
from firnline.log.txn_file import Counts, RunIdentity
from firnline.next_steps import UPGRADE_TO_TOUCH
from firnline.operations.prepared.evidence import Evidence
from firnline.paths import TablePaths
from firnline.settings.load import TableSettings
from firnline.state.snapshot import Snapshot
from firnline.units import DAY_MS

VERSION = 1
KEEP_MS = 7 * DAY_MS
"""Time for which an undecided change is kept without a time of its own, ms."""

Verdict = Literal["commit", "discard"]


class Standing(msgspec.Struct, frozen=True, omit_defaults=True):
    """A live part of a partition that a prepared change rewrites."""

    p: str
    """Key."""
    d: tuple[str, ...] = ()
    """Ids of the deletes that are applied in it or pending for it, sorted."""


class Prepared(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The statement of a prepared change: all that its commit needs."""

    version: int = VERSION
    id: str
    """UUIDv7."""
    t: int
    """Unix milliseconds at which it was prepared."""
    op: str
    seq: int
    """Newest transaction of the state that it was made from."""
    keep: int = KEEP_MS
    """Milliseconds for which sweeps leave it alone while nobody decides."""
    run: RunIdentity = RunIdentity()
    options: dict[str, Any] = {}
    """What was asked for: condition or query, partitions, and the rest."""
    replaces: tuple[str, ...]
    adds: tuple[Marker, ...]
    counts: Counts
    partitions: tuple[str, ...]
    base: tuple[Standing, ...]
    """Every part that was live in these partitions."""
    properties: dict[str, Any] = {}
    """Properties of the table that the new parts depend on."""
    evidence: Evidence

    @property
    def bytes(self) -> int:
        """Bytes of the new parts."""
        return sum(m.b for m in self.adds)


class Decision(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The end of a prepared change: whoever creates it first decides."""

    version: int = VERSION
    id: str
    """UUIDv7 of this decision."""
    t: int
    verdict: Verdict
    run: RunIdentity = RunIdentity()
    why: str = ""


def is_elsewhere(change: Prepared, paths: TablePaths) -> bool:
    """Return True for a statement that came with a copied or renamed table.

    Its keys are of the old place: nothing under them belongs to this table.
    """
    keys = [*change.replaces, *(m.p for m in change.adds)]
    try:
        for key in keys:
            paths.check_part(key)
    except ForeignPathError:
        return True
    return False


def decode(key: str, data: bytes) -> Prepared:
    """Decode a statement. Raises LogCorruptError."""
    return _decoded(key, data, Prepared)


def decode_decision(key: str, data: bytes) -> Decision:
    """Decode a decision or a closing. Raises LogCorruptError."""
    return _decoded(key, data, Decision)


RecordT = TypeVar("RecordT", Prepared, Decision)


def _decoded(key: str, data: bytes, kind: type[RecordT]) -> RecordT:
    try:
        record = msgspec.json.decode(data, type=kind)
    except UNREADABLE as error:
        raise LogCorruptError(
            f"{key} of a prepared change does not read: {error}",
            next_step="restore the object from a backup, or delete it: the sweep then takes the "
            "parts that were prepared for leftovers",
        ) from None
    if record.version != VERSION:
        raise LogCorruptError(
            f"{key} of a prepared change has format version {record.version}, this firnline reads "
            f"version {VERSION}",
            next_step=UPGRADE_TO_TOUCH,
        )
    return record


def standing(snapshot: Snapshot, partitions: Iterable[str]) -> tuple[Standing, ...]:
    """Return the live parts of partitions with the deletes that concern them."""
    return tuple(
        _standing(snapshot, marker, partition)
        for partition in partitions
        for marker in sorted(snapshot.partitions.get(partition, ()), key=lambda m: m.p)
    )


def _standing(snapshot: Snapshot, marker: Marker, partition: str) -> Standing:
    pending = (d.id for d in snapshot.pending_deletes(marker, partition))
    return Standing(marker.p, tuple(sorted({*pending, *(marker.d or ())})))


def planned_by(settings: TableSettings) -> dict[str, Any]:
    """Return the properties on which the new parts of a change depend, as plain data."""
    return plain({name: getattr(settings, name, None) for name in PLANNED_BY})


def plain(values: Mapping[str, object]) -> dict[str, Any]:
    """Return values as they are read from JSON, to be compared with those of a statement."""
    data = msgspec.json.encode(dict(values), enc_hook=str)
    return msgspec.json.decode(data, type=dict[str, Any])


def refuse_changed(change: Prepared, snapshot: Snapshot, settings: TableSettings) -> None:
    """Raise PreparedChangeError unless its partitions are as they were when it was prepared.

    Only appends may have come, and only to a table without a primary key: their rows stand beside
    those of the change and do not decide which of them a reader sees.

    Args:
        change: the prepared change.
        snapshot: the state to commit on.
        settings: in force there.
    """
    why = _changed(change, snapshot, settings)
    if why is not None:
        raise PreparedChangeError(
            f"prepared change {change.id} is not committed: {why} since it was prepared on "
            f"transaction {change.seq}",
            next_step=f"discard it (`firnline rewrite {settings.name} --discard {change.id}`) and "
            "prepare it again, on the rows as they are now",
        )


def _changed(change: Prepared, snapshot: Snapshot, settings: TableSettings) -> str | None:
    """Return what has changed, to be followed by "since"; None if nothing has."""
    if planned_by(settings) != change.properties:
        return "the table's key or layout was changed"
    newer = next((c for c in snapshot.changes if c.seq > change.seq), None)
    if newer is not None:
        return f"transaction {newer.seq} changed the table's columns"
    now = {each.p: each for each in standing(snapshot, change.partitions)}
    for each in change.base:
        standing_now = now.pop(each.p, None)
        if standing_now is None:
            return f"part {each.p} was replaced or dropped"
        if standing_now.d != each.d:
            return f"rows of part {each.p} were deleted"
    return _came(now, snapshot, settings) or _hidden(change, snapshot)


def _came(more: Mapping[str, Standing], snapshot: Snapshot, settings: TableSettings) -> str | None:
    for key in more:
        if settings.primary_key:
            return f"part {key} came to a partition of it"
        if snapshot.live[key].o is not None:
            return f"a transaction brought part {key} to a partition of it"
    return None


def _hidden(change: Prepared, snapshot: Snapshot) -> str | None:
    for marker in change.adds:
        partition = snapshot.paths.parse_part(marker.p).partition
        pending = snapshot.pending_deletes(marker, partition)
        if pending:
            return f"transaction {pending[0].seq} deleted rows that it would bring"
    return None
