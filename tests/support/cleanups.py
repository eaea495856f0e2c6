"""Clean-ups and sweeps of tables made of log files alone, and what has to hold after them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from firnline.errors import StoreError
from firnline.log.txn_file import RunIdentity
from firnline.operations.cleanup.run import CleanupReport, run_cleanup
from firnline.operations.operation import Work
from firnline.operations.options import CleanupOptions, SweepOptions
from firnline.operations.sweep.run import SweepReport, run_sweep
from firnline.state.snapshot import read_snapshot
from firnline.store.base import Deleted
from tests.support.log_tables import snapshot, v1_live
from tests.support.world import FaultyStore, World

RUN = RunIdentity(dag_id="tombstone_cleanup__t", run_id="manual-1")
GRACE = 86_400_000
DAY = 86_400_000


def clean_up(world: World, store: Any = None, **options: Any) -> CleanupReport:
    """One clean-up; ``store`` stands in for the world's."""
    table = world.table if store is None else replace(world.table, store=store)
    return run_cleanup(Work(table, RUN), CleanupOptions(**options))


def sweep(world: World, store: Any = None, **options: Any) -> SweepReport:
    """One orphan sweep; ``store`` stands in for the world's."""
    table = world.table if store is None else replace(world.table, store=store)
    return run_sweep(Work(table, RUN), SweepOptions(**options))


def check(world: World, live: Iterable[str]) -> None:
    """These parts are live for every reader, and each has its object."""
    wanted = set(live)
    assert set(snapshot(world).live) == wanted
    assert set(read_snapshot(world.store, world.table.paths).live) == wanted
    assert v1_live(world) == wanted
    assert wanted <= world.store.objects.keys()


def keys_under(world: World, folder: str) -> set[str]:
    """Keys of the objects under ``_log``, ``_data``, ``_txn`` or ``_probe``."""
    return {k for k in world.store.objects if k.startswith(f"{world.table.paths.prefix}/{folder}/")}


@dataclass
class Refusing(FaultyStore):
    """A store that answers some deletes with an error; ``effect``: the object is gone all the
    same, and only the answer is lost."""

    refuse: frozenset[str] = field(default_factory=frozenset)
    effect: bool = False

    def delete_many(self, keys: Iterable[str]) -> Iterator[Deleted]:
        wanted = list(keys)
        self.calls.append("delete")
        sent = [k for k in wanted if self.effect or k not in self.refuse]
        list(self.inner.delete_many(sent))
        for key in wanted:
            error = StoreError(f"{key} is locked", next_step="unlock it")
            yield Deleted(key, error if key in self.refuse else None)
