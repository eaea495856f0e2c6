"""Merges beside deletes: parts that are hidden as a whole go unread, and nothing conflicts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from firnline.appends.append import Appender
from firnline.clock import SystemClock
from firnline.commit.base import take_base
from firnline.commit.transaction import Change, commit
from firnline.kernel.local import LocalEngine
from firnline.log.records import Delete
from firnline.log.txn_file import Counts, RunIdentity
from firnline.operations.delete.run import run_delete
from firnline.operations.merge.plan import plan_merge
from firnline.operations.merge.run import MergeReport, preview, run_merge
from firnline.operations.operation import Work
from firnline.operations.options import DeleteOptions, MergeOptions
from firnline.predicate.sql import parse_sql
from firnline.predicate.tree import And, to_json
from firnline.state.snapshot import read_snapshot
from tests.support.cleanups import GRACE, clean_up
from tests.support.effort import examples
from tests.support.log_tables import snapshot, v1_live
from tests.support.reading import stored_ids, visible_ids
from tests.support.world import World, make_world

RUN = RunIdentity(run_id="r")
SCHEMA = {"id": "BIGINT"}
LONG = "é" * 40  # 80 bytes: no bound holds all of it


def never() -> Any:
    raise AssertionError("no engine is needed")


def append(world: World, ids: range, name: Callable[[int], str | None] = str) -> None:
    world.clock.advance(10)
    rows = {"id": list(ids), "day": [0] * len(ids), "name": [name(i) for i in ids]}
    Appender(world.table).append(pa.table(rows))


def world_of(appends: int = 4, **settings: Any) -> World:
    """Six ids in each append, all in one partition; ``day`` is its column."""
    given = {"partition_by": ["day"], "sort_by": ["id", "name"], "deletes": "lazy", **settings}
    world = make_world(**given)
    for first in range(0, 6 * appends, 6):
        append(world, range(first, first + 6))
    return world


def hide(world: World, where: str, **options: Any) -> str:
    asked = DeleteOptions(where=where, mode="lazy", **options)
    return str(run_delete(Work(world.table, RUN, never), asked).delete)


def merge(world: World, scratch: Path, act: Callable[[], object] | None = None) -> MergeReport:
    """A merge; ``act`` happens after its groups are planned and before any of them is read."""

    class Slow(LocalEngine):
        def run(self, tasks: Any) -> Any:
            if act is not None:
                act()
            yield from super().run(tasks)

    slow = Slow(lambda: world.store, scratch, world.ids, SystemClock())
    return run_merge(Work(world.table, RUN, lambda: slow), MergeOptions())


def test_a_part_that_a_delete_hides_as_a_whole_goes_without_being_read() -> None:
    world = world_of()
    hide(world, "id >= 6 and id < 18")
    plan = preview(world.table, MergeOptions())
    assert (plan.parts_hidden, plan.parts_in, plan.nothing_to_do) == (2, 0, False)
    report = run_merge(Work(world.table, RUN, never), MergeOptions())
    counts = report.counts
    assert (counts.parts_in, counts.parts_out, counts.rows_in, counts.rows_deleted) == (
        2,
        0,
        12,
        12,
    )
    assert (report.groups, report.groups_done) == (1, 1)
    assert (
        visible_ids(world.table) == stored_ids(world.table) == Counter([*range(6), *range(18, 24)])
    )
    assert v1_live(world) == set(snapshot(world).live)
    assert run_merge(Work(world.table, RUN, never), MergeOptions()).groups == 0


@pytest.mark.long
def test_what_is_hidden_in_part_is_read_in_the_same_transaction(tmp_path: Path) -> None:
    world = world_of(6)
    hide(world, "id < 9")
    report = merge(world, tmp_path)
    assert len(report.transactions) == 1
    assert (report.counts.parts_in, report.counts.parts_out) == (6, 1)
    assert (report.counts.rows_deleted, report.counts.rows_out) == (9, 27)
    assert stored_ids(world.table) == Counter(range(9, 36))


@pytest.mark.parametrize("where", ["day = 0", "day in (0, 7)", "id >= 0", "name != 'nobody'"])
def test_the_exact_value_of_a_partition_and_any_bound_are_proof(where: str) -> None:
    world = world_of(2)
    hide(world, where)
    assert preview(world.table, MergeOptions()).parts_hidden == 2


@pytest.mark.long
def test_a_null_is_not_hidden_by_a_comparison() -> None:
    world = world_of(0)
    append(world, range(6), lambda i: None if i == 3 else "x")
    hide(world, "name = 'x'")
    plan = preview(world.table, MergeOptions())
    assert (plan.parts_hidden, plan.parts_in) == (0, 1)
    append(world, range(6, 12), lambda _: None)
    hide(world, "name is null")
    assert preview(world.table, MergeOptions()).parts_hidden == 1


def test_a_text_longer_than_its_bound_proves_nothing_about_equality() -> None:
    world = world_of(0)
    append(world, range(6), lambda _: LONG)
    hide(world, f"name = '{LONG}'")
    assert preview(world.table, MergeOptions()).parts_hidden == 0
    hide(world, "name > 'a'")
    assert preview(world.table, MergeOptions()).parts_hidden == 1


def test_two_deletes_that_hide_a_half_each_prove_nothing() -> None:
    world = world_of(1)
    hide(world, "id < 3")
    hide(world, "id >= 3")
    assert preview(world.table, MergeOptions()).parts_hidden == 0


def test_an_append_after_the_delete_stays() -> None:
    world = world_of(2)
    hide(world, "day = 0")
    append(world, range(50, 56))
    run_merge(Work(world.table, RUN, never), MergeOptions())
    assert visible_ids(world.table) == Counter(range(50, 56))


def test_only_the_partitions_of_the_delete_lose_parts() -> None:
    world = world_of(2)
    Appender(world.table).append(pa.table({"id": [1], "day": [1], "name": ["b"]}))
    hide(world, "id >= 0", partitions=("day=0",))
    assert [g.partition for g in preview(world.table, MergeOptions()).hidden] == ["day=0"]


def test_a_part_whose_rows_nobody_counted_is_read() -> None:
    world = world_of(1)
    hide(world, "day = 0")
    state = snapshot(world)
    (marker,) = state.live.values()
    silent = replace(state, parts={marker.p: msgspec.structs.replace(marker, n=None)})
    plan = plan_merge(silent, world.settings, world.clock.now)
    assert (plan.parts_hidden, plan.parts_in) == (0, 1)


def test_a_table_with_a_primary_key_reads_what_is_hidden(tmp_path: Path) -> None:
    world = world_of(2, primary_key=["id"])
    hide(world, "day = 0")
    plan = preview(world.table, MergeOptions())
    assert (plan.parts_hidden, plan.parts_in) == (0, 2)
    merge(world, tmp_path)
    assert stored_ids(world.table) == Counter()


@pytest.mark.long
def test_a_rival_that_merged_a_hidden_part_makes_the_run_plan_again(tmp_path: Path) -> None:
    world = world_of(6)
    hide(world, "id < 9")

    def rival() -> None:
        if len(acted) == 0:
            acted.append(1)
            merge(world, tmp_path / "rival")

    acted: list[int] = []
    report = merge(world, tmp_path, rival)
    assert report.replans == 1
    assert stored_ids(world.table) == Counter(range(9, 36))
    assert v1_live(world) == set(snapshot(world).live)


def test_a_lazy_delete_while_a_merge_runs_applies_to_its_output(tmp_path: Path) -> None:
    world = world_of(4)
    found = merge(world, tmp_path, lambda: hide(world, "id = 7"))
    assert (found.replans, len(found.transactions)) == (0, 1)
    state = snapshot(world)
    (marker,) = state.live.values()
    assert (marker.q, state.seq) == (0, 2)
    assert visible_ids(world.table) == Counter(set(range(24)) - {7})
    assert stored_ids(world.table) == Counter(range(24))
    again = merge(world, tmp_path)  # one part alone, because a delete is pending on it
    assert (again.counts.rows_deleted, again.counts.parts_in) == (1, 1)
    assert stored_ids(world.table) == Counter(set(range(24)) - {7})


def test_appends_and_merges_of_other_partitions_go_on_while_a_merge_runs(tmp_path: Path) -> None:
    world = world_of(4)

    def others() -> None:
        append(world, range(100, 106))
        rows = {"id": [200], "day": [1], "name": ["b"]}
        for _ in range(4):
            world.clock.advance(10)
            Appender(world.table).append(pa.table(rows))
        merged = run_merge(
            Work(
                world.table,
                RUN,
                lambda: LocalEngine(lambda: world.store, tmp_path / "o", world.ids, SystemClock()),
            ),
            MergeOptions(partitions=("day=1",)),
        )
        assert merged.counts.parts_in == 4

    report = merge(world, tmp_path, others)
    assert (report.replans, report.counts.parts_in) == (0, 4)
    assert len(snapshot(world).live) == 3
    assert visible_ids(world.table) == Counter([*range(24), *range(100, 106), *[200] * 4])
    assert v1_live(world) == set(snapshot(world).live)


def test_an_interval_replaced_while_a_merge_runs_hides_the_old_rows_in_its_output(
    tmp_path: Path,
) -> None:
    world = world_of(4)

    def replace_interval() -> None:
        # As a replace commits it: a record for the interval and new parts with its own sequence.
        base = take_base(world.table)
        (key, *_) = base.snapshot.live
        new = msgspec.structs.replace(
            base.snapshot.live[key], p=key[:-13] + "9" + key[-12:], q=None
        )
        world.store.objects[new.p] = world.store.objects[key]
        tree = And((parse_sql("id >= 0", SCHEMA), parse_sql("id < 12", SCHEMA)))
        where = msgspec.Raw(to_json(tree))
        record = Delete(world.ids.uuid7(world.clock.now), 0, 0, where)
        change = Change("replace", (), (new,), Counts(parts_out=1), deletes=(record,))
        commit(world.table, base, change, RUN)

    report = merge(world, tmp_path, replace_interval)
    assert report.replans == 0
    # The first append's six rows came back as the replacement; ids 6 to 11 are gone.
    assert visible_ids(world.table) == Counter([*range(6), *range(12, 24)])


def test_the_record_of_a_lazy_delete_goes_after_the_merge_and_the_grace(tmp_path: Path) -> None:
    world = world_of(4)
    delete = hide(world, "id < 9")
    assert set(snapshot(world).deletes) == {delete}
    merge(world, tmp_path)
    clean_up(world)
    assert set(snapshot(world).deletes) == {delete}  # who reads the past needs it
    world.clock.advance(GRACE + world.settings.append.ttl + 1_000)
    clean_up(world)
    append(world, range(50, 56))
    world.clock.advance(GRACE + 1_000)
    clean_up(world)
    state = read_snapshot(world.store, world.table.paths)
    assert dict(state.deletes) == {}
    assert visible_ids(world.table) == Counter([*range(9, 24), *range(50, 56)])


@pytest.mark.long
def test_the_record_of_a_delete_that_hid_whole_parts_goes_as_well() -> None:
    world = world_of(4)
    hide(world, "day = 0")
    run_merge(Work(world.table, RUN, never), MergeOptions())
    append(world, range(50, 56))
    for _ in range(3):
        world.clock.advance(GRACE + world.settings.append.ttl + 1_000)
        clean_up(world)
    assert dict(snapshot(world).deletes) == {}
    assert visible_ids(world.table) == Counter(range(50, 56))


@pytest.mark.long
@examples(12, 300)
@given(
    st.lists(
        st.lists(st.one_of(st.none(), st.integers(-3, 3)), min_size=1, max_size=4), max_size=5
    ),
    st.sampled_from(["<", "<=", ">", ">=", "=", "!="]),
    st.integers(-3, 3),
)
def test_parts_go_unread_only_when_every_row_matches(
    parts: list[list[int | None]], operator: str, bound: int
) -> None:
    world = make_world(sort_by=["id"], deletes="lazy")
    for values in [[9], *parts]:
        world.clock.advance(10)
        Appender(world.table).append(pa.table({"id": pa.array(values, pa.int64())}))
    hide(world, f"id {operator} {bound}")
    plan = preview(world.table, MergeOptions())
    matches: dict[str, Callable[[int, int], bool]] = {
        "<": int.__lt__,
        "<=": int.__le__,
        ">": int.__gt__,
        ">=": int.__ge__,
        "=": int.__eq__,
        "!=": int.__ne__,
    }
    holds = matches[operator]
    every: list[list[int | None]] = [[9], *parts]
    whole = [v for v in every if all(x is not None and holds(x, bound) for x in v)]
    # Of rows on both sides of a value the bounds do not tell that none of them has it.
    ends = [(min(x for x in v if x is not None), max(x for x in v if x is not None)) for v in whole]
    told = [pair for pair in ends if not pair[0] < bound < pair[1]]
    assert plan.parts_hidden == len(told if operator == "!=" else whole)
