"""Every store call of a delete, an erase and a certificate: die before it, after it, lose its
answer.

Exhaustive, as ``test_sweep``. A delete is there wholly or not at all; whatever an erase committed
has a certificate after the next run, and that certificate can be completed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

from firnline.history import history
from firnline.kernel.local import LocalEngine
from firnline.operations.certificate import complete_certificate
from firnline.operations.certificate_model import list_certificates
from firnline.operations.cleanup import CleanupOptions, run_cleanup
from firnline.operations.delete import DeleteOptions, run_delete
from firnline.operations.erase import EraseOptions, run_erase
from firnline.operations.sweep import SweepOptions, run_sweep
from tests.crash.test_sweep import KINDS, RUN, fresh, hit, restored
from tests.support.log_tables import snapshot, v1_live
from tests.support.reading import stored_ids, visible_ids
from tests.support.world import Fault, FaultyStore, World

Operation = Callable[[World, FaultyStore, Path], None]
DAY = 86_400_000
WHERE = "id in (3, 8) or id >= 18"
"""Three parts to read, of which two hold a row, and two that go unread."""
GONE = {3, 8, *range(18, 24)}


def eager(world: World, store: FaultyStore, scratch: Path) -> None:
    table = replace(world.table, store=store)
    engine = LocalEngine(lambda: store, scratch, world.ids, world.clock)
    run_delete(table, lambda: engine, DeleteOptions(where=WHERE), RUN)


def lazy(world: World, store: FaultyStore, scratch: Path) -> None:
    table = replace(world.table, store=store)
    engine = LocalEngine(lambda: store, scratch, world.ids, world.clock)
    run_delete(table, lambda: engine, DeleteOptions(where=WHERE, mode="lazy"), RUN)


def erase(world: World, store: FaultyStore, scratch: Path) -> None:
    table = replace(world.table, store=store)
    engine = LocalEngine(lambda: store, scratch, world.ids, world.clock)
    options = EraseOptions(columns=("name",), keys=(("n3",), ("n8",)))
    run_erase(table, lambda: engine, options, RUN)


def certify(world: World, store: FaultyStore, _scratch: Path) -> None:
    table = replace(world.table, store=store)
    for listed in list_certificates(world.table):
        complete_certificate(table, listed.id, RUN)


def points(start: World, operation: Operation, scratch: Path) -> Iterator[Fault]:
    """One fault per store call of a clean run and kind."""
    world = restored(start)
    store = FaultyStore(world.store)
    operation(world, store, scratch)
    for index in range(len(store.calls)):
        for kind in KINDS:
            yield Fault(index, kind)


def check(world: World) -> None:
    """Nothing live without its object; v1 clients see the same parts; no gap in the history."""
    live = set(snapshot(world).live)
    assert live <= world.store.objects.keys()
    assert v1_live(world) == live
    sequences = sorted(world.table.paths.parse_txn(k) for k in world.store.objects if "/_txn/" in k)
    assert sequences == list(range(1, len(sequences) + 1))


def test_an_eager_delete_that_dies_at_any_store_call_is_there_wholly_or_not_at_all(
    tmp_path: Path,
) -> None:
    start, swept = fresh(), 0
    whole, less = Counter(range(24)), Counter(set(range(24)) - GONE)
    for fault in points(start, eager, tmp_path):
        world = restored(start)
        came_through = hit(world, eager, fault, tmp_path)
        check(world)
        committed = visible_ids(world.table) == less
        assert committed or visible_ids(world.table) == whole, fault
        assert stored_ids(world.table) == visible_ids(world.table), fault
        assert committed or not came_through, fault
        world.clock.advance(1000)
        eager(world, FaultyStore(world.store), tmp_path)
        check(world)
        assert visible_ids(world.table) == stored_ids(world.table) == less, fault
        again = FaultyStore(world.store)
        eager(world, again, tmp_path)
        assert not [call for call in again.calls if call.startswith("put") and "/_data/" in call]
        orphans = {k for k in world.store.objects if "/_data/" in k} - set(snapshot(world).parts)
        assert len(orphans) <= 2, fault  # outputs of the dead run, for the sweep
        swept += 1
    assert swept >= 3 * 15
    assert list(tmp_path.iterdir()) == [], "scratch is cleaned"


def test_a_lazy_delete_that_dies_at_any_store_call_is_there_wholly_or_not_at_all(
    tmp_path: Path,
) -> None:
    start, swept = fresh(), 0
    whole, less = Counter(range(24)), Counter(set(range(24)) - GONE)
    for fault in points(start, lazy, tmp_path):
        world = restored(start)
        came_through = hit(world, lazy, fault, tmp_path)
        check(world)
        assert stored_ids(world.table) == whole
        assert visible_ids(world.table) == less or not came_through, fault
        lazy(world, FaultyStore(world.store), tmp_path)
        check(world)
        assert visible_ids(world.table) == less, fault
        swept += 1
    assert swept >= 3 * 8


def test_an_erase_that_dies_at_any_store_call_is_certified_in_the_end(tmp_path: Path) -> None:
    start, swept = fresh(), 0
    whole, less = Counter(range(24)), Counter(set(range(24)) - {3, 8})
    for fault in points(start, erase, tmp_path):
        world = restored(start)
        hit(world, erase, fault, tmp_path)
        check(world)
        assert visible_ids(world.table) in (whole, less), fault
        # A partition whose output could not be put is the remainder that the error listed.
        assert stored_ids(world.table) >= visible_ids(world.table)
        world.clock.advance(1000)
        erase(world, FaultyStore(world.store), tmp_path)
        check(world)
        assert visible_ids(world.table) == stored_ids(world.table) == less, fault
        every_commit_is_certified(world, fault, tmp_path)
        swept += 1
    assert swept >= 3 * 20


def every_commit_is_certified(world: World, fault: Fault, scratch: Path) -> None:
    """Once time has passed and clean-up and sweep have run as they regularly do."""
    committed = {header.seq for header in history(world.table) if header.op == "erase"}
    world.clock.advance(4 * DAY)
    run_cleanup(world.table, CleanupOptions(), RUN)
    run_sweep(world.table, SweepOptions(), RUN)
    found = [
        complete_certificate(world.table, listed.id, RUN)
        for listed in list_certificates(world.table)
        if listed.status != "void"
    ]
    done = [c for c in found if c.replaced is not None]
    assert {c.replaced.seq for c in done if c.replaced is not None} == committed, fault
    assert {c.status for c in done} == {"complete"}, fault
    assert {c.status for c in found} <= {"complete", "void"}, fault
    key_files = {k for k in world.store.objects if k.endswith(".keys.parquet")}
    if key_files:  # of a run that died before its plan: the next erase deletes them
        erase(world, FaultyStore(world.store), scratch)
        assert not {k for k in world.store.objects if k.endswith(".keys.parquet")} & key_files


def test_a_certificate_that_dies_at_any_store_call_is_completed_by_the_next(
    tmp_path: Path,
) -> None:
    start, swept = fresh(), 0
    erase(start, FaultyStore(start.store), tmp_path)
    start.clock.advance(4 * DAY)
    less = Counter(set(range(24)) - {3, 8})
    for fault in points(start, certify, tmp_path):
        world = restored(start)
        hit(world, certify, fault, tmp_path)
        check(world)
        assert visible_ids(world.table) == less
        certify(world, FaultyStore(world.store), tmp_path)
        check(world)
        (listed,) = list_certificates(world.table)
        assert listed.status == "complete", fault
        assert visible_ids(world.table) == stored_ids(world.table) == less
        done = complete_certificate(world.table, listed.id, RUN)
        assert not {part.key for part in done.parts} & world.store.objects.keys()
        swept += 1
    assert swept >= 3 * 10
