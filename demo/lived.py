"""Tables with a past of some days, made within seconds: for pictures of the page.

Each operation is the real one, by a clock that is set; the times of the files in the folder are set
after it, since readers judge by them how long something has been there.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

from firnline.appends.append import Appender
from firnline.ids import SystemIds
from firnline.kernel.local import LocalEngine
from firnline.log.txn_file import RunIdentity
from firnline.operations.cleanup.run import run_cleanup
from firnline.operations.drop.run import run_drop
from firnline.operations.merge.run import run_merge
from firnline.operations.operation import Work
from firnline.operations.options import (
    CleanupOptions,
    DropOptions,
    Evolution,
    LazyOptions,
    MergeOptions,
    RestoreOptions,
)
from firnline.operations.restore.run import run_restore
from firnline.operations.schema.lazy import run_lazily
from firnline.settings.load import TableSettings
from firnline.store.client import open_store
from firnline.table import Table, open_table

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
_HOURS = 3
"""Between two appends."""
_CARRIERS = ("AA", "B6", "DL", "EV", "UA", "WN")


@dataclass
class SetClock:
    """A clock that is set by hand."""

    now: int
    elapsed: int = 0

    def now_ms(self) -> int:
        """Return the time that it is set to."""
        return self.now

    def elapsed_ms(self) -> int:
        """Return the time that has passed."""
        return self.elapsed

    def sleep(self, seconds: float) -> None:
        """Let time pass at once."""
        self.go(int(1000 * seconds))

    def go(self, ms: int) -> None:
        """Let time pass."""
        self.now += ms
        self.elapsed += ms


@dataclass
class Past:
    """The past of one table.

    Args:
        settings: of the table, with a root in a local folder.
        folder: that root.
        clock: set to its begin.
    """

    settings: TableSettings
    folder: Path
    clock: SetClock
    rows: int = 400
    """Rows of an append."""
    _delay: str = "dep_delay"
    _chance: random.Random = field(default_factory=lambda: random.Random(1))
    _seen: set[Path] = field(default_factory=set)

    @property
    def table(self) -> Table:
        """The table, by this clock."""
        return replace(open_table(self.settings), clock=self.clock)

    def append(self) -> None:
        """Append flights of this day and late ones of the day before."""
        now = self.clock.now
        times = [now - self._chance.randrange(30 * HOUR_MS) for _ in range(self.rows)]
        columns: dict[str, Any] = {
            "ts": pa.array([datetime.fromtimestamp(t / 1000, UTC) for t in times]),
            "carrier": [self._chance.choice(_CARRIERS) for _ in times],
            "flight": [self._chance.randrange(1, 4000) for _ in times],
            self._delay: [self._chance.gauss(12, 30) for _ in times],
        }
        self._did(lambda: Appender(self.table).append(pa.table(columns)))

    def merge(self) -> None:
        """Merge what is worth it."""
        scratch = self.folder.parent / "scratch"
        scratch.mkdir(exist_ok=True)
        engine = LocalEngine(
            partial(open_store, self.settings.root), scratch, SystemIds(), self.clock
        )
        run = self._run("merge", "scheduled")
        self._did(lambda: run_merge(Work(self.table, run, lambda: engine), MergeOptions()))

    def clean_up(self) -> None:
        """Delete what was replaced longer ago than the grace."""
        run = self._run("tombstone_cleanup", "scheduled")
        self._did(lambda: run_cleanup(Work(self.table, run), CleanupOptions()))

    def drop(self, partition: str) -> None:
        """Remove a partition, by a person."""
        run = self._run("remove_partitions", "manual", user="bo", approved_by="carol")
        options = DropOptions(partitions=(partition,))
        self._did(lambda: run_drop(Work(self.table, run), options))

    def restore(self, to: int) -> None:
        """Bring back what was there after a transaction."""
        run = self._run("restore", "manual", user="ana")
        self._did(lambda: run_restore(Work(self.table, run), RestoreOptions(to=to)))

    def rename_delay(self, new: str) -> None:
        """Rename a column, to be applied by merges."""
        person = RunIdentity(run_id="by hand", user="ana", host="laptop")
        options = LazyOptions(evolution=Evolution(rename={self._delay: new}))
        self._delay = new
        self._did(lambda: run_lazily(Work(self.table, person), options))

    def days(self, count: int, *, merged: bool = True, cleaned: bool = True) -> None:
        """Let days pass with their appends, a merge at noon and midnight, and a clean-up."""
        for _ in range(count):
            for hour in range(0, 24, _HOURS):
                self.append()
                if merged and hour % 12 == 9:
                    self.merge()
                if cleaned and hour == 0:
                    self.clean_up()
                self.clock.go(_HOURS * HOUR_MS)

    def _run(self, dag: str, kind: str, user: str = "", approved_by: str = "") -> RunIdentity:
        at = datetime.fromtimestamp(self.clock.now / 1000, UTC).isoformat()
        dag_id, run_id = f"{dag}__{self.settings.name}", f"{kind}__{at}"
        return RunIdentity(dag_id=dag_id, run_id=run_id, user=user, approved_by=approved_by)

    def _did(self, act: Callable[[], object]) -> None:
        act()
        for path in self.folder.rglob("*"):
            if path not in self._seen and path.is_file():
                os.utime(path, (self.clock.now / 1000,) * 2)
                self._seen.add(path)
        self.clock.go(1_000)
