"""Every operation on a small table with real rows: how it begins, what it does, how it ends.

The sweeps of crashes and of faults on the wire go through this one list.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from firnline.appends.append import Appender
from firnline.kernel.merge import merge_group
from firnline.kernel.task import KernelResult, KernelTask
from firnline.log.txn_file import RunIdentity
from firnline.operations.cleanup.run import run_cleanup
from firnline.operations.merge.run import run_merge
from firnline.operations.operation import Work
from firnline.operations.options import CleanupOptions, MergeOptions, SweepOptions
from firnline.operations.sweep.run import run_sweep
from firnline.table import Table
from tests.support.histories import rows_from
from tests.support.world import Crashed, Fault, FaultyStore, SetClock

DAY = 86_400_000
PARTITIONED: dict[str, Any] = {
    "partition_by": ["day"],
    "sort_by": ["id"],
    "merge": {"min_inputs": 2},
}
Ids = frozenset[int]


@dataclass(frozen=True)
class Call:
    """One run of an operation."""

    table: Table
    scratch: Path
    known: Any = None
    """What was seen of the table before the first try."""
    attempt: int = 1

    @property
    def run(self) -> RunIdentity:
        return RunIdentity(dag_id="d", run_id="r", try_number=self.attempt)

    def engine(self) -> Sequential:
        """Kernels whose store calls are those of the run."""
        return Sequential(self.table, self.scratch)


@dataclass(frozen=True)
class Sequential:
    """One kernel after the other in the caller's thread: store calls come in a fixed order."""

    table: Table
    scratch: Path
    application_id: str = ""

    def run(self, tasks: Sequence[KernelTask]) -> Iterator[KernelResult | None]:
        table = self.table
        for task in tasks:
            yield merge_group(task, table.store, self.scratch, table.ids, table.clock)


@dataclass(frozen=True)
class Scenario:
    """An operation and what has to hold whatever becomes of it."""

    name: str
    prepare: Callable[[Call], object]
    """Lays the table out; what it returns is ``known`` to every run."""
    run: Callable[[Call], object]
    before: Ids
    """Ids of the rows that are visible before; none while the log is lost."""
    after: Ids
    settings: Mapping[str, Any] = field(default_factory=lambda: PARTITIONED)
    whole: bool = True
    """Takes effect in all partitions at once or in none; else in each wholly or not at all."""
    hides: bool = False
    """Live parts may hold more rows than are visible."""
    op: str = ""
    transactions: tuple[int, ...] = ()
    """How many of this ``op`` there may be in the end, however often it was run (a merge that
    could not read one partition leaves it to the next). Empty: every run may commit one."""
    refused: str = ""
    """A run that took effect is refused with this text when it is run again."""
    repeats: bool = True
    """False for an append: who runs it again appends again."""
    idle: bool = False
    """Run once more after its end, it writes nothing."""
    deletes: bool = False
    """Once it is done, exactly the data objects are left that a clean run leaves."""
    sound: Callable[[Call], None] = lambda _: None
    """Asserts what else holds right after a fault."""
    settled: Callable[[Call], None] = lambda _: None
    """Asserts what else holds once it has been run to its end."""
    later: Callable[[Call], None] | None = None
    """What is done four days later so that nothing dangles; None: clean-up and sweep."""

    def __str__(self) -> str:
        return self.name


def ids(*spans: Iterable[int]) -> Ids:
    """The union."""
    return frozenset().union(*spans)


def advance(table: Table, ms: int) -> None:
    """Time passes."""
    assert isinstance(table.clock, SetClock)
    table.clock.advance(ms)


def append(table: Table, rows: pa.Table) -> None:
    """One append, a little later than the last."""
    advance(table, 10)
    Appender(table).append(rows)


def fill(table: Table, appends: int = 2, first: int = 0) -> None:
    """Appends of six rows each, in two partitions."""
    for number in range(appends):
        append(table, rows_from(first + 6 * number))


def tidy(call: Call) -> None:
    """What runs every day."""
    run_cleanup(Work(call.table, call.run), CleanupOptions())
    run_sweep(Work(call.table, call.run), SweepOptions())


def merge(call: Call) -> None:
    run_merge(Work(call.table, call.run, call.engine), MergeOptions())


def dies_before(call: Call, what: str, operation: Callable[[Call], object]) -> None:
    """Run until the first store call that begins with ``what``, and die there."""

    class Dying(FaultyStore):
        def _next(self, name: str) -> str:
            if name.startswith(what) and self.fault is None:
                self.fault = Fault(len(self.calls), "before")
            return super()._next(name)

    store = Dying(call.table.store)
    with suppress(Crashed):
        operation(replace(call, table=replace(call.table, store=store)))
    assert store.fault is not None, f"no call {what}"
