"""Readers that die and go on where they were, of which one at a time is read.

They only read and take no turns from the actors: a seed runs the same without them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import ClassVar, Generic, TypeVar

import greenlet

from firnline.errors import FirnlineError, StreamBehindError
from firnline.table import Table
from simulation.oracle import Oracle
from simulation.stage import Stage, stage_of
from simulation.world import Actor, Violation, World, resume

_BEGIN, _POLL, _GO_ON = 0.01, 0.03, 0.6
"""Probabilities in each step that a reader begins, is read on, or gets its next answer."""
_CRASH = 0.3
"""Probability that another process reads on."""
Source = TypeVar("Source")


@dataclass(kw_only=True)
class Reader(Generic[Source]):
    """One reader; what it has read is told by its kind."""

    fresh: int | None = None
    """Unix ms as of which it has everything; None before it began."""
    ended: bool = False
    seat: tuple[Stage, Source] | None = None
    """The process that reads it, which may crash."""

    @property
    def progress(self) -> object:
        """Return where it is; equal if it has nothing more to read."""
        raise NotImplementedError


@dataclass(frozen=True)
class Draws:
    """Names of the decisions of a kind of readers: each of them is drawn on its own."""

    first: int
    """First number of these actors, which no other actors have."""
    begin: int
    poll: int
    go_on: int
    chosen: int
    parts: int
    process: int


AnyReader = TypeVar("AnyReader", bound=Reader)  # type: ignore[type-arg] # of any source


@dataclass
class Readers(ABC, Generic[AnyReader, Source]):
    """The readers of one kind in a world."""

    world: World
    oracle: Oracle
    readers: list[AnyReader] = field(default_factory=list)
    _thread: greenlet.greenlet | None = None
    _actors: int = 0

    kind: ClassVar[str]
    """Begins the names of their actors and statistics."""
    called: ClassVar[str]
    """A reader in the words of a violation."""
    draws: ClassVar[Draws]
    most: ClassVar[int]
    """Maximum readers at a time."""
    bounds: ClassVar[Sequence[int | None]]
    """Maximum parts of a batch, of which one is drawn; None: all."""

    @abstractmethod
    def finish(self) -> None:
        """Let all readers read the rest without faults, and check what they have then."""

    @abstractmethod
    def _new(self) -> AnyReader:
        """Return a reader that begins in this step."""

    @abstractmethod
    def _source(self, table: Table) -> Source:
        """Return what a process reads."""

    @abstractmethod
    def _read(self, reader: AnyReader, stage: Stage, source: Source, most: int | None) -> None:
        """Read one batch of at most so many parts."""

    def act(self) -> None:
        """Give the current reader one answer, or let a reader begin."""
        step, chance, draws = self.world.step, self.world.chance, self.draws
        if self._thread is not None:
            if chance.roll(step, draws.go_on) < _GO_ON:
                self._go_on(self._thread)
            return
        alive = [reader for reader in self.readers if not reader.ended]
        begins = len(alive) < self.most and chance.roll(step, draws.begin) < _BEGIN
        if begins and self.oracle.landed:
            alive.append(self._new())
            self.readers.append(alive[-1])
        elif not alive or chance.roll(step, draws.poll) >= _POLL:
            return
        chosen = alive[int(chance.roll(step, draws.chosen) * len(alive))]
        bound = self.bounds[int(chance.roll(step, draws.parts) * len(self.bounds))]
        self._begin(chosen, bound)

    def leave(self) -> None:
        """End the current reader where it is."""
        thread, self._thread = self._thread, None
        if thread is not None:
            for reader in self.readers:
                if reader.seat is not None:
                    reader.seat[0].actor.dead = True
                    reader.seat = None
            resume(thread)

    def _read_out(self, reader: AnyReader) -> None:
        """Read until nothing more comes."""
        before: object = None
        while not reader.ended and before != reader.progress:
            before = reader.progress
            self._begin(reader, None)
            while self._thread is not None:
                self._go_on(self._thread)

    def _begin(self, reader: AnyReader, most: int | None) -> None:
        chance, draws = self.world.chance, self.draws
        if reader.seat is None or chance.roll(self.world.step, draws.process) < _CRASH:
            self._actors += 1
            number, hub = draws.first + self._actors, greenlet.getcurrent()
            name = f"{self.kind}-{self._actors}"
            actor = Actor(self.world, name, number, 0, hub, chance.stream(number))
            stage = stage_of(self.world, self.oracle, actor)
            reader.seat = stage, self._source(stage.table)
        stage, source = reader.seat
        self._thread = greenlet.greenlet(partial(self._play, reader, stage, source, most))

    def _go_on(self, thread: greenlet.greenlet) -> None:
        if not resume(thread):
            self._thread = None
            for reader in self.readers:
                if reader.seat is not None and reader.seat[0].actor.dead:
                    reader.seat = None

    def _play(self, reader: AnyReader, stage: Stage, source: Source, most: int | None) -> None:
        try:
            self._read(reader, stage, source, most)
        except StreamBehindError as error:
            reader.ended = True
            self.oracle.stats[f"{self.kind}: StreamBehindError"] += 1
            stage.actor.tell(f"ends: {error}")
            if self._recent(reader) and "deleted before" in str(error):
                raise Violation(
                    f"{self.called} that had all is behind within the grace: {error}"
                ) from error
        except FirnlineError as error:
            self.oracle.stats[f"{self.kind}: {type(error).__name__}"] += 1
            stage.actor.tell(f"ends: {error}")

    def _recent(self, reader: AnyReader) -> bool:
        """Return True if everything undelivered is live, or dead for less than the grace.

        False if the log was lost meanwhile: then the log files were not removed by clean-up.
        """
        fresh = reader.fresh
        return (
            fresh is not None
            and fresh > self.oracle.past_from
            and self.world.now - fresh < self.oracle.times.least_grace
        )
