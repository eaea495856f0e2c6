"""Streaming reads of the table: a stream delivers every appended row once.

How they begin, die and go on: ``simulation.readers``.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from firnline.read.offsets import Bounds, Offset
from firnline.read.plan import ReadOptions, ReadPlan
from firnline.read.stream import AppendStream
from firnline.table import Table
from simulation.readers import Draws, Reader, Readers
from simulation.rows import holds
from simulation.stage import Stage
from simulation.world import Violation

_WHOLE = 0.7
"""Share of the streams that start with the existing rows."""


@dataclass(kw_only=True)
class Listener(Reader[AppendStream]):
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

    @property
    def progress(self) -> object:
        """See ``Reader.progress``."""
        return self.offset, self.end


class Audience(Readers[Listener, AppendStream]):
    """The streams of a world."""

    kind, called, most, bounds = "stream", "a stream", 3, (None, None, 1, 3)
    draws = Draws(
        first=1_000_000, begin=4713, poll=4715, go_on=4716, chosen=4717, parts=4718, process=4719
    )

    def finish(self) -> None:
        """Let all streams read the rest without faults. Raises Violation for a missing row."""
        self.leave()
        for reader in self.readers:
            self._read_out(reader)
            if not reader.ended and reader.began >= 0:
                self._check_whole(reader)

    def _new(self) -> Listener:
        return Listener(whole=self.world.chance.roll(self.world.step, 4714) < _WHOLE)

    def _source(self, table: Table) -> AppendStream:
        return AppendStream(table)

    def _read(self, reader: Listener, stage: Stage, source: AppendStream, most: int | None) -> None:
        number, bounds = self.readers.index(reader), Bounds(parts=most)
        stage.actor.tell(f"reads stream {number} on from {reader.offset} {bounds}")
        if reader.offset is not None:
            self._batch(reader, source, reader.offset, bounds)
            return
        asked, began_at = self.world.step, self.world.now
        reader.offset = _kept(source.start(None if reader.whole else "now"))
        reader.asked, reader.began = asked, self.world.step
        reader.fresh = began_at

    def _batch(
        self, reader: Listener, stream: AppendStream, offset: Offset, bounds: Bounds
    ) -> None:
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

    def _check_visible(self, k: int, step: int) -> None:
        """Check that no delete had hidden the row before the batch began."""
        ledger = self.oracle.ledger
        q, p, u = ledger.born[k]
        for seq, hides in ledger.deletes.values():
            undone = k in ledger.moved or any(seq in gone for _, gone in ledger.undone.get(k, ()))
            published = ledger.published_at.get(seq, step) < step
            if seq > q and published and not undone and hides.row(k, p, u):
                raise Violation(f"a stream delivered row {k}, which transaction {seq} had deleted")

    def _check_whole(self, reader: Listener) -> None:
        """Check that it delivered all rows that it had to and that were never removed."""
        ledger, history = self.oracle.ledger, self.oracle.history
        since = reader.asked if reader.whole else reader.began
        there = [rows for step, rows in history if step <= since][-1:]
        first = there[0] if there and reader.whole else frozenset[int]()
        must = {
            k
            for k in ledger.expected() - ledger.moved
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
