"""Moves and clones that die at any store call: nobody takes it for a table until it is whole."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from firnline.commit.base import take_base
from firnline.errors import (
    FirnlineError,
    ForeignPathError,
    LogCorruptError,
    LogLostError,
    UsageError,
)
from firnline.log.txn_file import RunIdentity
from firnline.operations.cleanup.run import run_cleanup
from firnline.operations.clone.run import run_clone
from firnline.operations.delete.run import run_delete
from firnline.operations.operation import Work
from firnline.operations.options import (
    CleanupOptions,
    CloneOptions,
    DeleteOptions,
    RebuildOptions,
    RelocateOptions,
    SweepOptions,
    VerifyOptions,
)
from firnline.operations.rebuild.run import run_rebuild
from firnline.operations.relocate.run import run_relocate
from firnline.operations.sweep.run import run_sweep
from firnline.operations.verify.run import run_verify
from firnline.state.snapshot import read_snapshot
from firnline.table import Table
from tests.support.effort import sample
from tests.support.moving import beside, moved
from tests.support.operations import erase
from tests.support.places import MemoryPlace, Saved
from tests.support.reading import visible_ids
from tests.support.scenarios import PARTITIONED, Call, advance, fill, merge
from tests.support.sweeping import some_deaths
from tests.support.world import Crashed, FaultyStore

SETTINGS = {**PARTITIONED, "checkpoint": {"min_parts": 1}}


def lived(place: MemoryPlace, scratch: Path) -> Table:
    """Merged twice, a pending delete, an erase, checkpoints, and appends since."""
    table = place.new(SETTINGS)
    call = Call(table, scratch)
    fill(table, 3)
    merge(call)
    fill(table, 2, first=18)
    erase(call)
    merge(call)
    fill(table, 1, first=30)
    run_delete(Work(table, call.run, call.engine), DeleteOptions(where="id < 2", mode="lazy"))
    fill(table, 1, first=36)
    advance(table, 1000)
    return table


@pytest.fixture
def copy(tmp_path: Path) -> Callable[[], Table]:
    """Gives the table that somebody copied, always the same."""
    place = MemoryPlace()
    saved = place.save(moved(lived(place, tmp_path), "copy"))
    return lambda: place.restored(saved)


def is_foreign(table: Table) -> bool:
    """Whether everybody refuses it; else it is whole. Nothing in between passes."""
    run = Call(table, Path()).run
    everybody: list[Callable[[], object]] = [
        lambda: read_snapshot(table.store, table.paths),
        lambda: read_snapshot(table.store, table.paths, everything=True),
        lambda: read_snapshot(table.store, table.paths, checkpoint_above=0),
        lambda: take_base(table),
        lambda: run_cleanup(Work(table, run), CleanupOptions()),
        lambda: run_sweep(Work(table, run), SweepOptions()),
    ]
    before = MemoryPlace().save(table)
    refused = 0
    for read in everybody:
        try:
            read()
        except ForeignPathError:
            refused += 1
    if not refused:
        return False
    assert refused == len(everybody), "some take it for a table"
    with pytest.raises(LogCorruptError, match="firnline relocate"):
        run_rebuild(Work(table, run), RebuildOptions(force=True))
    assert not run_verify(Work(table), VerifyOptions()).healthy
    assert MemoryPlace().save(table).objects == before.objects
    return True


def is_whole(table: Table) -> None:
    assert visible_ids(table) == Counter([2, *range(4, 42)]) - Counter({5: 1})
    assert len(read_snapshot(table.store, table.paths, everything=True).listing) > 3
    found = run_verify(Work(table), VerifyOptions(deep=True))
    assert found.healthy, found.findings


def relocate(table: Table) -> None:
    run_relocate(Work(table), RelocateOptions())


def test_a_relocation_that_dies_at_any_store_call_comes_right_when_it_is_run_again(
    copy: Callable[[], Table],
) -> None:
    table = copy()
    store = FaultyStore(table.store)
    relocate(replace(table, store=store))
    assert not is_foreign(table)
    is_whole(table)
    puts = [at for at, call in enumerate(store.calls) if call.startswith("put")]
    assert len(puts) >= 15
    for fault in some_deaths(store.calls, puts[-1].__eq__, "relocation"):
        table = copy()
        original = _original(MemoryPlace().save(table))
        with suppress(Crashed, FirnlineError):
            relocate(replace(table, store=FaultyStore(table.store, fault)))
        if is_foreign(table):
            advance(table, 1000)
            relocate(table)
        with pytest.raises(UsageError, match="nothing to do"):
            relocate(table)
        is_whole(table)
        assert _original(MemoryPlace().save(table)) == original


def _original(saved: Saved) -> dict[str, bytes]:
    return {k: data for k, (data, _) in saved.objects.items() if k.startswith("lake/")}


@pytest.mark.parametrize("seed", sample(range(20), 8, "moving"))
def test_whatever_is_written_before_the_last_object_nobody_reads_it(
    copy: Callable[[], Table], seed: int
) -> None:
    """Requests under way at once end in any order."""
    table = copy()
    before = dict(table.store.objects)  # type: ignore[attr-defined] # it lies in memory
    store = FaultyStore(table.store)
    relocate(replace(table, store=store))
    last = [call for call in store.calls if call.startswith("put")][-1].removeprefix("put ")
    after = dict(table.store.objects)  # type: ignore[attr-defined]
    chance = random.Random(seed)
    for key in before.keys() - after.keys():  # checkpoints
        if chance.random() < 0.5:
            after[key] = before[key]
    mixed = {
        key: before[key] if key == last or chance.random() < 0.5 else value
        for key, value in after.items()
        if key in before
    }
    table.store.objects = mixed  # type: ignore[attr-defined]
    assert is_foreign(table)
    relocate(table)
    is_whole(table)


# --- clones ---------------------------------------------------------------------------------------


def clone(table: Table, target: Table, *, with_log: bool) -> None:
    run_clone(Work(table, RunIdentity(run_id="r")), CloneOptions(history=with_log), target=target)


def is_no_table(target: Table) -> bool:
    """Whether readers find nothing, or refuse it; else it is whole."""
    try:
        listing = read_snapshot(target.store, target.paths).listing
    except ForeignPathError:
        return is_foreign(target)
    except LogLostError:
        listing = {}  # committed, and not published
    if listing:
        return False
    assert not list(target.store.list(target.paths.log_dir))
    run = RunIdentity(run_id="r")
    for act in (
        lambda: run_sweep(Work(target, run), SweepOptions()),
        lambda: run_cleanup(Work(target, run), CleanupOptions()),
    ):
        before = dict(target.store.objects)  # type: ignore[attr-defined] # it lies in memory
        with suppress(FirnlineError):
            act()
        left = target.store.objects  # type: ignore[attr-defined]
        assert {k for k in before if "/_data/" in k} <= left.keys()
    return True


def complete(table: Table, target: Table, *, with_log: bool) -> None:
    """As the errors say."""
    try:
        clone(table, target, with_log=with_log)
    except UsageError as error:
        if "`firnline relocate` completes it" not in error.next_step:
            raise
        relocate(target)


@pytest.mark.parametrize("with_log", [False, True])
def test_a_clone_that_dies_at_any_store_call_comes_right_when_it_is_run_again(
    tmp_path: Path, with_log: bool
) -> None:
    place = MemoryPlace()
    saved = place.save(lived(place, tmp_path))
    source = _original(saved)

    def fresh() -> tuple[Table, Table]:
        table = place.restored(saved)
        return table, beside(table, "c")

    table, target = fresh()
    store = FaultyStore(table.store)
    clone(replace(table, store=store), replace(target, store=store), with_log=with_log)
    clone_is_whole(target, with_log=with_log)
    assert len(store.calls) >= (60 if with_log else 25)
    puts = [at for at, call in enumerate(store.calls) if call.startswith("put")]
    for fault in some_deaths(store.calls, puts[-1].__eq__, f"clone {with_log}"):
        table, target = fresh()
        faulty = FaultyStore(table.store, fault)
        with suppress(Crashed, FirnlineError):
            clone(replace(table, store=faulty), replace(target, store=faulty), with_log=with_log)
        was_table = not is_no_table(target)
        advance(table, 1000)
        if was_table:
            clone_is_whole(target, with_log=with_log)
            with suppress(UsageError):  # there is something already
                clone(table, target, with_log=with_log)
        else:
            complete(table, target, with_log=with_log)
        clone_is_whole(target, with_log=with_log)
        left = [k for k in table.store.objects if k.startswith("c/_probe/clone")]  # type: ignore[attr-defined]
        assert not left
        assert _original(place.save(table)) == source


def clone_is_whole(target: Table, *, with_log: bool) -> None:
    assert visible_ids(target) == Counter([2, *range(4, 42)]) - Counter({5: 1})
    logs = len(read_snapshot(target.store, target.paths, everything=True).listing)
    assert logs > 3 if with_log else logs == 1
    found = run_verify(Work(target), VerifyOptions())
    assert found.healthy, found.findings
