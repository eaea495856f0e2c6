"""A restore beside an erase, and beside a merge that drops tombstones of keys.

Two small models of their own. A restore copies parts of before and commits once; other operations
commit between the copy and that.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

LEAVES_RECORDS = "a restore leaves records of erases to others"
NO_LOOK_BENEATH = "nobody looks for what a restore put beneath"


class Erased(NamedTuple):
    """A partition that was dropped, of which a row was erased then."""

    record: bool
    """Some log file has the record of the erase."""
    copied: bool
    restored: bool


class RestoreAndErase:
    """A partition that was dropped is restored, and a row of it was erased meanwhile.

    Copies keep the sequence of their source, so the record of the erase hides the row. A fold
    drops a record that no part needs: those that were dead before it do not
    (``commit.fold.delete_is_over``). So the restore brings along the records that its copies need
    (``operations.restore.plan._needed``), whatever became of them since its plan.
    """

    def __init__(self, off: frozenset[str] = frozenset()) -> None:
        self._off = off

    def start(self) -> Erased:
        """Return the table after the erase."""
        return Erased(record=True, copied=False, restored=False)

    def successors(self, state: Erased) -> Iterator[tuple[str, Erased]]:
        """Yield the steps of a restore, and of transactions that fold."""
        if not state.copied and state.record:
            yield "a restore plans, and copies what was dropped", state._replace(copied=True)
        elif not state.restored:
            brought = state.record or LEAVES_RECORDS not in self._off
            yield "the restore commits", state._replace(restored=True, record=brought)
        if state.record and not state.restored:
            folded = state._replace(record=False)
            yield "a transaction folds and drops the record: no part needs it", folded

    def wrong(self, state: Erased) -> str | None:
        """Return what is broken."""
        return "erased rows are there" if state.restored and not state.record else None


class Keyed(NamedTuple):
    """The versions of one key, and who is at work."""

    live: frozenset[str]
    merge: str
    restore: str


class RestoreAndMerge:
    """A merge of the first parts of a partition drops a tombstone of a key: it hides nothing.

    A restore that commits meanwhile brings an older row of that key back beneath it
    (``commit.keys.refuse_beneath``).
    """

    def __init__(self, off: frozenset[str] = frozenset()) -> None:
        self._off = off

    def start(self) -> Keyed:
        """Return a table with a tombstone; the older row of its key was dropped."""
        return Keyed(frozenset({"tombstone of time 2", "another key of time 3"}), "begin", "begin")

    def successors(self, state: Keyed) -> Iterator[tuple[str, Keyed]]:
        """Yield the steps of a merge and a restore."""
        old = "row of time 1"
        if state.restore == "begin" and state.merge != "done":
            yield "a restore copies the row of time 1", state._replace(restore="put")
        elif state.restore == "put" and state.merge == "done":
            refused = state._replace(restore="refused")
            yield "the restore finds that what it leaves live was replaced, and refuses", refused
        elif state.restore == "put":
            after = state._replace(live=state.live | {old}, restore="done")
            yield "the restore commits the row of time 1", after
        if state.merge == "begin" and old not in state.live:
            yield (
                "a merge reads the first parts and leaves the tombstone out: nothing is beneath",
                state._replace(merge="put"),
            )
        elif state.merge == "put":
            if old in state.live and NO_LOOK_BENEATH not in self._off:
                yield "the merge finds a part beneath, and refuses", state._replace(merge="refused")
            else:
                after = state._replace(live=state.live - {"tombstone of time 2"}, merge="done")
                yield "the merge commits without the tombstone", after

    def wrong(self, state: Keyed) -> str | None:
        """Return what is broken."""
        hidden = "tombstone of time 2" in state.live
        return None if hidden or "row of time 1" not in state.live else "a deleted key comes back"
