"""Every store call of a clean-up and of a sweep: die before it, die after it, lose its answer.

Exhaustive, in memory and on real stores: the calls of a clean run are counted, then each of them
is hit once in each way. The table must read as before, by everybody; after the operation ran
again, nothing must be left over.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from firnline.base import take_base
from firnline.clock import SystemClock
from firnline.errors import FirnlineError, StoreUnavailableError
from firnline.log import codec
from firnline.log.records import LogContent, Marker
from firnline.log.txn_file import Counts, RunIdentity
from firnline.operations.cleanup import CleanupOptions, run_cleanup
from firnline.operations.sweep import SweepOptions, run_sweep
from firnline.settings import TableSettings
from firnline.snapshot import read_snapshot
from firnline.store.access import StoreAccess
from firnline.store.base import Deleted
from firnline.store.probe import forget
from firnline.table import Table, open_table
from firnline.transaction import Change, commit
from firnline_dev.s3server import S3Server, StoreRoot
from tests.support.world import Crashed, Fault, FaultyStore, SetClock, make_world

RUN = RunIdentity(run_id="r")
KINDS = ["before", "after", "lost"]
DAY = 86_400_000
Operation = Callable[[Table], object]


@dataclass
class Faulty(FaultyStore):
    """Any call can lose its answer: what it did is done, and the store is silent."""

    def _call(self, name: str, act: Callable[[], Any], *, put: bool = False) -> Any:
        index = len(self.calls)
        answer = super()._call(name, act, put=put)
        if self._lost(index) and not put and name != "delete":
            raise StoreUnavailableError(f"no answer to {name}", next_step="try again")
        return answer

    def _lost(self, index: int) -> bool:
        return self.fault is not None and (self.fault.at, self.fault.kind) == (index, "lost")

    def delete_many(self, keys: Iterable[str]) -> Iterator[Deleted]:
        wanted, index = list(keys), len(self.calls)
        answers = self._call("delete", lambda: list(self.inner.delete_many(wanted)))
        if self._lost(index):
            error = StoreUnavailableError("no answer in time", next_step="try again")
            answers = [Deleted(key, error) for key in wanted]
        yield from answers


def append(table: Table, *partitions: str) -> list[str]:
    now = table.clock.now_ms()
    keys = [table.paths.data_part(p, table.ids.uuid7(now)) for p in partitions]
    for key in keys:
        table.store.put_new(key, b"rows")
    markers = [Marker(p=key, b=4, t=now, n=1, q=0) for key in keys]
    log = codec.encode(LogContent(t=now, schema={"a": "INTEGER"}, markers=markers))
    table.store.put_new(table.paths.append_log(now, f"w-{table.ids.uuid7(now)}"), log)
    return keys


def merge(table: Table, keys: list[str]) -> list[str]:
    base = take_base(table)
    rows = len(keys)
    new = table.paths.data_part("d=1", table.ids.uuid7(table.clock.now_ms()))
    table.store.put_new(new, b"rows")
    marker = Marker(p=new, b=4, t=0, n=rows, q=base.seq)
    counts = Counts(parts_in=rows, parts_out=1, rows_in=rows, rows_out=rows)
    commit(table, base, Change("merge", tuple(keys), (marker,), counts), RUN)
    return [new]


def lay_out(table: Table) -> None:
    """Two merges, appends after them, and what a dead run left behind."""
    keys = append(table, "d=1") + append(table, "d=1", "d=2")
    merge(table, merge(table, keys) + append(table, "d=1"))
    append(table, "d=2")
    for kind in ("d=1", "d=3"):
        orphan = table.paths.data_part(kind, table.ids.uuid7(table.clock.now_ms()))
        table.store.put_new(orphan, b"half")


def clean_up(table: Table) -> None:
    run_cleanup(table, CleanupOptions(), RUN)


def sweep(table: Table) -> None:
    run_sweep(table, SweepOptions(), RUN)


CALLS: dict[Operation, int] = {clean_up: 13, sweep: 7}
"""Of a run without a fault, the probe's four included."""


def live(table: Table) -> set[str]:
    found = set(read_snapshot(table.store, table.paths).live)
    assert found == set(read_snapshot(table.store, table.paths, everything=True).live)
    return found


def objects(table: Table) -> set[str]:
    return {meta.key for meta in table.store.list(table.paths.data_dir)}


def hit(table: Table, operation: Operation, fault: Fault) -> bool:
    """Run with a fault; True when the operation came through all the same."""
    try:
        operation(replace(table, store=Faulty(table.store, fault)))
    except (Crashed, FirnlineError):
        return False
    return True


def sweep_all(start: Callable[[], Table], operation: Operation) -> int:
    """Hit every call in every way; how often."""
    table = start()
    expected = live(table)
    forget()
    counted = Faulty(table.store)
    operation(replace(table, store=counted))
    rest = objects(table)
    count = 0
    for index in range(len(counted.calls)):
        for kind in KINDS:
            table = start()
            forget()
            hit(table, operation, Fault(index, kind))
            assert live(table) == expected, (index, kind, counted.calls[index])
            assert expected <= objects(table)
            operation(table)
            assert live(table) == expected
            assert objects(table) == rest, (index, kind, "something is left over")
            again = Faulty(table.store)
            operation(replace(table, store=again))
            assert not [c for c in again.calls if c.startswith(("put", "delete"))], (index, kind)
            count += 1
    return count


@pytest.mark.parametrize("operation", [clean_up, sweep])
def test_dying_at_any_call_leaves_a_readable_table_and_the_rerun_finishes(
    operation: Operation,
) -> None:
    origin = make_world()
    lay_out(origin.table)
    origin.clock.advance(4 * DAY)

    def start() -> Table:
        world = make_world()
        world.store.objects = dict(origin.store.objects)
        world.clock.now, world.clock.elapsed = origin.clock.now, origin.clock.elapsed
        world.ids.count = origin.ids.count
        return world.table

    assert sweep_all(start, operation) == 3 * CALLS[operation]


@pytest.mark.parametrize("operation", [clean_up, sweep])
def test_the_same_on_real_stores(
    operation: Operation, store_root: StoreRoot, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    places = iter(range(10_000))
    origin = opened(store_root, "origin/t")
    lay_out(origin)
    folder = folder_of(store_root, request)

    def start() -> Table:
        # The objects are files in both kinds of store; copied with their times, as a day went by.
        name = f"{next(places)}/t" if store_root.kind == "file" else "origin/t"
        target = folder / name
        if store_root.kind == "s3":
            restore(saved, target)
        else:
            shutil.copytree(folder / "origin/t", target)
        return later(opened(store_root, name))

    saved = tmp_path / "saved"
    shutil.copytree(folder / "origin/t", saved)
    assert sweep_all(start, operation) == 3 * CALLS[operation]


def restore(saved: Path, target: Path) -> None:
    shutil.rmtree(target)
    shutil.copytree(saved, target)


def folder_of(root: StoreRoot, request: pytest.FixtureRequest) -> Path:
    """Where the store keeps its objects."""
    if root.kind == "file":
        return Path(root.url.removeprefix("file://"))
    server: S3Server = request.getfixturevalue("s3_server")
    return server.data_dir / root.url.removeprefix("s3://")


def opened(root: StoreRoot, name: str) -> Table:
    access = StoreAccess.from_env(root.env) if root.kind == "s3" else None
    settings = TableSettings.model_validate({"name": "t", "root": f"{root.url}/{name}"})
    return open_table(settings, access)


def later(table: Table) -> Table:
    """Four days later."""
    return replace(table, clock=SetClock(now=SystemClock().now_ms() + 4 * DAY))
