"""The plan of a downgrade to a pure version 1 table: pure, printable."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any

from firnline.commit import fold, keys
from firnline.errors import UsageError
from firnline.log import dated
from firnline.log.fence import Fence
from firnline.log.records import LogContent
from firnline.operations.groups import PlannedGroup
from firnline.operations.selection import group_of
from firnline.properties.in_force import Waits, waits
from firnline.settings.load import TableSettings
from firnline.state import v1_view
from firnline.state.holds import Held
from firnline.state.snapshot import Snapshot
from firnline.types.formats import ending
from firnline.units import about_duration


@dataclass(frozen=True, slots=True)
class DowngradePlan:
    """Parts to rewrite, log files to fold; or what is left to delete afterwards."""

    groups: tuple[PlannedGroup, ...]
    """One part each: those in which a pending delete may hide rows."""
    deletes: int
    """Delete records that the log has."""
    live: int
    logs: int
    """Log files that become one."""
    is_v1: bool
    """The log is one of version 1 already."""
    left_overs: tuple[str, ...]
    """Folded log files that still exist, to be deleted once ``due``."""
    dead: tuple[str, ...]
    """Dead parts that still exist, to be deleted once ``due``."""
    due: int
    """Time from which the left-overs may be deleted, unix ms; 0 when nothing is left over."""

    @property
    def nothing_to_do(self) -> bool:
        """Return True if the table is a v1 table, with no object of ours left to delete."""
        return self.is_v1 and not self.left_overs

    @property
    def bytes_in(self) -> int:
        """Bytes to read, and at most as many to write."""
        return sum(g.bytes for g in self.groups)

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "parts_in": len(self.groups),
            "bytes_in": self.bytes_in,
            "deletes": self.deletes,
            "live": self.live,
            "logs": self.logs,
            "is_v1": self.is_v1,
            "left_overs": len(self.left_overs),
            "dead": len(self.dead),
            "due": self.due,
        }


def plan_downgrade(
    snapshot: Snapshot, settings: TableSettings, now_ms: int, checked: Collection[str] = ()
) -> DowngradePlan:
    """Decide what is to do.

    Args:
        snapshot: read with ``everything=True``.
        settings: of the table.
        now_ms: wall clock.
        checked: parts in which this run found no hidden row.

    Raises UsageError while an append may be under way that a pending delete has to hide rows of,
    and for a table with a mirror.
    """
    unfolded = [k for k in snapshot.listing if k not in snapshot.log_tombstones]
    is_v1 = all(v1_view.is_v1(snapshot.contents[key]) for key in unfolded)
    _refuse_mirror(settings)
    _refuse_held(snapshot)
    if not is_v1:
        _refuse_young_deletes(snapshot, settings, now_ms)
    others = waits(snapshot.properties, settings, now_ms)
    logs, dead, due = _left_overs(snapshot, others, now_ms) if is_v1 else ((), (), 0)
    return DowngradePlan(
        groups=() if is_v1 else _groups(snapshot, settings, checked),
        deletes=len(snapshot.records),
        live=len(snapshot.live),
        logs=len(unfolded),
        is_v1=is_v1,
        left_overs=logs,
        dead=dead,
        due=due,
    )


def _refuse_mirror(settings: TableSettings) -> None:
    if settings.mirrors:
        raise UsageError(
            f"table {settings.name} has a mirror, and clients of version 1 delete parts without "
            "waiting for its readers",
            next_step=f"{ending(settings.name, settings.mirrors)}, then {_ends(settings.mirrors)}",
        )


def _ends(mirrors: Iterable[str]) -> str:
    ends = {
        "delta": "delete the folder _delta_log",
        "iceberg": "drop the table in the Iceberg catalog without its files, then delete the "
        "folder _iceberg",
    }
    return ", and ".join(ends[name] for name in mirrors)


def _refuse_held(snapshot: Snapshot) -> None:
    """Refuse a table with legal holds, of which clients of version 1 know nothing."""
    Held.of(snapshot).refuse_any("a downgrade", instead="leave the table as it is")


def _refuse_young_deletes(snapshot: Snapshot, settings: TableSettings, now_ms: int) -> None:
    visible = [fold.visible_since(snapshot, delete) for delete in snapshot.records]
    longest = waits(snapshot.properties, settings, now_ms).append_ttl
    wait = max(visible, default=0) + longest - now_ms
    if wait > 0:
        raise UsageError(
            f"table {settings.name} has a delete that is younger than append.ttl: an append that "
            "began before it may still land, and without its record nothing would hide those rows",
            next_step=f"run it again in {about_duration(wait + 1_000)}",
        )


def _groups(
    snapshot: Snapshot, settings: TableSettings, checked: Collection[str]
) -> tuple[PlannedGroup, ...]:
    groups = []
    for partition, markers in snapshot.partitions.items():
        # With a primary key those of one time go together: what replaces one has a later name.
        units = keys.units(markers) if settings.primary_key else ([m] for m in markers)
        for unit in units:
            waiting = [m for m in unit if m.p not in checked]
            if any(not snapshot.is_settled(m, partition) for m in waiting):
                groups.append(group_of(snapshot, partition, unit))
    return tuple(groups)


def _left_overs(
    snapshot: Snapshot, others: Waits, now_ms: int
) -> tuple[tuple[str, ...], tuple[str, ...], int]:
    """Return log files and parts that are not needed once the grace of the new log file is over."""
    ours = [item for item in snapshot.listing.values() if item.name.seq == snapshot.seq > 0]
    logs = sorted(key for key in snapshot.log_tombstones if key in snapshot.listing)
    if not ours or not logs:
        # Deleted already, or v1 clients have taken over: then their clean-up deletes them.
        return (), (), 0
    dead = {p: m.tmb for p, m in snapshot.parts.items() if m.tmb is not None}
    # A run that read the table before the downgrade must not be able to commit any more either.
    wait = max(others.grace, others.commit_ttl)
    seen = ours[0].modified_ms
    due = max([seen, *(dated.since(tmb, seen, now_ms) for tmb in dead.values())]) + wait
    return tuple(logs), tuple(sorted(dead)), due


def v1_log(snapshot: Snapshot, t: int) -> tuple[LogContent, bytes]:
    """Return the whole table as one log file of version 1: its content and its bytes.

    Dead parts and folded log files stand in it as tombstones, so that the clean-up of v1 clients
    deletes them.

    Args:
        snapshot: read with ``everything=True``, no delete pending in any part.
        t: time of the log file, unix ms.
    """
    keys = tuple(sorted(k for k in snapshot.listing if k not in snapshot.log_tombstones))
    folded = fold.fold(
        snapshot,
        keys,
        t,
        own=frozenset(),
        purged=snapshot.purged,
        delete_cutoff=t,
        fence=Fence(snapshot.seq, t),  # a log of version 1 has none: nothing may be under way
    )
    content = LogContent(
        t=t,
        schema=dict(snapshot.schema),
        markers=list(folded.markers),
        tombstones=list(folded.tombstones),
    )
    return content, v1_view.encode(content)
