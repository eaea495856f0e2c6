"""Transactions under ``_txn/`` that never took effect: found by gap, contradiction and time."""

from __future__ import annotations

from pathlib import Path

import pytest

from firnline.errors import NothingToDoError
from firnline.operations.operation import Work
from firnline.operations.options import RebuildOptions, VerifyOptions
from firnline.operations.rebuild.run import run_rebuild
from firnline.operations.verify.run import run_verify
from firnline.state.effect import Ineffective, first_of_run, ineffective, never_effective
from firnline.state.survey import LogSurvey, survey_log, survey_transactions
from tests.support.histories import (
    RUN,
    append,
    delete_lazily,
    drop,
    filled,
    lose_log,
    merge,
    state,
)
from tests.support.reading import visible_ids
from tests.support.world import World


def found(world: World) -> dict[int, Ineffective]:
    paths = world.table.paths
    log = survey_log(world.store, paths)
    return ineffective(log, survey_transactions(world.store, paths), paths)


def take(world: World, seq: int) -> bytes:
    """The object of a transaction is gone."""
    data, _ = world.store.objects.pop(world.table.paths.txn(seq))
    return data


def put(world: World, seq: int, data: bytes) -> None:
    world.clock.advance(1000)
    world.store.put_new(world.table.paths.txn(seq), data)


def slept(tmp_path: Path) -> World:
    """A drop that was planned as transaction 2 and created long after 2 was used and removed."""
    world = filled()
    merge(world, tmp_path)
    before = dict(world.store.objects)
    drop(world, "day=0")
    late = take(world, 2)
    world.store.objects.clear()
    world.store.objects.update(before)
    for first in (24, 48, 72):
        for number in range(4):
            append(world, first + 6 * number)
        merge(world, tmp_path)
    take(world, 2)
    take(world, 1)
    put(world, 2, late)
    return world


@pytest.mark.long
def test_a_number_that_was_used_and_removed_before_never_took_effect(tmp_path: Path) -> None:
    world = slept(tmp_path)
    right = visible_ids(world.table)
    ((seq, one),) = found(world).items()
    assert seq == 2
    assert "never took effect" in one.reason
    report = run_verify(Work(world.table), VerifyOptions())
    (said,) = [f for f in report.findings if f.kind == "txn-without-effect"]
    assert "was to drop" in said.next_step
    assert "log-misses-tombstone" not in report.kinds
    with pytest.raises(NothingToDoError):
        run_rebuild(Work(world.table, RUN), RebuildOptions())
    lose_log(world)
    run_rebuild(Work(world.table, RUN), RebuildOptions())
    assert visible_ids(world.table) == right


@pytest.mark.long
def test_it_is_found_by_its_id_where_its_successor_is_left(tmp_path: Path) -> None:
    world = slept(tmp_path)
    lose_log(world)
    assert 2 in found(world)
    right = {
        n: h.txn for n, h in survey_transactions(world.store, world.table.paths).headers.items()
    }
    assert found(world)[2].txn == right[2]


@pytest.mark.long
def test_what_came_into_the_log_all_the_same_is_left_out_too(tmp_path: Path) -> None:
    """It published its log file, as versions did that do not look again."""
    world = slept(tmp_path)
    header = survey_transactions(world.store, world.table.paths).headers[2]
    right = visible_ids(world.table)
    data = world.store.objects[world.table.paths.txn(2)][0]
    world.store.put_new(header.log, data.split(b"\n", 2)[2])
    assert 2 in found(world)
    run_rebuild(Work(world.table, RUN), RebuildOptions(force=True))
    assert visible_ids(world.table) == right


@pytest.mark.long
def test_transactions_that_took_effect_all_count(tmp_path: Path) -> None:
    world = filled()
    merge(world, tmp_path)
    delete_lazily(world, 3)
    append(world, 24)
    drop(world, "day=1")
    assert found(world) == {}
    lose_log(world)
    assert found(world) == {}


@pytest.mark.long
def test_what_lies_below_a_gap_is_carried_by_later_ones_and_is_no_finding(tmp_path: Path) -> None:
    world = filled()
    merge(world, tmp_path)
    for first in (24, 48):
        for number in range(4):
            append(world, first + 6 * number)
        merge(world, tmp_path)
    stands = {n for c in state(world).contents.values() if c.x for n in c.x.standing or ()}
    right = visible_ids(world.table)
    take(world, 2)
    kinds = run_verify(Work(world.table), VerifyOptions()).kinds
    assert "txn-without-effect" not in kinds
    assert "txn-gap" in kinds
    lose_log(world)
    assert 1 not in stands
    assert found(world)[1].left_over
    run_rebuild(Work(world.table, RUN), RebuildOptions())
    assert visible_ids(world.table) == right


@pytest.mark.long
@pytest.mark.parametrize(
    ("late", "reason"), [(9, "created after transaction 4"), (1, "below a gap")]
)
def test_a_gap_and_the_times_of_the_objects_tell_where_no_name_is_left(
    late: int, reason: str, tmp_path: Path
) -> None:
    """Tombstones are forgotten, and so is the transaction that states the digest."""
    world = slept(tmp_path)
    paths = world.table.paths
    del world.store.objects[paths.txn(3)]
    log = LogSurvey({}, {}, {}, ())
    txns = survey_transactions(world.store, paths)
    txns.folded.clear()
    txns.standing[4] = ()
    txns.modified.update({2: late, 4: 5})
    (one,) = ineffective(log, txns, paths).values()
    assert reason in one.reason
    assert one.left_over == (late == 1)
    assert bool(never_effective(ineffective(log, txns, paths))) == (late == 9)
    txns.standing[4] = (2,)
    assert not ineffective(log, txns, paths), "the newest stands on it"
    txns.standing[4] = (3,)
    assert not ineffective(log, txns, paths), "history is lost: it may be the last that knows"


def test_below_a_lost_transaction_every_other_counts() -> None:
    world = filled(2)
    for below in (1, 2, 3):
        delete_lazily(world, below)
    lose_log(world)
    take(world, 3)
    take(world, 2)
    assert found(world) == {}


@pytest.mark.parametrize(
    ("numbers", "first"), [([], 0), ([1], 1), ([3, 1, 2], 1), ([1, 2, 5, 6], 5), ([1, 9], 9)]
)
def test_the_unbroken_end_of_the_history_begins_after_its_last_gap(
    numbers: list[int], first: int
) -> None:
    assert first_of_run(set(numbers)) == first
