"""Streaming reads of the table: a stream delivers every appended row once.

They only read and take no turns from the actors: a seed runs the same without them.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial

import greenlet

from firnline.errors import FirnlineError, StreamBehindError
from firnline.read.offsets import Bounds, Offset
from firnline.read.plan import ReadOptions, ReadPlan
from firnline.read.stream import AppendStream
from simulation.oracle import Oracle
from simulation.rows import holds
from simulation.stage import Stage, stage_of
from simulation.world import Actor, Violation, World, resume

_FIRST = 1_000_000
"""First number of these actors, which no other actors have."""
_BEGIN, _POLL, _GO_ON = 0.01, 0.03, 0.6
"""Probabilities in each step that a stream begins, is read on, or gets its next answer."""
_MOST = 3


@dataclass
class Reader:
    """One stream, with the rows that it has delivered."""

    whole: bool
    """True if it starts with the existing rows; False for later appends only."""
    asked: int = -1
    """Step in which it asked for its first offset."""
    began: int = -1
    """Step in which it got its first offset."""
    offset: Offset | None = None
    end: Offset | None = None
    """End offset of a batch that was begun and not delivered yet."""
    got: set[int] = field(default_factory=set)
    fresh: int | None = None
    """Unix ms as of which it has delivered everything; None before it began."""
    ended: bool = False
    seat: tuple[Stage, AppendStream] | None = None
    """The process that reads it, which may crash."""


@dataclass
class Audience:
    """The streams of a world, of which one at a time is read."""

    world: World
    oracle: Oracle
    readers: list[Reader] = field(default_factory=list)
    _thread: greenlet.greenlet | None = None
    _actors: int = 0

    def act(self) -> None:
        """Give the current reader one answer, or let a reader begin."""
        step, chance = self.world.step, self.world.chance
        if self._thread is not None:
            if chance.roll(step, 4716) < _GO_ON:
                self._go_on(self._thread)
            return
        alive = [reader for reader in self.readers if not reader.ended]
        if len(alive) < _MOST and chance.roll(step, 4713) < _BEGIN and self.oracle.landed:
            alive.append(Reader(whole=chance.roll(step, 4714) < 0.7))
            self.readers.append(alive[-1])
        elif not alive or chance.roll(step, 4715) >= _POLL:
            return
        chosen = alive[int(chance.roll(step, 4717) * len(alive))]
        most = (None, None, 1, 3)[int(chance.roll(step, 4718) * 4)]
        self._begin(chosen, Bounds(parts=most))

    def finish(self) -> None:
        """Let all streams read the rest without faults. Raises Violation for a missing row."""
        self.leave()
        for reader in self.readers:
            before: tuple[object, ...] = ()
            while not reader.ended and before != (reader.offset, reader.end):
                before = (reader.offset, reader.end)
                self._begin(reader, Bounds())
                while self._thread is not None:
                    self._go_on(self._thread)
            if not reader.ended and reader.began >= 0:
                self._check_whole(reader)

    def leave(self) -> None:
        """End the current reader where it is."""
        thread, self._thread = self._thread, None
        if thread is not None:
            for reader in self.readers:
                if reader.seat is not None:
                    reader.seat[0].actor.dead = True
                    reader.seat = None
            resume(thread)

    def _begin(self, reader: Reader, bounds: Bounds) -> None:
        if reader.seat is None or self.world.chance.roll(self.world.step, 4719) < 0.3:
            self._actors += 1
            number, hub = _FIRST + self._actors, greenlet.getcurrent()
            r = self.world.chance.stream(number)
            actor = Actor(self.world, f"stream-{self._actors}", number, 0, hub, r)
            stage = stage_of(self.world, self.oracle, actor)
            reader.seat = stage, AppendStream(stage.table)
        self._thread = greenlet.greenlet(partial(self._play, reader, *reader.seat, bounds))

    def _go_on(self, thread: greenlet.greenlet) -> None:
        if not resume(thread):
            self._thread = None
            for reader in self.readers:
                if reader.seat is not None and reader.seat[0].actor.dead:
                    reader.seat = None

    def _play(self, reader: Reader, stage: Stage, stream: AppendStream, bounds: Bounds) -> None:
        number = self.readers.index(reader)
        stage.actor.tell(f"reads stream {number} on from {reader.offset} {bounds}")
        try:
            if reader.offset is None:
                asked, began_at = self.world.step, self.world.now
                offset = stream.start(None if reader.whole else "now")
                reader.offset = _kept(offset)
                reader.asked, reader.began = asked, self.world.step
                reader.fresh = began_at
            else:
                self._batch(reader, stream, reader.offset, bounds)
        except StreamBehindError as error:
            reader.ended = True
            self.oracle.stats["stream: StreamBehindError"] += 1
            stage.actor.tell(f"ends: {error}")
            if self._recent(reader) and "deleted before" in str(error):
                raise Violation(
                    f"a stream that had all is behind within the grace: {error}"
                ) from error
        except FirnlineError as error:
            self.oracle.stats[f"stream: {type(error).__name__}"] += 1
            stage.actor.tell(f"ends: {error}")

    def _batch(self, reader: Reader, stream: AppendStream, offset: Offset, bounds: Bounds) -> None:
        began, began_at = self.world.step, self.world.now
        again = reader.end is not None
        if reader.end is None:
            reader.end = _kept(stream.latest(offset, bounds))
        end = reader.end
        plan = stream.batch(offset, end, lambda _: ReadOptions())
        self.world.tell(f"    of {self.readers.index(reader)} to {end}")
        rows = self._rows(plan, recent=self._recent(reader))
        if rows is None:
            self.oracle.stats["stream: PartGoneError"] += 1
            reader.ended = True  # the reader gets an error and has to start again
            return
        twice = [k for k, count in Counter([*reader.got, *rows]).items() if count > 1]
        if twice:
            raise Violation(f"a stream delivered rows twice: {sorted(twice)[:5]}")
        for k in rows:
            self._check_visible(k, began)
        reader.got.update(rows)
        reader.offset, reader.end = end, None
        self.oracle.stats["streamed rows"] += len(rows)
        if not again and bounds == Bounds() and offset.initial is None:
            reader.fresh = began_at

    def _rows(self, plan: ReadPlan, *, recent: bool) -> list[int] | None:
        """Return the rows of a batch; None if a part is deleted, as is allowed after the grace."""
        task, found = plan.task, list[int]()
        for part in task.parts:
            if part.key not in self.world.objects:
                if recent:
                    raise Violation(f"a stream is to read part {part.key}, which is gone")
                return None
            hidden = "" if part.hidden < 0 else task.hidden[part.hidden]
            rows = self.oracle.part_rows[part.key]
            found += [k for k, p, u in rows if not (hidden and holds(hidden, k, p, u))]
        return found

    def _recent(self, reader: Reader) -> bool:
        """Return True if all undelivered rows are live, or dead for less than the grace.

        False if the log was lost meanwhile: then the log files were not removed by clean-up.
        """
        fresh = reader.fresh
        return (
            fresh is not None
            and fresh > self.oracle.past_from
            and self.world.now - fresh < self.oracle.times.least_grace
        )

    def _check_visible(self, k: int, step: int) -> None:
        """Check that no delete had hidden the row before the batch began."""
        ledger = self.oracle.ledger
        q, p, u = ledger.born[k]
        for seq, hides in ledger.deletes.values():
            undone = any(seq in gone for _, gone in ledger.undone.get(k, ()))
            published = ledger.published_at.get(seq, step) < step
            if seq > q and published and not undone and hides.row(k, p, u):
                raise Violation(f"a stream delivered row {k}, which transaction {seq} had deleted")

    def _check_whole(self, reader: Reader) -> None:
        """Check that it delivered all rows that it had to and that were never removed."""
        ledger, history = self.oracle.ledger, self.oracle.history
        since = reader.asked if reader.whole else reader.began
        there = [rows for step, rows in history if step <= since][-1:]
        first = there[0] if there and reader.whole else frozenset[int]()
        must = {
            k
            for k in ledger.expected()
            # Rows that a replace adds later are not an append.
            if k in first or (ledger.born_at[k] > since and k not in ledger.brought)
        }
        ends = [step for step, _ in history[1:]]
        for (_, rows), end in zip(history, [*ends, self.world.step + 1], strict=True):
            if end > since:  # rows that the table had until then
                must = {k for k in must if k in rows or ledger.born_at[k] >= end}
        if missing := must - reader.got:
            raise Violation(f"a stream never delivered rows {sorted(missing)[:5]}")


def _kept(offset: Offset) -> Offset:
    """Return the offset after a round trip through JSON, as Spark stores it."""
    plain: Mapping[str, object] = json.loads(json.dumps(offset.to_json()))
    return Offset.from_json(plain)
