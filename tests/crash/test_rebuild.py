"""What others meet while a rebuild that died has not been run again, and what it leaves alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from firnline.errors import LogCorruptError
from firnline.operations.cleanup.run import run_cleanup
from firnline.operations.operation import Work
from firnline.operations.options import CleanupOptions
from firnline.state.snapshot import read_snapshot
from tests.support.operations import ALL, lost, rebuild
from tests.support.places import MemoryPlace, keys_in
from tests.support.scenarios import PARTITIONED, Call, advance, dies_before, merge
from tests.support.sweeping import every, observe


@pytest.fixture
def call(tmp_path: Path) -> Call:
    """A table whose log is lost."""
    found = Call(MemoryPlace().new(PARTITIONED), tmp_path)
    lost(found)
    return found


def test_a_rebuild_that_died_after_its_commit_stops_other_runs_until_it_is_run_again(
    call: Call,
) -> None:
    dies_before(call, f"put {call.table.paths.log_dir}", rebuild)
    with pytest.raises(LogCorruptError, match="firnline rebuild"):
        merge(call)
    rebuild(call)
    merge(call)
    assert every(observe(call.table)) == ALL


def test_a_clean_up_after_a_rebuild_deletes_the_dead_parts_and_no_other(call: Call) -> None:
    rebuild(call)
    advance(call.table, call.table.settings.cleanup.grace + 1000)
    run_cleanup(Work(call.table, call.run), CleanupOptions())
    assert every(observe(call.table)) == ALL
    parts = read_snapshot(call.table.store, call.table.paths, everything=True).parts
    left = keys_in(call.table, "_data")
    assert len(left - parts.keys()) == 2, "what the dead merge left, for the orphan sweep"
    assert not [key for key, marker in parts.items() if marker.tmb and key in left]
