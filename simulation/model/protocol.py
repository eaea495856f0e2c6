"""The model of the protocol: its steps, and what must be true in every state."""

from __future__ import annotations

from collections.abc import Iterator

from simulation.model.files import Listing, Ref, Snap, parts_of
from simulation.model.judged import judged
from simulation.model.world import Process, Scenario, State, Step, World, first_state

ENDED = frozenset({"done", "failed", "nothing", "unknown", "acknowledged", "dead", "complete"})


class Protocol:
    """A scenario that can be searched (``search.Model``).

    Args:
        scenario: who does what.
        off: rules that are switched off.
    """

    def __init__(self, scenario: Scenario, off: frozenset[str] = frozenset()) -> None:
        self._world = World(scenario, off, {})
        self._scenario = scenario

    def start(self) -> State:
        """Return the table in the beginning."""
        return first_state(self._scenario)

    def successors(self, state: State) -> Iterator[Step]:
        """Yield each step of each process, and that time passes."""
        for number, (_, act) in enumerate(self._scenario.actors):
            yield from act(self._world, state, number)
        if state.tick < self._scenario.ticks:
            yield "a day passes", self._later(state)

    def _later(self, state: State) -> State:
        """Return the state a tick later, without differences of times that nobody can see.

        What is older than the fence waits is as old as anything has to be. Only the age of an
        object that no log file names is compared with those of transactions.
        """
        tick, far = state.tick + 1, self._scenario.wait
        snap = self._world.read(state.log, everything=True)
        parts, oldest = state.parts, 0
        if all(p.at != "list" for p in state.processes):
            named = {*snap.live, *snap.dead}
            parts = tuple((part, 0 if part in named else at) for part, at in parts)
            oldest = tick - far if all(part in named for part, _ in parts) else 0
        processes = tuple(
            p._replace(
                # A sweep compares with the age of objects; the others ask whether they are late.
                began=p.began if p.at == "list" else max(p.began, tick - 1),
                listing=tuple((f, max(at, tick - 1)) for f, at in p.listing),
            )
            if p.at not in ENDED
            else p
            for p in state.processes
        )
        return State(
            tick=tick,
            txns=tuple((f, max(at, oldest)) for f, at in state.txns),
            log=tuple((f, max(at, tick - far)) for f, at in state.log),
            parts=parts,
            processes=processes,
        )

    def wrong(self, state: State) -> str | None:
        """Return what is broken."""
        world = self._world
        snap = world.read(state.log)
        following = [f for f, _ in state.txns if f.seq > snap.seq]
        if not snap.whole or len(following) > 1 or any(f.seq > snap.seq + 1 for f in following):
            return "a log that is whole counts as lost"
        listing = (*state.log, *((f, state.tick) for f in following))
        snap = world.read(listing)
        return (
            self._objects(state, snap)
            or self._rows(state, snap)
            or self._reported(state, snap)
            or self._agree(state, snap, listing)
            or _folded_twice(state, snap)
        )

    def _objects(self, state: State, snap: Snap) -> str | None:
        there = {part for part, _ in state.parts}
        for part in snap.live:
            if part not in there:
                return f"a live part has no object: {part}"
        for p in state.processes:
            if p.at.startswith("complete, and"):
                return f"an erase is certified as {p.at}"
            if p.at == "reading" and state.tick == p.began and not there.issuperset(p.ripe):
                return "a reader loses a part within its grace"
        return None

    def _rows(self, state: State, snap: Snap) -> str | None:
        seen, hidden, maybe = snap.visible(), self._hidden(state), self._tried(state)
        for row, q in self._acknowledged(state):
            times = seen.get(row, 0)
            if times > 1:
                return f"{row} is there {times} times"
            if times == 0 and not self._scenario.drops and q >= maybe.get(row, 0):
                return f"{row} is lost"
        for row, times in seen.items():
            if times > 1:
                return f"{row} is there {times} times"
            if hidden.get(row, 0) > self._q(state, row):
                return f"{row} is there, and a delete of it was reported as done"
        return None

    def _q(self, state: State, row: str) -> int:
        for p in state.processes:
            if p.file is not None and not p.file.seq and p.out is not None and row in p.out.rows:
                return p.base
        return 0

    def _acknowledged(self, state: State) -> Iterator[tuple[str, int]]:
        for part in self._scenario.parts:
            yield f"row {part.split()[-1]}", 0
        for p in state.processes:
            if p.at == "acknowledged" and p.out is not None:
                yield from ((row, p.base) for row in p.out.rows)

    def _hidden(self, state: State) -> dict[str, int]:
        """Return the rows that deletes which were reported as done hide, with their numbers."""
        files = (p.file for p in state.processes if p.at in ("publish", "done"))
        return _by_row(files, own=True)

    def _tried(self, state: State) -> dict[str, int]:
        """Return the rows that a delete may hide."""
        return _by_row(f for f, _ in (*state.txns, *state.log)) | _by_row(
            p.file for p in state.processes
        )

    def _reported(self, state: State, snap: Snap) -> str | None:
        for p, (name, _) in zip(state.processes, self._scenario.actors, strict=True):
            if p.at in ("publish", "done") and p.out is not None and p.file is not None:
                killed = {m.part for m, at in p.file.file.dead if at == p.file.seq}
                if killed & {*snap.live}:
                    return f"{name} was reported as done, and what it has replaced is live"
        return None

    def _agree(self, state: State, snap: Snap, listing: Listing) -> str | None:
        more = self._world.read(listing, everything=True)
        if more.live.keys() != snap.live.keys():
            return "who reads all log files sees other parts than who reads those that count"
        return self._rebuilt(state, snap, listing)

    def _rebuilt(self, state: State, snap: Snap, listing: Listing) -> str | None:
        """Compare with a rebuild of what is left of the log: all of it, or nothing."""
        for left in (listing, ()):
            counting = judged(state._replace(log=left), self._world.off)
            late = {*snap.behind} if left else set()
            files = [*counting, *(f for f, _ in left if f not in late)]
            live, dead = parts_of(files, [], 0, self._world.off)
            if snap.live.keys() & dead.keys() or not live.keys() <= snap.live.keys():
                return "a rebuild sees other parts than a reader"
        return None


def _folded_twice(state: State, snap: Snap) -> str | None:
    folded = {s.file for f, _ in state.log for s in f.file.stones if f not in snap.behind}
    for f in snap.unfolded:
        if f.name in folded:
            return f"a stream delivers rows twice: {f} was folded, and counts as unfolded again"
    return None


def _by_row(files: Iterator[Ref | None], *, own: bool = False) -> dict[str, int]:
    """Return the rows that records of these files hide, with the highest number of one.

    ``own``: only records of the transaction itself, and none that it has folded.
    """
    found: dict[str, int] = {}
    for file in files:
        for record in () if file is None else file.file.records:
            if own and file is not None and record.seq != file.seq:
                continue
            for row in record.rows:
                found[row] = max(record.seq, found.get(row, 0))
    return found


__all__ = ["Process", "Protocol"]
