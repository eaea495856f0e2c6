from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from firnline.errors import CommitConflictError, PlanChangedError, UsageError
from firnline.log.txn_file import RunIdentity
from firnline.operations.drop.run import DropReport, list_partitions, preview, run_drop
from firnline.operations.operation import Work
from firnline.operations.options import DropOptions
from firnline.state.history import history
from tests.support.log_tables import do_merge, put_append, snapshot, v1_live
from tests.support.world import FaultyStore, World, make_world

RUN = RunIdentity(dag_id="remove_partitions__t", run_id="r", user="ana")


def filled() -> World:
    world = make_world()
    for _ in range(3):
        put_append(world, "d=1", "d=2", "d=3")
    return world


def drop(world: World, *partitions: str, run: RunIdentity = RUN, **options: Any) -> DropReport:
    return run_drop(Work(world.table, run), DropOptions(partitions=partitions, **options))


def live(world: World) -> set[str]:
    return set(snapshot(world).partitions)


class Meanwhile(FaultyStore):
    """Lets somebody else act right before the first put of a transaction."""

    act: Callable[[], object] | None = None

    def put_new(self, key: str, data: bytes) -> None:
        if "/_txn/" in key and self.act is not None:
            act, self.act = self.act, None
            act()
        super().put_new(key, data)


def interrupted(world: World, act: Callable[[], object]) -> World:
    """The same world, seen by a run during which ``act`` happens."""
    store = Meanwhile(world.store)
    store.act = act
    return replace(world, table=replace(world.table, store=store))


def test_partitions_are_listed_with_what_they_hold() -> None:
    world = filled()
    found = list_partitions(world.table)
    assert [(p.partition, p.parts, p.rows, p.bytes) for p in found] == [
        ("d=1", 3, 30, 300),
        ("d=2", 3, 30, 300),
        ("d=3", 3, 30, 300),
    ]
    assert len({p.version for p in found}) == 3
    assert found[0].newest_ms == world.clock.now
    assert found[0].to_json()["oldest_ms"] == world.clock.now - 2


def test_a_drop_is_one_transaction_and_its_report_says_what_went() -> None:
    world = filled()
    before = dict(world.store.objects)
    report = drop(world, "d=1", "d=3")
    assert live(world) == {"d=2"}
    assert v1_live(world) == set(snapshot(world).live)
    assert (report.parts, report.rows, report.bytes, report.transaction) == (6, 60, 600, 1)
    assert report.partitions == ("d=1", "d=3")
    assert report.partition_count == 2
    assert report.requests["put"] == 2 + 2, "the probe, the transaction"
    assert report.to_json()["partition_count"] == 2
    (header,) = history(world.table)
    assert (header.op, header.run, header.partitions) == ("drop", RUN, ("d=1", "d=3"))
    assert (header.counts.rows_in, header.counts.rows_deleted, header.counts.rows_out) == (
        60,
        60,
        0,
    )
    assert before.keys() <= world.store.objects.keys(), "nothing is deleted: that is clean-up's"


def test_a_dry_run_writes_nothing() -> None:
    world = filled()
    before = dict(world.store.objects)
    report = drop(world, "d=1", dry_run=True)
    assert (report.dry_run, report.parts, report.transaction) == (True, 3, None)
    assert preview(world.table, DropOptions(partitions=("d=1",))).parts == 3
    assert world.store.objects == before


def test_a_partition_that_changed_since_it_was_listed_stays() -> None:
    world = filled()
    expected = {p.partition: p.version for p in list_partitions(world.table)}
    put_append(world, "d=2")
    with pytest.raises(PlanChangedError, match=r"1 of 2 .* d=2 has 4 parts now"):
        drop(world, "d=1", "d=2", expected={p: expected[p] for p in ("d=1", "d=2")})
    assert live(world) == {"d=1", "d=2", "d=3"}
    drop(world, "d=1", expected={"d=1": expected["d=1"]})
    assert live(world) == {"d=2", "d=3"}


def test_versions_are_checked_on_the_state_that_is_committed_on() -> None:
    world = filled()
    expected = {p.partition: p.version for p in list_partitions(world.table)}

    def rival() -> None:
        put_append(world, "d=1")
        do_merge(world, [m.p for m in snapshot(world).partitions["d=2"]])

    with pytest.raises(PlanChangedError, match="d=1 has 4 parts now"):
        drop(interrupted(world, rival), "d=1", expected={"d=1": expected["d=1"]})
    assert live(world) == {"d=1", "d=2", "d=3"}
    assert snapshot(world).seq == 1, "the rival's only"


def test_only_parts_that_were_seen_go() -> None:
    world = filled()
    report = drop(interrupted(world, lambda: put_append(world, "d=1", rows=7)), "d=1")
    assert report.rows == 30
    assert [m.n for m in snapshot(world).partitions["d=1"]] == [7]


def test_a_drop_that_loses_its_parts_to_a_merge_drops_what_the_merge_made() -> None:
    world = filled()
    keys = [m.p for m in snapshot(world).partitions["d=1"]]
    report = drop(interrupted(world, lambda: do_merge(world, keys)), "d=1")
    assert (report.parts, report.rows, report.replans, report.transaction) == (1, 30, 1, 2)
    assert live(world) == {"d=2", "d=3"}


def test_a_drop_gives_up_when_rivals_never_rest() -> None:
    world = filled()
    store = FaultyStore(world.store)
    put = store.put_new

    def rival(key: str, data: bytes) -> None:
        if "/_txn/" in key:
            do_merge(world, [m.p for m in snapshot(world).partitions["d=1"]])
        put(key, data)

    store.put_new = rival  # type: ignore[method-assign] # a rival before each of our puts
    with pytest.raises(CommitConflictError):
        run_drop(Work(replace(world.table, store=store), RUN), DropOptions(partitions=("d=1",)))
    assert live(world) == {"d=1", "d=2", "d=3"}


def test_a_second_try_of_a_run_reports_what_the_first_committed() -> None:
    world = filled()
    expected = {p.partition: p.version for p in list_partitions(world.table) if p.partition < "d=3"}
    first = drop(world, "d=2", "d=1", expected=expected)
    again = drop(world, "d=2", "d=1", expected=expected)
    assert again.done_earlier
    assert (again.transaction, again.parts, again.rows) == (1, first.parts, first.rows)
    assert again.parts_without_rows is None
    assert snapshot(world).seq == 1
    other = RunIdentity(dag_id=RUN.dag_id, run_id="another")
    with pytest.raises(PlanChangedError, match="d=1 is gone"):
        drop(world, "d=2", "d=1", run=other, expected=expected)
    with pytest.raises(UsageError, match="no partition 'd=1'"):
        drop(world, "d=1", run=RunIdentity())
    with pytest.raises(UsageError, match="no partition 'd=1'"):
        drop(world, "d=1", dry_run=True)


def test_parts_that_do_not_state_their_rows_are_counted_as_such() -> None:
    world = filled()
    put_append(world, "f", rows=None)  # as a foreign writer does
    report = drop(world, "f", "d=1")
    assert (report.parts, report.rows, report.parts_without_rows) == (4, 30, 1)


def test_a_table_without_partitions_can_be_emptied() -> None:
    world = make_world()
    put_append(world, "")
    assert drop(world, "").parts == 1
    assert live(world) == set()
    put_append(world, "")
    assert live(world) == {""}, "and filled again"


def test_a_pool_only_table_is_not_probed() -> None:
    world = make_world(locking="pool-only")
    put_append(world, "d=1")
    assert drop(world, "d=1").requests["put"] == 2, "the transaction"
