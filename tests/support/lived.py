"""Tables that have lived some days in memory: real appends, merges and clean-ups by a set clock."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa

from firnline.appends.append import Appender
from firnline.kernel.local import LocalEngine
from firnline.log.txn_file import RunIdentity
from firnline.operations.cleanup.run import run_cleanup
from firnline.operations.drop.ttl import run_ttl
from firnline.operations.merge.run import run_merge
from firnline.operations.operation import Work
from firnline.operations.options import CleanupOptions, MergeOptions, TtlOptions
from firnline.store.probe import forget
from firnline.units import DAY_MS
from tests.support.world import MemoryStore, World

MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS
NIGHT = 3
"""Hour of the day, UTC, of clean-ups and TTL."""


@dataclass
class Life:
    """What happens to a table; the clock only moves forward.

    Each run is a process of its own: it probes its store.
    """

    world: World
    scratch: Path
    rows: int = 40
    of_appends: dict[str, int] = field(
        default_factory=lambda: dict.fromkeys(("get", "put", "list", "delete"), 0)
    )
    """Requests of appends, by kind."""
    parts: int = 0
    """Parts that appends have written."""
    bytes: int = 0
    """Of these parts."""
    chance: Random = field(default_factory=lambda: Random(7))

    def append(self, rows: pa.Table | None = None) -> None:
        """Append rows; without any some of the last 30 hours, most of them of this one."""
        before = self.world.store.counters.as_dict()
        result = Appender(self.world.table).append(self._some() if rows is None else rows)
        self.parts += len(result.parts)
        self.bytes += result.bytes
        after = self.world.store.counters.as_dict()
        for kind in self.of_appends:
            self.of_appends[kind] += after[kind] - before[kind]

    def _some(self) -> pa.Table:
        now = self.world.clock.now
        ages = [self.chance.choice((0, 0, 0, 29)) * HOUR_MS for _ in range(self.rows)]
        times = [datetime.fromtimestamp((now - age) / 1000, UTC) for age in ages]
        columns: dict[str, Any] = {
            "ts": pa.array(times, pa.timestamp("us", "UTC")),
            "id": [self.chance.randrange(10**9) for _ in times],
        }
        return pa.table(columns)

    def merge(self) -> None:
        """Merge what is worth it."""
        run_merge(self._work("merge"), MergeOptions())

    def clean_up(self) -> None:
        """Delete what is dead for longer than the grace."""
        run_cleanup(self._work("tombstone_cleanup"), CleanupOptions())

    def expire(self) -> None:
        """Drop what is past its time to live."""
        run_ttl(self._work("ttl"), TtlOptions())

    def days(self, count: float, interval_ms: int = HOUR_MS) -> None:
        """Let days pass: an append each interval, 20 minutes after a merge at each multiple of it.

        At three each night a clean-up, and the TTL if the table has one.
        """
        clock = self.world.clock
        end = clock.now + round(count * DAY_MS)
        while clock.now < end:
            tick = (clock.now // interval_ms + 1) * interval_ms
            self.until(tick + 20 * MINUTE_MS, interval_ms)
            self.append()

    def until(self, end: int, interval_ms: int = HOUR_MS) -> None:
        """Let time pass until ``end``, with maintenance and without appends."""
        clock = self.world.clock
        while (tick := (clock.now // interval_ms + 1) * interval_ms) < end:
            clock.advance(tick - clock.now)
            self.merge()
            if tick // HOUR_MS % 24 == NIGHT:
                clock.advance(MINUTE_MS)
                if self.world.settings.ttl is not None:
                    self.expire()
                clock.advance(MINUTE_MS)
                self.clean_up()
        clock.advance(end - clock.now)

    def requests(self) -> dict[str, int]:
        """Return the requests of maintenance, by kind."""
        counts = self.world.store.counters.as_dict()
        return {kind: counts[kind] - self.of_appends[kind] for kind in self.of_appends}

    def _work(self, operation: str) -> Work:
        forget()
        world = self.world

        def store() -> MemoryStore:
            own = MemoryStore(world.clock)
            own.objects = world.store.objects
            return own

        engine = LocalEngine(store, self.scratch, world.ids, world.clock)
        run = RunIdentity(dag_id=f"{operation}__t", run_id=f"scheduled__{world.clock.now}")
        return Work(world.table, run, lambda: engine)
