"""The health of a large table is read by its checkpoint, and says what its log files say."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firnline.commit.base import take_base
from firnline.commit.transaction import Change, commit
from firnline.log.txn_file import Counts, RunIdentity
from firnline.operations.cleanup.estimate import CleanupEstimate
from firnline.operations.cleanup.plan import CleanupPlan
from firnline.operations.health.detail import detail_of
from firnline.operations.health.figures import figures_of
from firnline.operations.health.reading import Reading, read
from firnline.operations.hold.run import run_hold
from firnline.operations.operation import Work
from firnline.operations.options import HoldOptions
from tests.support.checkpoints import ALWAYS, write
from tests.support.cleanups import DAY, clean_up
from tests.support.effort import examples
from tests.support.log_tables import do_merge, do_nothing, put_append
from tests.support.world import World, make_world

NEVER = 2**40
RUN = RunIdentity(run_id="r")
PARTITIONS = ("d=1", "d=2")


def append(world: World) -> None:
    put_append(world, *PARTITIONS, size=77)


def merge(world: World) -> None:
    base = take_base(world.table)
    keys = [m.p for m in base.snapshot.partitions.get("d=1", [])]
    if len(keys) > 1:
        do_merge(world, keys, base)


def drop(world: World) -> None:
    base = take_base(world.table)
    parts = base.snapshot.partitions.get("d=2", [])
    rows = sum(m.n or 0 for m in parts)
    counts = Counts(parts_in=len(parts), rows_in=rows, rows_deleted=rows)
    commit(world.table, base, Change("drop", tuple(m.p for m in parts), (), counts), RUN)


def wait(world: World) -> None:
    world.clock.advance(DAY // 3)


STEPS: tuple[Callable[[World], object], ...] = (append, merge, drop, wait, clean_up, do_nothing)


@st.composite
def lived(draw: st.DrawFn) -> World:
    """A table with a checkpoint, and log files that it does not cover."""
    world = make_world(ttl={"keep": "2d", "column": "ts"})
    append(world)
    for step in draw(st.lists(st.sampled_from(STEPS), max_size=8)):
        step(world)
    do_nothing(world)  # a checkpoint is that of a transaction, which takes all appends in
    write(world)
    for step in draw(st.lists(st.sampled_from(STEPS), max_size=4)):
        step(world)
    return world


def both(world: World) -> tuple[Reading, Reading]:
    """By a checkpoint, and by all log files."""
    quick, whole = (read(world.table, checkpoint_above=least) for least in (ALWAYS, NEVER))
    assert (bool(quick.snapshot.covered), bool(whole.snapshot.covered)) == (True, False)
    return quick, whole


@pytest.mark.long
@given(lived())
@examples(60, 600)
def test_figures_and_details_are_those_of_the_log_files(world: World) -> None:
    quick, whole = both(world)
    assert figures_of(quick) == figures_of(whole)
    estimated = detail_of(quick)
    assert estimated["next"]["cleanup"].pop("estimated")
    assert estimated == detail_of(whole)
    assert quick.seen == whole.seen


@pytest.mark.long
@given(lived(), st.integers(0, 12))
@examples(40, 400)
def test_what_a_bounded_run_deletes_is_estimated_by_the_mean_size(world: World, most: int) -> None:
    quick, whole = both(world)
    estimate, plan = quick.cleanup(most), whole.cleanup(most)
    assert isinstance(estimate, CleanupEstimate)
    assert isinstance(plan, CleanupPlan)
    assert estimate.part_count == plan.part_count
    assert (estimate.logs, estimate.transactions) == (len(plan.logs), len(plan.transactions))
    assert estimate.nothing_to_do == plan.nothing_to_do
    told, waits = ({(w.what, w.reason): w for w in each.waiting} for each in (estimate, plan))
    assert {place: w.count for place, w in told.items()} == {p: w.count for p, w in waits.items()}
    assert abs(estimate.bytes - plan.bytes) <= sum(m.b for m in whole.snapshot.parts.values())


def gets(world: World, work: Callable[[], Any]) -> dict[str, int]:
    before = world.table.store.counters.as_dict()
    work()
    after = world.table.store.counters.as_dict()
    return {kind: after[kind] - before[kind] for kind in ("get", "list")}


def test_a_checkpoint_takes_the_place_of_the_log_files_that_it_covers() -> None:
    world = make_world()
    for _ in range(5):
        append(world)
    merge(world)
    write(world)
    append(world)
    quick = gets(world, lambda: read(world.table, 0, checkpoint_above=ALWAYS))
    whole = gets(world, lambda: read(world.table, 0, checkpoint_above=NEVER))
    assert quick == {"get": 2, "list": 4}
    assert whole == {"get": 7, "list": 3}


def test_without_a_checkpoint_a_large_log_is_read_with_one_listing_more() -> None:
    world = make_world()
    append(world)
    merge(world)
    asked = gets(world, lambda: read(world.table, 0, checkpoint_above=ALWAYS))
    assert asked == {"get": 1, "list": 4}


def test_which_dead_parts_a_legal_hold_keeps_is_told_by_the_log_files() -> None:
    world = make_world()
    append(world)
    append(world)
    drop(world)
    append(world)
    options = HoldOptions(name="case", why="w", by="ana", partitions=("d=2",))
    run_hold(Work(world.table, RUN), options)
    write(world)
    world.clock.advance(3 * DAY)
    found = read(world.table, checkpoint_above=ALWAYS)
    assert not found.snapshot.covered
    assert any("legal hold" in one.reason for one in found.cleanup().waiting)
