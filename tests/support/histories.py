"""Tables with real parts in memory, and the things that happen to them in their lives."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from firnline.appends.append import Appender
from firnline.clock import SystemClock
from firnline.commit.base import take_base
from firnline.commit.transaction import Change, commit
from firnline.kernel.local import LocalEngine
from firnline.log.records import Delete
from firnline.log.txn_file import Counts, RunIdentity
from firnline.operations.cleanup.run import run_cleanup
from firnline.operations.merge.run import run_merge
from firnline.operations.operation import Work
from firnline.operations.options import CleanupOptions, MergeOptions
from firnline.state.snapshot import Snapshot, read_snapshot
from firnline.table import Table
from tests.support.world import Crashed, Fault, FaultyStore, World, make_world

RUN = RunIdentity(run_id="r")
SETTINGS: dict[str, Any] = {"partition_by": ["day"], "sort_by": ["id"]}


def table_world(**settings: Any) -> World:
    """An empty table, partitioned by ``day``."""
    return make_world(**{**SETTINGS, **settings})


def rows_from(first: int, count: int = 6) -> pa.Table:
    """Rows in two partitions; ``id`` counts on."""
    ids = list(range(first, first + count))
    return pa.table({"id": ids, "day": [i % 2 for i in ids], "name": [f"n{i}" for i in ids]})


def append(world: World, first: int, count: int = 6, by: Appender | None = None) -> None:
    """Ids from ``first`` on."""
    world.clock.advance(10)
    (by or Appender(world.table)).append(rows_from(first, count))


def writer(world: World) -> Appender:
    """One that knows the table's columns, and looks at its log no more."""
    found = Appender(world.table)
    found.knowing()
    return found


def append_to(table: Table, store: FaultyStore, first: int) -> None:
    """As ``append``, through another store."""
    Appender(replace(table, store=store)).append(rows_from(first))


def parquet_bytes(rows: pa.Table, **how: Any) -> bytes:
    """A Parquet file that says nothing of who wrote it, written as ``pq.write_table`` is told."""
    sink = io.BytesIO()
    pq.write_table(rows, sink, **how)
    return sink.getvalue()


def filled(appends: int = 4, **settings: Any) -> World:
    """Two partitions, one small part of each append in both."""
    world = table_world(**settings)
    for number in range(appends):
        append(world, 6 * number)
    return world


def merge(world: World, scratch: Path, store: FaultyStore | None = None) -> None:
    """All small parts of each partition become one."""
    world.clock.advance(10)
    used = store or FaultyStore(world.store)
    table = replace(world.table, store=used)
    engine = LocalEngine(lambda: used, scratch, world.ids, SystemClock())
    run_merge(Work(table, RUN, lambda: engine), MergeOptions())


def dies_at(world: World, call: str, kind: str, run: Callable[[FaultyStore], None]) -> bool:
    """Run until the first store call that begins with ``call``; True when it was there."""

    class Dying(FaultyStore):
        def _call(self, name: str, act: Callable[[], object], *, put: bool = False) -> object:
            if name.startswith(call) and self.fault is None:
                self.fault = Fault(len(self.calls), kind)
            return super()._call(name, act, put=put)

    store = Dying(world.store)
    try:
        run(store)
    except Crashed:
        return True
    return False


def drop(world: World, partition: str) -> None:
    """All live parts of a partition are tombstoned."""
    world.clock.advance(10)
    base = take_base(world.table)
    parts = base.snapshot.partitions.get(partition, [])
    rows = sum(m.n or 0 for m in parts)
    counts = Counts(parts_in=len(parts), rows_in=rows, rows_deleted=rows)
    commit(world.table, base, Change("drop", tuple(m.p for m in parts), (), counts), RUN)


def delete_lazily(world: World, below: int, op: str = "delete") -> None:
    """Hide rows with ``id < below``; as another operation does it."""
    world.clock.advance(10)
    where = msgspec.Raw(b'{"op":"<","column":"id","value":%d}' % below)
    record = Delete(id=world.ids.uuid7(world.clock.now), seq=0, t=0, where=where)
    change = Change(op, (), (), Counts(), deletes=(record,))
    commit(world.table, take_base(world.table), change, RUN)


def clean_up(world: World) -> None:
    """A clean-up once the grace is over."""
    world.clock.advance(world.settings.cleanup.grace + 1000)
    run_cleanup(Work(world.table, RUN), CleanupOptions())


def state(world: World) -> Snapshot:
    """The newest state; a committed transaction is published first."""
    return take_base(world.table, everything=True).snapshot


def ids_of(world: World) -> Counter[int]:
    """Ids of the rows in the live parts, by the objects; deletes are not applied."""
    found: Counter[int] = Counter()
    for path in read_snapshot(world.store, world.table.paths).live:
        table = pq.read_table(io.BytesIO(world.store.objects[path][0]), partitioning=None)
        found.update(table.column("id").to_pylist())
    return found


def lose_log(world: World) -> dict[str, tuple[bytes, int]]:
    """Take every log file away; returns them."""
    prefix = world.table.paths.log_dir
    taken = {k: v for k, v in world.store.objects.items() if k.startswith(prefix)}
    for key in taken:
        del world.store.objects[key]
    return taken
