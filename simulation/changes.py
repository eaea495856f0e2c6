"""Readers of the feed of changes: their rows and the changes since are the rows of now.

Like streams they only read and take no turns from the actors.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial

import greenlet

from firnline.errors import FirnlineError, StreamBehindError
from firnline.read import position as positions
from firnline.read.feed import ChangeFeed
from firnline.read.offsets import Bounds, Offset
from firnline.read.plan import ReadOptions
from firnline.read.task import ChangeTask, ReadPart, ReadTask
from simulation.keyed import Row
from simulation.oracle import Oracle
from simulation.rows import holds
from simulation.stage import Stage, stage_of
from simulation.world import Actor, Violation, World, resume

_FIRST = 3_000_000
"""First number of these actors, which no other actors have."""
_BEGIN, _POLL, _GO_ON = 0.01, 0.03, 0.6
"""Probabilities in each step that a reader begins, is read on, or gets its next answer."""
_EVERY = 4
"""One world of so many has such readers: they take a third of the time of a seed."""
_MOST = 2
_KEPT = 0.08
"""Share of the positions that a reader keeps, to begin there once more in the end."""


@dataclass(frozen=True)
class Place:
    """A position, and the rows that the table had there."""

    offset: Offset
    rows: frozenset[int]


@dataclass
class Follower:
    """One reader, with the rows that its changes add up to."""

    at: Place | None = None
    asked: int = -1
    """Step in which it asked for the end of its batch."""
    asked_at: int = 0
    """Unix ms of that step."""
    end: Offset | None = None
    """End of a batch that was begun and not delivered yet."""
    whole: bool = False
    """That end was the newest state."""
    fresh: int | None = None
    """Unix ms as of which it has all changes; None before its first rows."""
    ended: bool = False
    kept: list[Place] = field(default_factory=list)
    seat: tuple[Stage, ChangeFeed] | None = None
    """The process that reads it, which may crash."""


@dataclass
class Followers:
    """The readers of the changes of a world, of which one at a time is read."""

    world: World
    oracle: Oracle
    readers: list[Follower] = field(default_factory=list)
    _thread: greenlet.greenlet | None = None
    _actors: int = 0

    def act(self) -> None:
        """Give the current reader one answer, or let a reader begin."""
        step, chance = self.world.step, self.world.chance
        if chance.seed % _EVERY != 1:
            return
        if self._thread is not None:
            if chance.roll(step, 4746) < _GO_ON:
                self._go_on(self._thread)
            return
        alive = [reader for reader in self.readers if not reader.ended]
        if len(alive) < _MOST and chance.roll(step, 4743) < _BEGIN and self.oracle.landed:
            alive.append(Follower())
            self.readers.append(alive[-1])
        elif not alive or chance.roll(step, 4745) >= _POLL:
            return
        chosen = alive[int(chance.roll(step, 4747) * len(alive))]
        most = (None, None, 1, 5)[int(chance.roll(step, 4748) * 4)]
        self._begin(chosen, None if most is None else Bounds(parts=most))

    def finish(self) -> None:
        """Let all readers read the rest without faults, and from places where they were."""
        self.leave()
        for reader in self.readers:
            self._read_out(reader)
            now = reader.at
            if reader.ended or now is None:
                continue
            self._check_now(now)
            for place in reader.kept:
                again = Follower(at=place)
                self._read_out(again)
                if not again.ended and again.at is not None:
                    self._check_now(again.at)

    def leave(self) -> None:
        """End the current reader where it is."""
        thread, self._thread = self._thread, None
        if thread is not None:
            for reader in self.readers:
                if reader.seat is not None:
                    reader.seat[0].actor.dead = True
                    reader.seat = None
            resume(thread)

    def _read_out(self, reader: Follower) -> None:
        before: object = None
        while not reader.ended and before != (reader.at, reader.end):
            before = (reader.at, reader.end)
            self._begin(reader, None)
            while self._thread is not None:
                self._go_on(self._thread)

    def _check_now(self, place: Place) -> None:
        right = self.oracle.ledger.expected()
        if place.rows != right:
            lost, more = sorted(right - place.rows), sorted(place.rows - right)
            raise Violation(f"changes add up to other rows: lost {lost[:5]}, too many {more[:5]}")

    def _begin(self, reader: Follower, bounds: Bounds | None) -> None:
        if reader.seat is None or self.world.chance.roll(self.world.step, 4749) < 0.3:
            self._actors += 1
            number, hub = _FIRST + self._actors, greenlet.getcurrent()
            r = self.world.chance.stream(number)
            actor = Actor(self.world, f"changes-{self._actors}", number, 0, hub, r)
            stage = stage_of(self.world, self.oracle, actor)
            reader.seat = stage, ChangeFeed(stage.table)
        self._thread = greenlet.greenlet(partial(self._play, reader, *reader.seat, bounds))

    def _go_on(self, thread: greenlet.greenlet) -> None:
        if not resume(thread):
            self._thread = None
            for reader in self.readers:
                if reader.seat is not None and reader.seat[0].actor.dead:
                    reader.seat = None

    def _play(
        self, reader: Follower, stage: Stage, feed: ChangeFeed, bounds: Bounds | None
    ) -> None:
        start = None if reader.at is None else reader.at.offset
        stage.actor.tell(f"reads changes on from {start} {bounds}")
        try:
            if reader.end is None:
                asked, at = self.world.step, self.world.now
                reader.end = _kept(feed.newest(start, bounds))
                reader.asked, reader.asked_at, reader.whole = asked, at, bounds is None
            self._deliver(reader, feed, start, reader.end)
        except StreamBehindError as error:
            reader.ended = True
            self.oracle.stats["changes: StreamBehindError"] += 1
            stage.actor.tell(f"ends: {error}")
            if self._recent(reader) and "deleted before" in str(error):
                raise Violation(
                    f"a reader of changes that had all is behind within the grace: {error}"
                ) from error
        except FirnlineError as error:
            self.oracle.stats[f"changes: {type(error).__name__}"] += 1
            stage.actor.tell(f"ends: {error}")

    def _deliver(
        self, reader: Follower, feed: ChangeFeed, start: Offset | None, end: Offset
    ) -> None:
        tasks = feed.changes(start, end, lambda _: ReadOptions())
        self.world.tell(f"    to {end}: {len(tasks)} steps")
        rows = set[int]() if reader.at is None else set(reader.at.rows)
        for task in tasks:
            if not self._apply(reader, task, rows):
                self.oracle.stats["changes: PartGoneError"] += 1
                reader.ended = True
                return
        reader.at, reader.end = Place(end, frozenset(rows)), None
        if not reader.whole:
            return
        reader.fresh = reader.asked_at
        if reader.asked > 0 and not self.oracle.was_true(rows, reader.asked):
            right = self.oracle.ledger.expected()
            lost, more = sorted(right - rows), sorted(rows - right)
            raise Violation(
                f"changes add up to rows that the table never had: now {lost[:5]} are not there, "
                f"and {more[:5]} are"
            )
        if self.world.chance.roll(self.world.step, 4750) < _KEPT:
            reader.kept.append(reader.at)

    def _apply(self, reader: Follower, task: ChangeTask, rows: set[int]) -> bool:
        """Apply a step to the rows; False if a part is deleted, as is allowed after the grace."""
        for part in (part for read in task.reads for part in read.parts):
            if part.key not in self.world.objects:
                if self._recent(reader):
                    raise Violation(f"changes are to be read from {part.key}, which is gone")
                return False
        before, after = (Counter(self._shown(side)) for side in (task.before, task.after))
        gone, new = before - after, after - before
        self.oracle.stats["changed rows"] += gone.total() + new.total()
        for k in gone.elements():
            if k not in rows:
                raise Violation(f"a {task.reason} takes row {k} away, which is not there")
            rows.discard(k)
        for k in new.elements():
            if k in rows:
                raise Violation(f"a {task.reason} brings row {k}, which is there")
            rows.add(k)
        return True

    def _shown(self, reads: Iterable[ReadTask]) -> Iterator[int]:
        for read in reads:
            if not read.primary_key or self.oracle.keyed is None:
                yield from (k for part in read.parts for k, _, _ in self._visible(read, part))
                continue
            for number in sorted({part.partition for part in read.parts}):
                mine = sorted(
                    (p for p in read.parts if p.partition == number), key=lambda p: p.place
                )
                yield from self.oracle.keyed.shown(self._visible(read, part) for part in mine)

    def _visible(self, read: ReadTask, part: ReadPart) -> list[Row]:
        hidden = "" if part.hidden < 0 else read.hidden[part.hidden]
        where = read.where_early if read.primary_key else read.where
        return [
            row
            for row in self.oracle.part_rows[part.key]
            if not (hidden and holds(hidden, *row)) and (not where or holds(where, *row))
        ]

    def _recent(self, reader: Follower) -> bool:
        """Return True if everything undelivered is live, or dead for less than the grace."""
        fresh = reader.fresh
        return (
            fresh is not None
            and fresh > self.oracle.past_from
            and self.world.now - fresh < self.oracle.times.least_grace
        )


def _kept(offset: Offset) -> Offset:
    """Return the offset after a round trip through text and JSON."""
    plain = json.loads(
        json.dumps(positions.to_json(positions.from_text(positions.to_text(offset))))
    )
    found = positions.from_json(plain)
    assert found is not None
    return found
