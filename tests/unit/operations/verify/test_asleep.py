"""A verify that slept between two listings reports no live part as lost, and no certificate."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from firnline.errors import SnapshotUnstableError
from firnline.kernel.local import LocalEngine
from firnline.operations.cleanup.run import run_cleanup
from firnline.operations.erase.run import run_erase
from firnline.operations.operation import Work
from firnline.operations.options import CleanupOptions, EraseOptions, VerifyOptions
from firnline.operations.verify.run import VerifyReport, run_verify
from tests.support import histories
from tests.support.histories import RUN, append, filled, merge
from tests.support.world import Asleep, World

LISTINGS = ["t/_erase/", "t/_log/", "t/_txn/", "t/_ckpt/", "t/_data/", "t/_prepared/"]


def verify(
    world: World, meanwhile: Callable[[], None], at: str, times: int = 1, *, deep: bool = False
) -> tuple[VerifyReport, Asleep]:
    store = Asleep(world.store, at=f"list {at}", meanwhile=meanwhile, times=times)
    return run_verify(Work(replace(world.table, store=store)), VerifyOptions(deep=deep)), store


def maintain(world: World, scratch: Path) -> None:
    """Rows come, and all parts that are there are merged and deleted after the grace."""
    append(world, 100)
    merge(world, scratch)
    histories.clean_up(world)


@pytest.mark.long
@pytest.mark.parametrize("deep", [False, True])
@pytest.mark.parametrize("at", LISTINGS)
def test_a_whole_table_is_whole_wherever_it_sleeps(at: str, deep: bool, tmp_path: Path) -> None:
    world = filled()
    merge(world, tmp_path)
    report, store = verify(world, partial(maintain, world, tmp_path), at, deep=deep)
    assert store.slept == 1
    assert report.healthy, report.findings
    assert report.kinds == {}
    assert report.seq == run_verify(Work(world.table), VerifyOptions()).seq


@pytest.mark.long
def test_one_that_sleeps_again_and_again_says_so_and_reports_nothing(tmp_path: Path) -> None:
    world = filled()
    with pytest.raises(SnapshotUnstableError, match="took longer than half its grace"):
        verify(world, partial(maintain, world, tmp_path), "t/_data/", times=9)


def test_a_clock_that_stood_still_with_the_machine_does_not_make_a_part_lost(
    tmp_path: Path,
) -> None:
    """As that of a virtual machine that was paused."""
    world = filled()

    def paused() -> None:
        elapsed = world.clock.elapsed
        maintain(world, tmp_path)
        world.clock.elapsed = elapsed

    report, _ = verify(world, paused, "t/_data/")
    assert "part-missing" not in report.kinds


def test_a_part_that_is_lost_is_found_all_the_same(tmp_path: Path) -> None:
    world = filled()
    merge(world, tmp_path)
    lost = max(histories.state(world).live)
    del world.store.objects[lost]
    report, _ = verify(world, partial(world.clock.advance, 48 * 3_600_000), "t/_data/")
    assert [f.object for f in report.findings if f.kind == "part-missing"] == [lost]


def test_a_certificate_of_an_erase_while_it_slept_is_not_missing(tmp_path: Path) -> None:
    """Though the clock stood still: the certificates were listed before that erase."""
    world = filled()

    def paused() -> None:
        elapsed = world.clock.elapsed
        engine = LocalEngine(lambda: world.store, tmp_path, world.ids, world.clock)
        run_erase(
            Work(world.table, RUN, lambda: engine), EraseOptions(columns=("id",), keys=((1,),))
        )
        world.clock.advance(12 * 3_600_000)
        run_cleanup(Work(world.table, RUN), CleanupOptions())
        world.clock.elapsed = elapsed

    report, _ = verify(world, paused, "t/_log/")
    assert "certificate-missing" not in report.kinds
