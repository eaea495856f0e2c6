"""A relocation that dies at any store call: nobody takes it for a table until it is whole."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from firnline.base import take_base
from firnline.errors import FirnlineError, ForeignPathError, LogCorruptError, UsageError
from firnline.operations.cleanup import CleanupOptions, run_cleanup
from firnline.operations.delete import DeleteOptions, run_delete
from firnline.operations.rebuild import RebuildOptions, run_rebuild
from firnline.operations.relocate import RelocateOptions, run_relocate
from firnline.operations.sweep import SweepOptions, run_sweep
from firnline.operations.verify import VerifyOptions, run_verify
from firnline.snapshot import read_snapshot
from firnline.table import Table
from tests.support.moving import moved
from tests.support.operations import erase
from tests.support.places import MemoryPlace, Saved
from tests.support.reading import visible_ids
from tests.support.scenarios import PARTITIONED, Call, advance, fill, merge
from tests.support.world import Crashed, Fault, FaultyStore

KINDS = ("before", "after", "lost")
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
    run_delete(table, call.engine, DeleteOptions(where="id < 2", mode="lazy"), call.run)
    fill(table, 1, first=36)
    advance(table, 1000)
    return table


@pytest.fixture
def copy(tmp_path: Path) -> Callable[[], Table]:
    """Gives the table that somebody copied, always the same."""
    place = MemoryPlace()
    saved = place.save(moved(lived(place, tmp_path), "copy"))
    return lambda: place.restored(saved)


def rows(saved: Table) -> Counter[int]:
    return visible_ids(saved)


def is_foreign(table: Table) -> bool:
    """Whether everybody refuses it; else it is whole. Nothing in between passes."""
    run = Call(table, Path()).run
    everybody: list[Callable[[], object]] = [
        lambda: read_snapshot(table.store, table.paths),
        lambda: read_snapshot(table.store, table.paths, everything=True),
        lambda: read_snapshot(table.store, table.paths, checkpoint_above=0),
        lambda: take_base(table),
        lambda: run_cleanup(table, CleanupOptions(), run),
        lambda: run_sweep(table, SweepOptions(), run),
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
        run_rebuild(table, RebuildOptions(force=True), run)
    assert not run_verify(table, VerifyOptions()).healthy
    assert MemoryPlace().save(table).objects == before.objects
    return True


def is_whole(table: Table) -> None:
    assert rows(table) == Counter([2, *range(4, 42)]) - Counter({5: 1})
    assert len(read_snapshot(table.store, table.paths, everything=True).listing) > 3
    found = run_verify(table, VerifyOptions(deep=True))
    assert found.healthy, found.findings


def relocate(table: Table) -> None:
    run_relocate(table, RelocateOptions())


def test_a_relocation_that_dies_at_any_store_call_comes_right_when_it_is_run_again(
    copy: Callable[[], Table],
) -> None:
    table = copy()
    store = FaultyStore(table.store)
    relocate(replace(table, store=store))
    assert not is_foreign(table)
    is_whole(table)
    puts = [call for call in store.calls if call.startswith("put")]
    assert len(puts) >= 15
    for at in range(len(store.calls)):
        for kind in KINDS:
            table = copy()
            original = _original(MemoryPlace().save(table))
            faulty = FaultyStore(table.store, Fault(at, kind))
            with suppress(Crashed, FirnlineError):
                relocate(replace(table, store=faulty))
            if is_foreign(table):
                advance(table, 1000)
                relocate(table)
            with pytest.raises(UsageError, match="nothing to do"):
                relocate(table)
            is_whole(table)
            assert _original(MemoryPlace().save(table)) == original


def _original(saved: Saved) -> dict[str, bytes]:
    return {k: data for k, (data, _) in saved.objects.items() if k.startswith("lake/")}


@pytest.mark.parametrize("seed", range(20))
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
