"""The state of the model: a store, a clock, and processes that make one request a step."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from simulation.model.drafts import GRACE, TTL, Base
from simulation.model.files import File, Listing, Marker, Ref, Rows, Snap, read


class Process(NamedTuple):
    """A process between two of its requests. One that dies is one that goes no further."""

    at: str
    """What it does next, or how it ended."""
    base: int = 0
    """Newest transaction when it began; of an append its ``q``."""
    began: int = 0
    """Tick at which it began, by its own clock."""
    file: Ref | None = None
    """The log file or transaction in its hands."""
    out: Marker | None = None
    """The part that it has written or is about to write."""
    listing: Listing = ()
    """What it has listed under ``_log/``."""
    ripe: tuple[str, ...] = ()
    """Objects that it is about to delete, or has deleted."""
    sent: bool = False
    """True once a put whose answer was lost may have taken effect."""
    left: int = 0
    """How often it does its work again."""


class State(NamedTuple):
    """The whole world. Ticks are those of the store's clock."""

    tick: int
    txns: tuple[tuple[Ref, int], ...]
    """Objects under ``_txn/`` with last-modified time, by number."""
    log: tuple[tuple[Ref, int], ...]
    parts: tuple[tuple[str, int], ...]
    processes: tuple[Process, ...]

    def txn(self, seq: int) -> Ref | None:
        """Return the object of a transaction."""
        return next((f for f, _ in self.txns if f.seq == seq), None)

    def put_txn(self, file: Ref) -> State:
        """Return the state with a new transaction."""
        more = (*self.txns, (file, self.tick))
        return self._replace(txns=tuple(sorted(more, key=lambda item: item[0].key)))

    def put_log(self, file: Ref) -> State:
        """Return the state with a log file; the one that is there stays as it is."""
        if any(f.name == file.name for f, _ in self.log):
            return self
        more = (*self.log, (file, self.tick))
        return self._replace(log=tuple(sorted(more, key=lambda item: item[0].key)))

    def put_part(self, part: str) -> State:
        """Return the state with a new object under ``_data/``."""
        return self._replace(parts=tuple(sorted((*self.parts, (part, self.tick)))))

    def without(self, names: frozenset[str]) -> State:
        """Return the state without some parts and log files."""
        return self._replace(
            log=tuple(item for item in self.log if item[0].name not in names),
            parts=tuple(item for item in self.parts if item[0] not in names),
        )

    def now(self, number: int, process: Process) -> State:
        """Return the state with a process that has gone on."""
        before, after = self.processes[:number], self.processes[number + 1 :]
        return self._replace(processes=(*before, process, *after))


Step = tuple[str, State]
Actor = Callable[["World", State, int], Iterator[Step]]


@dataclass(frozen=True)
class Scenario:
    """Which processes there are, and how far the search goes."""

    name: str
    what: str
    actors: tuple[tuple[str, Actor], ...]
    """Name of each process, and its steps."""
    ticks: int
    parts: tuple[str, ...] = ("part 1", "part 2")
    """Parts of the table in the beginning, each with a row of its own."""
    hides: Rows = frozenset({"row 1"})
    """Rows that its deletes are for."""
    sleepers: bool = True
    """Processes may stop between a look at the clock and the put that follows it."""
    lost_answers: bool = False
    stopped_clock: bool = False
    """The clocks of processes stand still while they sleep."""
    tiers: bool = False
    """Folds may leave older merged log files as they are."""
    kept: int = 2
    """Newest transactions that clean-up keeps (``TXN_KEPT``)."""
    wait: int = TTL + GRACE
    """Ticks that the fence waits: more than appends need where ``commit_ttl`` is longer."""
    drops: bool = False
    """Rows are dropped with their partition: which ones stay is not looked at, only parts."""


@dataclass(frozen=True)
class World:
    """A scenario with rules that are switched off."""

    scenario: Scenario
    off: frozenset[str]
    read_before: dict[tuple[frozenset[Ref], bool], Snap]

    def name(self, number: int) -> str:
        """Return the name of a process."""
        return self.scenario.actors[number][0]

    def read(self, listing: Listing, *, everything: bool = False) -> Snap:
        """Return what a reader of this listing sees."""
        key = (frozenset(f for f, _ in listing), everything)
        found = self.read_before.get(key)
        if found is None:
            found = self.read_before[key] = read(key[0], self.off, everything=everything)
        return found

    def base(self, state: State, snap: Snap) -> Base:
        """Return a base that is read now."""
        return Base(state.log, snap, state.tick, self.off, self.scenario.wait)

    def late(self, state: State, process: Process, ttl: int = 1) -> bool:
        """Return True if a process has run for longer than its time to live."""
        return state.tick - process.began >= ttl


def first_state(scenario: Scenario) -> State:
    """Return a table with one transaction, which brought its parts."""
    markers = frozenset(
        Marker(part, 0, frozenset(), frozenset({f"row {part.split()[-1]}"}))
        for part in scenario.parts
    )
    first = Ref.of(File("transaction 1", 1, 0, alive=markers))
    return State(
        tick=0,
        txns=((first, 0),),
        log=((first, 0),),
        parts=tuple((part, 0) for part in scenario.parts),
        processes=tuple(Process("begin") for _ in scenario.actors),
    )
