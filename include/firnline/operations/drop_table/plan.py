"""Decides how far the end of a table has come: pure, from its state and its newest transactions.

The first run of a drop of a table drops all parts in one transaction, the mark. A later run deletes
every object once nobody can read or write by the state of before. Whatever else was committed since
the mark cancels it: then the first run is due again. Only clean-ups and sweeps change no row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from firnline.errors import PlanChangedError, UsageError, some
from firnline.log.txn_file import TxnHeader
from firnline.operations.drop.plan import Removal, Removals, version_of
from firnline.operations.drop_table.stock import Stock
from firnline.properties.in_force import Waits
from firnline.settings.load import TableSettings
from firnline.state.holds import Held
from firnline.state.snapshot import Snapshot
from firnline.units import counted

OP, WHY = "drop", "drop-table"
"""Operation and reason of the mark, in the history."""
Phase = Literal["drop", "wait", "delete"]
_QUIET = frozenset({"cleanup", "sweep"})
_BEGINS_ANEW = frozenset({OP, "restore", "rebuild", "clone"})
"""Operations before which a mark says nothing any more."""


@dataclass(frozen=True, slots=True, repr=False)
class AllParts(Removals):
    """All live parts; a table without any is dropped, too."""

    @property
    def nothing_to_do(self) -> bool:
        """Return False: the transaction is the mark."""
        return False


@dataclass(frozen=True, slots=True)
class DropTablePlan:
    """The next step of a drop of a table, with what the table has."""

    phase: Phase
    root: str
    holds: Mapping[str, Any]
    """Totals of the live parts, and how many partitions they are in."""
    agreed: str
    """Digest of the live parts, or number of the mark: the version of the plan to agree to."""
    wait_ms: int
    """Between the two runs, ms."""
    mirrors: tuple[str, ...] = ()
    prepared: tuple[str, ...] = ()
    """Ids of prepared changes that wait for a decision."""
    certificates: int = 0
    """Certificates of erases, which go with the table."""
    named_in: str | None = None
    """Settings file that names the table."""
    catalog: str | None = None
    """Entry in an Iceberg catalog, which stays."""
    mark: int | None = None
    """Transaction that dropped all parts."""
    due_ms: int | None = None
    """Store's time after which the second run may delete, unix ms."""
    shown_by: tuple[str, ...] = ()
    """Mirrors whose readers may still use parts."""
    stock: Stock = field(default_factory=Stock)
    """Objects to delete, of a table that is due."""

    @property
    def nothing_to_do(self) -> bool:
        """Return True while the second run has to wait."""
        return self.phase == "wait"

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "phase": self.phase,
            "root": self.root,
            **self.holds,
            "mirrors": list(self.mirrors),
            "prepared": list(self.prepared),
            "certificates": self.certificates,
            "named_in": self.named_in,
            "catalog": self.catalog,
            "mark": self.mark,
            "restore_to": None if self.mark is None else self.mark - 1,
            "wait_ms": self.wait_ms,
            "due_ms": self.due_ms,
            "shown_by": list(self.shown_by),
            "left": self.stock.to_json(),
        }


def all_parts(snapshot: Snapshot) -> AllParts:
    """Return the removal of all live parts. Raises UsageError for a table with a legal hold."""
    Held.of(snapshot).refuse_any("a drop of the table")
    removals = (Removal(name, tuple(parts)) for name, parts in snapshot.partitions.items())
    return AllParts(snapshot.seq, tuple(removals))


def holds(parts: AllParts) -> dict[str, Any]:
    """Return what a table holds, as plain data."""
    return {**parts.totals(), "partitions": len(parts.removals)}


def version(snapshot: Snapshot) -> str:
    """Return a digest of the live parts: it differs once rows came or went."""
    return version_of(list(snapshot.live.values()))


def refuse_changed(snapshot: Snapshot, agreed: str | None) -> None:
    """Raise PlanChangedError if the table is not what somebody has agreed to drop."""
    if agreed is not None and agreed != version(snapshot):
        raise PlanChangedError(
            f"the live parts are others than were shown: {counted(len(snapshot.live), 'part')} now",
            next_step="stop what appends and merges, and run it again; nothing was dropped",
        )


def refuse_other_phase(plan: DropTablePlan, agreed: str | None) -> None:
    """Raise PlanChangedError if somebody has agreed to something else than to delete all of it."""
    if agreed not in (None, plan.agreed):
        raise PlanChangedError(
            "the table was dropped since it was shown, and its objects are to be deleted now",
            next_step="look at it again with --dry-run; nothing was deleted",
        )


def find_mark(headers: Sequence[TxnHeader]) -> TxnHeader | None:
    """Return the transaction of the first run, unless another drop or a restore came after it.

    Args:
        headers: newest transactions, newest first.
    """
    newest = next((each for each in headers if each.op in _BEGINS_ANEW), None)
    return newest if newest is not None and (newest.op, newest.why) == (OP, WHY) else None


def is_quiet_since(headers: Sequence[TxnHeader], mark: TxnHeader) -> bool:
    """Return True if nothing that changes rows was committed after the mark."""
    return all(each.op in _QUIET for each in headers if each.seq > mark.seq)


def refuse_live(snapshot: Snapshot, name: str, mark: TxnHeader) -> None:
    """Raise UsageError that names the parts which came after the mark."""
    if snapshot.live:
        raise UsageError(
            f"{name} was dropped by transaction {mark.seq}, and has "
            f"{counted(len(snapshot.live), 'part')} that came since: {some(sorted(snapshot.live))}",
            next_step=f"find out what appends to it, and keep its rows; or drop their partitions "
            f"with `firnline drop {name}`, after which a drop of the table begins anew",
        )


def wait_of(others: Waits) -> int:
    """Return how long the second run waits after the first, ms.

    Readers have the grace, and what began before the first run lands within its time to live.
    """
    return max(others.grace, others.append_ttl, others.commit_ttl)


def refuse_name(given: str | None, name: str) -> None:
    """Raise UsageError unless the name that was given is exactly that of the table."""
    if given is None:
        raise UsageError(
            f"a drop of {name} needs the name of the table, and nobody has typed it",
            next_step=f"give --name {name} beside --yes, after a look with --dry-run",
        )
    if given != name:
        raise UsageError(
            f"{given!r} was given as the name of the table, and it is {name!r}; nothing was "
            "changed",
            next_step="look with --dry-run which table this is, and give its exact name",
        )


def catalog_entry(settings: TableSettings) -> str | None:
    """Return the entry of the Iceberg mirror in its catalog, as text; None without such a mirror.

    Where the settings do not say its place, so does the text.
    """
    if settings.iceberg is None:
        return None
    if settings.iceberg.place is None:
        return "an entry in an Iceberg catalog that these settings do not name"
    catalog, entry = settings.iceberg.place
    return f"{entry.replace('{table}', settings.name)} in the Iceberg catalog {catalog}"
