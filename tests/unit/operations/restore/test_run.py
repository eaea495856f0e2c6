"""Restore brings back the rows of a state that transactions have changed since, and no others."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from firnline.clock import SystemClock
from firnline.commit.base import take_base
from firnline.commit.transaction import Change, commit
from firnline.errors import CommitConflictError, FirnlineError, SnapshotExpiredError, UsageError
from firnline.kernel.local import LocalEngine
from firnline.log.txn_file import Counts
from firnline.operations.delete.run import run_delete
from firnline.operations.drop.run import run_drop
from firnline.operations.operation import Work
from firnline.operations.options import DeleteOptions, DropOptions, RebuildOptions, RestoreOptions
from firnline.operations.rebuild.run import run_rebuild
from firnline.operations.restore import run as restoring
from firnline.operations.restore.run import preview, run_restore
from firnline.operations.runner import TransactionReport
from firnline.state.history import history
from tests.support.beside import Beside
from tests.support.effort import examples
from tests.support.histories import (
    RUN,
    append,
    clean_up,
    delete_lazily,
    drop,
    filled,
    lose_log,
    merge,
    parquet_bytes,
    rows_from,
    state,
    table_world,
)
from tests.support.reading import visible_by_partition, visible_ids
from tests.support.v1_client import V1Client
from tests.support.world import Crashed, Fault, FaultyStore, World


def restore(world: World, to: int, *partitions: str, **options: Any) -> TransactionReport:
    world.clock.advance(10)
    asked = RestoreOptions(to=to, partitions=partitions, **options)
    return run_restore(Work(world.table, RUN), asked)


def ids(world: World) -> Counter[Any]:
    return visible_ids(world.table)


def keys(world: World) -> set[str]:
    return {k for k in world.store.objects if "/_data/" in k}


def delete_eagerly(world: World, scratch: Path, where: str) -> None:
    world.clock.advance(10)
    engine = LocalEngine(lambda: world.store, scratch, world.ids, SystemClock())
    run_delete(Work(world.table, RUN, lambda: engine), DeleteOptions(where=where))


def test_a_dropped_partition_comes_back_under_fresh_names() -> None:
    world = filled()
    before, there = ids(world), keys(world)
    drop(world, "day=0")
    report = restore(world, 0, "day=0")
    assert ids(world) == before
    assert report.transaction == 2
    assert isinstance(report.plan["restored"], dict)
    assert (report.plan["restored"]["parts"], report.plan["restored"]["rows"]) == (4, 12)
    live = take_base(world.table).snapshot.live
    assert len(keys(world) - there) == 4
    assert {p for p in live if "day=0" in p} == keys(world) - there
    (newest, _) = history(world.table)
    assert (newest.op, newest.why, newest.partitions) == ("restore", "to 0", ("day=0",))
    assert newest.counts.rows_removed == -12


def test_a_table_without_transactions_says_that_there_is_nothing_to_undo() -> None:
    world = filled()
    for number in (0, 3):
        with pytest.raises(UsageError, match="no transaction"):
            restore(world, number)


def test_a_second_restore_finds_nothing_to_do() -> None:
    world = filled()
    drop(world, "day=0")
    restore(world, 0)
    seq = take_base(world.table).seq
    again = restore(world, seq)
    assert (again.transaction, take_base(world.table).seq) == (None, seq)


def test_appends_made_since_stay_also_where_a_merge_has_taken_them_in(tmp_path: Path) -> None:
    world = filled()
    drop(world, "day=1")  # 1
    append(world, 100)
    merge(world, tmp_path)  # 2: the appends are inputs of its outputs
    append(world, 200)
    expected = ids(world) + Counter({i: 1 for i in range(24) if i % 2})
    report = restore(world, 0)
    assert ids(world) == expected
    assert report.plan["undone"] == [1, 2]
    restore(world, 0, exact=True)
    assert ids(world) == Counter(range(24))


def test_exact_also_takes_away_what_was_appended_since() -> None:
    world = filled()
    drop(world, "day=0")
    append(world, 100)
    restore(world, 0, exact=True)
    assert ids(world) == Counter(range(24))


def test_a_transaction_that_the_dry_run_had_not_seen_is_not_undone() -> None:
    world = filled()
    drop(world, "day=0")  # 1
    planned = preview(world.table, RestoreOptions(to=0))
    run_drop(Work(world.table, RUN), DropOptions(partitions=("day=1",)))  # 2
    there = ids(world)
    with pytest.raises(UsageError, match="transaction 2 changed these partitions after"):
        restore(world, 0, newest=planned.seq)
    assert ids(world) == there
    restore(world, 0, "day=0", newest=planned.seq)  # the other one was dropped elsewhere
    assert ids(world) == there + Counter(i for i in range(24) if not i % 2)


def test_nor_one_that_is_committed_while_it_runs() -> None:
    world = filled()
    drop(world, "day=0")  # 1
    store = Beside(world.store, what="put t/_txn", act=lambda: drop(world, "day=1"))
    options = RestoreOptions(to=0, newest=1)
    with pytest.raises(UsageError, match="nothing is restored"):
        run_restore(Work(replace(world.table, store=store), RUN), options)
    assert ids(world) == Counter()
    assert take_base(world.table).seq == 2


def test_other_partitions_are_left_alone() -> None:
    world = filled()
    drop(world, "day=0")
    drop(world, "day=1")
    restore(world, 0, "day=1")
    assert ids(world) == Counter(i for i in range(24) if i % 2)


def test_a_restore_can_be_undone() -> None:
    world = filled()
    drop(world, "day=0")
    after = ids(world)
    restore(world, 0)
    restore(world, 1)
    assert ids(world) == after


def test_parts_that_were_inserted_at_one_time_keep_their_order(tmp_path: Path) -> None:
    world = filled(1, primary_key=["id"])
    (old,) = take_base(world.table).snapshot.partitions["day=0"]
    twins = []
    for letter in "fab":
        key = world.table.paths.data_part("day=0", f"{letter}-twin")
        world.store.copy(old.p, key)
        twins.append(msgspec.structs.replace(old, p=key, o=old.order()))
    change = Change("import", (), tuple(twins), Counts())
    commit(world.table, take_base(world.table), change, RUN)  # 1
    base = take_base(world.table)
    rows = sum(m.n or 0 for m in twins[:2])
    counts = Counts(rows_in=rows, rows_deleted=rows)
    commit(world.table, base, Change("drop", tuple(m.p for m in twins[:2]), (), counts), RUN)
    plan = preview(world.table, RestoreOptions(to=1))
    # The twin and the original that are live go along.
    assert len(plan.copies) == 4
    assert len(plan.removes) == 2
    markers = restoring._markers(world.table, base.snapshot, plan)
    names = {c.source.p: m.p for c, m in zip(plan.copies, markers, strict=True)}
    assert [names[p] for p in sorted(names)] == sorted(names.values())
    restore(world, 1)
    assert ids(world) == Counter({0: 4, 2: 4, 4: 4, 1: 1, 3: 1, 5: 1})


# --- deletes --------------------------------------------------------------------------------------


@pytest.mark.long
def test_deletes_of_then_apply_and_those_since_do_not(tmp_path: Path) -> None:
    world = filled()
    delete_lazily(world, 4)  # 1
    then = ids(world)
    delete_lazily(world, 8)  # 2
    drop(world, "day=0")  # 3
    restore(world, 1)
    assert ids(world) == then == Counter(range(4, 24))
    merge(world, tmp_path)
    assert ids(world) == then


def test_the_copy_of_a_part_of_a_v1_client_came_before_the_same_deletes_as_the_part() -> None:
    """Its marker has no sequence, and a copy without one would come after all of them.

    Every transaction that sees its log file writes the sequence down; none has when it is copied.
    """
    world = filled(1)
    drop(world, "day=1")  # 1
    data = parquet_bytes(rows_from(6).select(["id", "name"]).filter([True, False] * 3))
    foreign = V1Client(world).append("day=0", len(data))
    world.store.objects[foreign] = (data, world.clock.now)
    log = max(key for key in world.store.objects if "/_log/" in key)
    late = {log: world.store.objects.pop(log)}
    delete_lazily(world, 9)  # 2
    delete_lazily(world, 11)  # 3
    world.store.objects.update(late)
    assert ids(world) == Counter()
    restore(world, 2)
    assert ids(world) == Counter([10])
    assert foreign not in take_base(world.table).snapshot.live


@pytest.mark.parametrize("lazy", [True, False])
def test_an_undone_delete_does_not_apply_to_appends_made_before_it_either(
    lazy: bool, tmp_path: Path
) -> None:
    world = filled()
    drop(world, "day=1")  # 1
    append(world, 24)
    if lazy:
        delete_lazily(world, 27)  # 2
    else:
        delete_eagerly(world, tmp_path, "id < 27")
    restore(world, 1)
    assert ids(world) == Counter([*range(0, 24, 2), *range(24, 30)])


@pytest.mark.long
def test_a_delete_whose_record_was_forgotten_since_does_not_apply_to_the_copies(
    tmp_path: Path,
) -> None:
    world = filled()
    delete_eagerly(world, tmp_path, "id < 8")  # 1
    policy = world.settings
    world.clock.advance(policy.append.ttl + policy.cleanup.grace + 1000)
    append(world, 24)
    merge(world, tmp_path)  # 2: folds the log file of 1, and nothing needs its record any more
    assert not take_base(world.table).snapshot.deletes
    restore(world, 0)
    assert ids(world) == Counter(range(30))
    # Its log file is still there, and a rebuild finds the record in the transaction.
    assert state(world).deletes
    assert sum(map(len, visible_by_partition(world.table, state(world)).values())) == 30
    lose_log(world)
    run_rebuild(Work(world.table, RUN), RebuildOptions())
    assert ids(world) == Counter(range(30))


def test_rows_of_a_dropped_partition_that_were_erased_since_stay_away_when_it_comes_back(
    tmp_path: Path,
) -> None:
    world = filled()
    drop(world, "day=0")  # 1
    delete_lazily(world, 1, "erase")  # 2: the only row is in the part that is dead
    policy = world.settings
    world.clock.advance(policy.append.ttl + policy.cleanup.grace + 1000)
    append(world, 24)
    merge(world, tmp_path)  # 3: no part needs the record any more
    assert not take_base(world.table).snapshot.deletes
    restore(world, 0, "day=0")
    assert ids(world) == Counter(range(1, 30))
    assert sum(map(len, visible_by_partition(world.table, state(world)).values())) == 29
    merge(world, tmp_path)
    assert ids(world) == Counter(range(1, 30))
    lose_log(world)
    run_rebuild(Work(world.table, RUN), RebuildOptions())
    assert ids(world) == Counter(range(1, 30))


def test_a_delete_that_commits_while_parts_are_copied_applies_to_the_copies() -> None:
    world = filled()
    drop(world, "day=0")
    store = Beside(world.store, what="put t/_txn", act=lambda: delete_lazily(world, 5))
    asked = RestoreOptions(to=0)
    run_restore(Work(replace(world.table, store=store), RUN), asked)
    assert store.met
    assert ids(world) == Counter(range(5, 24))


@pytest.mark.long
def test_the_past_stays_what_it_was() -> None:
    world = filled()
    delete_lazily(world, 8)
    at = world.clock.now
    state = take_base(world.table).snapshot.at(at)
    before = visible_by_partition(world.table, state)
    restore(world, 0)
    assert ids(world) == Counter(range(24))
    after = visible_by_partition(world.table, take_base(world.table).snapshot.at(at))
    assert after == before


# --- what cannot be undone ------------------------------------------------------------------------


def test_what_clean_up_has_deleted_is_one_error_with_partition_and_horizon() -> None:
    world = filled()
    drop(world, "day=0")
    clean_up(world)
    with pytest.raises(SnapshotExpiredError) as caught:
        restore(world, 0, "day=0")
    horizon = take_base(world.table).snapshot.purged
    assert "day=0" in caught.value.message
    assert str(horizon) in caught.value.message
    # The drop is transaction 1, and the first state that nothing is missing of is the one after it.
    assert caught.value.next_step == "restore to 1 or later, or from a backup"
    assert restore(world, 1).transaction is None


def test_a_drop_can_be_undone_right_after_clean_up_has_passed_the_merge_before_it(
    tmp_path: Path,
) -> None:
    world = filled()
    merge(world, tmp_path)  # 1
    clean_up(world)  # 2
    before = ids(world)
    drop(world, "day=0")  # 3
    restore(world, 1)
    assert ids(world) == before


def test_an_object_that_is_gone_before_its_time_fails_it_and_leaves_no_copy() -> None:
    world = filled()
    drop(world, "day=0")
    victim = max(k for k in keys(world) if "day=0" in k)
    del world.store.objects[victim]
    there = dict(world.store.objects)
    with pytest.raises(SnapshotExpiredError, match="partition day=0 is deleted already"):
        restore(world, 0)
    assert world.store.objects == there


@pytest.mark.parametrize("op", ["erase", "schema-fix", "rebuild", "downgrade"])
def test_some_operations_are_never_undone(op: str) -> None:
    world = filled()
    change = Change(op, (), (), Counts(), partitions=("day=0",))
    commit(world.table, take_base(world.table), change, RUN)
    with pytest.raises(UsageError, match="transaction 1"):
        restore(world, 0)
    if op == "erase":
        assert restore(world, 0, "day=1").transaction is None


def test_what_a_v1_client_replaced_is_refused() -> None:
    world = filled(1)
    drop(world, "day=0")
    client = V1Client(world)
    client.append("day=1")
    client.append("day=1")
    client.merge("day=1")
    with pytest.raises(UsageError, match="client of log version 1"):
        restore(world, 0)
    assert restore(world, 0, "day=0").transaction == 2


@pytest.mark.parametrize(("to", "said"), [(7, "has no transaction 7"), (1, "day=9")])
def test_a_transaction_or_partition_that_is_not_there_is_wrong_usage(to: int, said: str) -> None:
    world = filled()
    drop(world, "day=0")
    with pytest.raises(UsageError, match=said):
        restore(world, to, "day=9")


# --- rivals and crashes ---------------------------------------------------------------------------


@pytest.mark.long
def test_a_rival_that_changes_what_was_to_stay_makes_it_plan_again() -> None:
    world = filled()
    drop(world, "day=0")
    store = Beside(world.store, what="put t/_txn", act=lambda: drop(world, "day=1"))
    report = run_restore(Work(replace(world.table, store=store), RUN), RestoreOptions(to=0))
    assert report.replans == 1
    assert ids(world) == Counter(range(24))
    assert len(keys(world)) == 8 + 4 + 4


def test_two_restores_at_once_bring_a_dropped_partition_back_once() -> None:
    world = filled()
    drop(world, "day=0")
    store = Beside(world.store, what="put t/_txn", act=lambda: restore(world, 0))
    report = run_restore(Work(replace(world.table, store=store), RUN), RestoreOptions(to=0))
    assert report.replans == 1
    assert ids(world) == Counter(range(24))


def test_what_another_restore_brings_to_a_partition_that_was_to_stay_goes_again() -> None:
    world = filled()
    base = take_base(world.table)
    old = base.snapshot.partitions["day=1"][0]
    brought = msgspec.structs.replace(
        old, p=world.table.paths.data_part("day=1", "brought"), o=old.order()
    )
    world.store.copy(old.p, brought.p)
    commit(world.table, base, Change("import", (), (brought,), Counts()), RUN)  # 1
    counts = Counts(rows_in=old.n or 0, rows_deleted=old.n or 0)
    commit(world.table, take_base(world.table), Change("drop", (brought.p,), (), counts), RUN)
    drop(world, "day=0")
    store = Beside(world.store, what="put t/_txn", act=lambda: restore(world, 1, "day=1"))
    report = run_restore(Work(replace(world.table, store=store), RUN), RestoreOptions(to=0))
    assert report.replans == 1
    assert ids(world) == Counter(range(24))


def test_an_append_beside_it_is_no_reason_to_plan_again() -> None:
    world = filled()
    drop(world, "day=0")
    store = Beside(world.store, what="put t/_txn", act=lambda: append(world, 100))
    report = run_restore(Work(replace(world.table, store=store), RUN), RestoreOptions(to=0))
    assert report.replans == 0
    assert ids(world) == Counter([*range(24), *range(100, 106)])


def test_what_somebody_brings_to_other_partitions_is_no_reason_to_plan_again(
    tmp_path: Path,
) -> None:
    world = filled()
    drop(world, "day=0")
    store = Beside(world.store, what="put t/_txn", act=lambda: merge(world, tmp_path))
    asked = RestoreOptions(to=0, partitions=("day=0",))
    report = run_restore(Work(replace(world.table, store=store), RUN), asked)
    assert (store.met != [], report.replans, report.transaction) == (True, 0, 3)
    assert ids(world) == Counter(range(24))


@pytest.mark.parametrize(("locking", "probes"), [("fenced", 2), ("pool-only", 0)])
def test_the_store_is_probed_unless_the_table_trusts_its_pool_alone(
    locking: str, probes: int
) -> None:
    world = filled(locking=locking)
    drop(world, "day=0")
    table = replace(world.table, store=Beside(world.store))  # one that was not probed yet
    report = run_restore(Work(table, RUN), RestoreOptions(to=0))
    assert report.requests["put"] == 4 + 2 + probes, "copies, the transaction, the probe"


def test_a_rival_that_never_stops_ends_it_with_nothing_left_behind(tmp_path: Path) -> None:
    world = filled(merge={"max_replans": 0})
    drop(world, "day=0")
    store = Beside(world.store, what="put t/_txn", act=lambda: drop(world, "day=1"))
    with pytest.raises(CommitConflictError):
        run_restore(Work(replace(world.table, store=store), RUN), RestoreOptions(to=0))
    assert len(keys(world)) == 8


@pytest.mark.long
@pytest.mark.parametrize("kind", ["before", "after", "lost"])
def test_whatever_call_it_dies_at_the_table_has_the_old_rows_or_the_new(kind: str) -> None:
    world = filled(2)
    drop(world, "day=0")
    clean = FaultyStore(world.store)
    run_restore(Work(replace(world.table, store=clean), RUN), RestoreOptions(to=0))
    for at in range(len(clean.calls)):
        world = filled(2)
        new = ids(world)
        drop(world, "day=0")
        old = ids(world)
        table = replace(world.table, store=FaultyStore(world.store, Fault(at, kind)))
        with suppress(FirnlineError, Crashed):
            run_restore(Work(table, RUN), RestoreOptions(to=0))
        assert visible_ids(world.table) in (old, new)
        take_base(world.table)
        assert visible_ids(world.table) in (old, new)
        restore(world, 0)
        assert visible_ids(world.table) == new


def test_a_dry_run_writes_nothing() -> None:
    world = filled()
    drop(world, "day=0")
    there = dict(world.store.objects)
    plan = preview(world.table, RestoreOptions(to=0))
    assert (len(plan.copies), plan.removes, plan.partitions) == (4, (), ("day=0",))
    assert restore(world, 0, dry_run=True).plan == plan.to_json()
    assert world.store.objects == there


# --- histories ------------------------------------------------------------------------------------


@pytest.mark.long
@examples(12, 300)
@given(
    st.lists(st.sampled_from(["append", "drop", "delete", "merge"]), min_size=1, max_size=6),
    st.integers(0, 5),
    st.booleans(),
)
def test_whatever_happened_the_rows_of_then_come_back(
    tmp_path: Path, steps: list[str], to: int, exact: bool
) -> None:
    world = table_world()
    append(world, 0)
    states = {0: ids(world)}
    appended: dict[int, Counter[Any]] = {0: Counter()}
    for number, step in enumerate(["drop", *steps], 1):
        if step == "append":
            append(world, 100 * number)
            for rows in appended.values():
                rows.update(range(100 * number, 100 * number + 6))
        elif step == "drop":
            drop(world, "day=0")
        elif step == "delete":
            delete_lazily(world, 3 + 40 * number)
        else:
            merge(world, tmp_path)
        seq = take_base(world.table).seq
        if seq not in states:
            states[seq], appended[seq] = ids(world), Counter()
    chosen = min(to, max(states))
    restore(world, chosen, exact=exact)
    expected = states[chosen] if exact else states[chosen] + appended[chosen]
    assert ids(world) == expected
    merge(world, tmp_path)
    assert ids(world) == expected
