"""Readers of the feed of changes: their rows and the changes since are the rows of now.

How they begin, die and go on: ``simulation.readers``.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from firnline.read import position as positions
from firnline.read.feed import ChangeFeed
from firnline.read.offsets import Bounds, Offset
from firnline.read.plan import ReadOptions
from firnline.read.task import ChangeTask, ReadPart, ReadTask
from firnline.table import Table
from simulation.keyed import Row
from simulation.readers import Draws, Reader, Readers
from simulation.rows import holds
from simulation.stage import Stage
from simulation.world import Violation

_EVERY = 4
"""One world of so many has such readers: they take a third of the time of a seed."""
_KEPT = 0.08
"""Share of the positions that a reader keeps, to begin there once more in the end."""


@dataclass(frozen=True)
class Place:
    """A position, and the rows that the table had there."""

    offset: Offset
    rows: frozenset[int]


@dataclass(kw_only=True)
class Follower(Reader[ChangeFeed]):
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
    kept: list[Place] = field(default_factory=list)

    @property
    def progress(self) -> object:
        """See ``Reader.progress``."""
        return self.at, self.end


class Followers(Readers[Follower, ChangeFeed]):
    """The readers of the changes of a world."""

    kind, called, most, bounds = "changes", "a reader of changes", 2, (None, None, 1, 5)
    draws = Draws(
        first=3_000_000, begin=4743, poll=4745, go_on=4746, chosen=4747, parts=4748, process=4749
    )

    def act(self) -> None:
        """See ``Readers.act``."""
        if self.world.chance.seed % _EVERY == 1:
            super().act()

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

    def _check_now(self, place: Place) -> None:
        right = self.oracle.ledger.expected()
        if place.rows != right:
            lost, more = sorted(right - place.rows), sorted(place.rows - right)
            raise Violation(f"changes add up to other rows: lost {lost[:5]}, too many {more[:5]}")

    def _new(self) -> Follower:
        return Follower()

    def _source(self, table: Table) -> ChangeFeed:
        return ChangeFeed(table)

    def _read(self, reader: Follower, stage: Stage, source: ChangeFeed, most: int | None) -> None:
        start = None if reader.at is None else reader.at.offset
        bounds = None if most is None else Bounds(parts=most)
        stage.actor.tell(f"reads changes on from {start} {bounds}")
        if reader.end is None:
            asked, at = self.world.step, self.world.now
            reader.end = _kept(source.newest(start, bounds))
            reader.asked, reader.asked_at, reader.whole = asked, at, bounds is None
        self._deliver(reader, source, start, reader.end)

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


def _kept(offset: Offset) -> Offset:
    """Return the offset after a round trip through text and JSON."""
    plain = json.loads(
        json.dumps(positions.to_json(positions.from_text(positions.to_text(offset))))
    )
    found = positions.from_json(plain)
    assert found is not None
    return found
