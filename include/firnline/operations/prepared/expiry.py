"""The end of prepared changes that nobody ends: part of the orphan sweep.

A sweep lists ``_prepared/`` before it takes its base. A change whose statement is listed keeps
its parts; one whose statement is gone was committed before, and the base names its parts, or its
parts are leftovers. So at no moment is a part of a change that may still be committed taken for an
orphan.

* Nobody decided within ``keep`` (and ``orphan_grace``): the sweep discards the change.
* A discard died half-way: the sweep ends it.
* The change is in the log: its statement is removed.
* A commit was decided on and never made: the sweep closes the change, so that no new commit begins.
  Those that had begun end within ``commit_ttl``, or are behind the fence: a sweep removes the
  parts when the closing is older than ``orphan_grace`` and the fence has passed it.
* Decisions and closings without a statement, and statements that came with a copied table, are
  removed when they are older than ``orphan_grace``.

Ages are those of the objects' last-modified times, as for every orphan.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from firnline.commit.base import Base, take_base
from firnline.errors import PreparedChangeError
from firnline.log.txn_file import RunIdentity
from firnline.operations.deletion import Deleter
from firnline.operations.prepared import objects
from firnline.operations.prepared.objects import Entry
from firnline.operations.prepared.record import Prepared, Verdict, refuse_changed
from firnline.operations.prepared.run import discard_prepared, remove
from firnline.state.snapshot import Snapshot
from firnline.store.base import ObjectMeta
from firnline.table import Table

LATE = "nobody decided in time"
Step = Literal["discard", "remove", "forget", "close", "tidy"]


@dataclass(frozen=True, slots=True)
class Held:
    """The prepared changes at the beginning of a sweep."""

    entries: tuple[Entry, ...] = ()
    statements: Mapping[str, Prepared] = field(default_factory=dict)
    verdicts: Mapping[str, Verdict] = field(default_factory=dict)
    """Of those with a decision and a statement, by id."""

    @property
    def parts(self) -> frozenset[str]:
        """Return the keys of their new parts."""
        return frozenset(m.p for change in self.statements.values() for m in change.adds)

    @property
    def closed_ms(self) -> tuple[int, ...]:
        """Return the last-modified times of the closings, unix ms."""
        return tuple(e.closed.modified_ms for e in self.entries if e.closed is not None)


NOTHING_HELD = Held()


@dataclass(frozen=True, slots=True)
class Ending:
    """A step that a sweep takes for a prepared change."""

    entry: Entry
    step: Step
    change: Prepared | None = None


def held(table: Table) -> Held:
    """Return the prepared changes. Requests: 1 LIST, and 1 GET for each statement and decision.

    A statement that is removed in between was committed or discarded meanwhile; the base that is
    taken afterwards shows which. Raises LogCorruptError: then nothing is swept.
    """
    listed = tuple(objects.entries(table))
    statements = objects.statements(table, listed)
    decided = [e.id for e in listed if e.decision is not None and e.id in statements]
    read = {change: objects.read_decision(table, change) for change in decided}
    verdicts = {change: made.verdict for change, made in read.items() if made is not None}
    return Held(listed, statements, verdicts)


@dataclass(frozen=True, slots=True)
class _Judge:
    """Decides on one prepared change after the other."""

    found: Held
    snapshot: Snapshot
    began_ms: int
    grace_ms: int
    passed_ms: int

    def step(self, entry: Entry) -> Step | None:
        change = self.found.statements.get(entry.id)
        if change is None:
            # Nothing states parts of this table: what is left goes once it is old.
            return "tidy" if all(map(self._is_old, entry.objects)) else None
        if any(m.p in self.snapshot.parts for m in change.adds):
            return "forget"
        if entry.closed is not None:
            # A commit that has not seen it has a base from before it, and may sleep on it for
            # any time: the fence keeps it out.
            passed = entry.closed.modified_ms < self.passed_ms
            return "remove" if passed and self._is_old(entry.closed) else None
        if self.found.verdicts.get(entry.id) == "discard":
            return "remove"
        if entry.decision is not None:
            return "close" if self._is_old(entry.decision) else None
        return "discard" if self._is_old(entry.statement, change.keep) else None

    def _is_old(self, meta: ObjectMeta | None, least_ms: int = 0) -> bool:
        if meta is None:
            return False
        return self.began_ms - meta.modified_ms > max(self.grace_ms, least_ms)


def undecided_parts(found: Held) -> dict[str, str]:
    """Return the change by part, of those that nobody has decided to commit."""
    return {
        marker.p: change.id
        for change in found.statements.values()
        if found.verdicts.get(change.id) != "commit"
        for marker in change.adds
    }


def discard_changed(table: Table, base: Base, run: RunIdentity, why: str) -> tuple[str, ...]:
    """Discard the changes that nobody has decided on and that are refused on a base.

    After an erase: the prepared parts hold the rows that were erased, and statements may show them.

    Requests: 1 LIST, and 1 GET for each change; for each that is discarded those of
    ``discard_prepared``. Returns their ids. Raises what ``discard_prepared`` raises.
    """
    entries = [entry for entry in objects.entries(table) if entry.waits]
    discarded = []
    for change in objects.statements(table, entries).values():
        try:
            refuse_changed(change, base.snapshot, base.table.settings)
        except PreparedChangeError:
            discard_prepared(table, change.id, run, why)
            discarded.append(change.id)
    return tuple(discarded)


def plan_endings(
    found: Held, snapshot: Snapshot, *, began_ms: int, grace_ms: int, passed_ms: int
) -> tuple[Ending, ...]:
    """Decide which prepared changes end.

    Args:
        found: as listed before the snapshot.
        snapshot: read with everything.
        began_ms: wall clock when the sweep began.
        grace_ms: ``orphan_grace`` of the sweep, longer than ``commit_ttl``.
        passed_ms: when the fence's transaction was made, unix ms by the store's clock.
    """
    judge = _Judge(found, snapshot, began_ms, grace_ms, passed_ms)
    steps = ((entry, judge.step(entry)) for entry in found.entries)
    return tuple(
        Ending(entry, step, found.statements.get(entry.id))
        for entry, step in steps
        if step is not None
    )


def end(table: Table, endings: Sequence[Ending], run: RunIdentity) -> int:
    """Take the steps; return the number of prepared parts that were deleted.

    Requests: for each change 1 PUT at most, and 1 DELETE per 1,000 objects; once those of
    ``take_base`` if parts are deleted.

    Raises:
        RunFailedError: an object could not be deleted.
        OutcomeUnknownError: nobody can say whether a decision was stored.
    """
    gone = [ending for ending in endings if _is_over(table, ending, run)]
    if not gone:
        return 0
    # After the decisions: a commit that was decided on before is in this state, or never.
    snapshot = take_base(table, everything=True).snapshot
    return sum(remove(table, snapshot, one.change) for one in gone if one.change is not None)


def _is_over(table: Table, ending: Ending, run: RunIdentity) -> bool:
    """Take the first step of an ending; return True if its parts are to be deleted now."""
    entry, paths = ending.entry, table.paths
    if ending.step == "remove":
        return True
    if ending.step == "discard":
        stands = objects.decide(table, entry.id, "discard", run, why=LATE)
        return stands.verdict == "discard"
    if ending.step == "close":
        objects.decide(table, entry.id, "discard", run, why=LATE, kind="closed")
        return False
    keys = [paths.prepared(entry.id)]
    if ending.step == "tidy":
        keys = [meta.key for meta in entry.objects]
    deleter = Deleter(table, len(keys))
    deleter.delete(keys)
    return False
