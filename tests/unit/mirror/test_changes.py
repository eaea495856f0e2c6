"""The difference between two states is found in the log; where the log does not tell, elsewhere."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from firnline.commit.base import take_base
from firnline.commit.change import Change
from firnline.commit.transaction import commit
from firnline.log import codec
from firnline.log.records import LogContent, Marker
from firnline.log.txn_file import Counts
from firnline.mirror.delta.publish import publish
from firnline.operations.drop.run import run_drop
from firnline.operations.operation import Work
from firnline.operations.options import DropOptions
from tests.support.effort import FULL
from tests.support.log_tables import SCHEMA, do_merge, merge_change, part_key, put_append, snapshot
from tests.support.mirrors import RUN, mirrored_world, states, versions
from tests.support.world import World

DAY = 86_400_000


def live(world: World) -> set[str]:
    return set(snapshot(world).live)


def step(world: World, r: random.Random) -> None:
    """One thing that happens to a table."""
    world.clock.advance(r.choice([0, 1, 1, 5_000]))
    parts = sorted(live(world))
    kind = r.choice(["append", "append", "late", "merge", "merge", "drop", "nothing"])
    if kind == "append" or not parts:
        put_append(world, *r.choices(["d=1", "d=2", "d=3"], k=r.randint(1, 3)))
    elif kind == "late":
        # Dated like an append before it, or before it.
        put_append(world, "d=1", t=world.clock.now - r.choice([0, 1, 2, 10]))
    elif kind == "merge":
        chosen = [p for p in parts if "d=1" in p] or parts[:1]
        do_merge(world, chosen[: r.randint(1, len(chosen))])
    elif kind == "drop":
        partition = world.table.paths.parse_part(r.choice(parts)).partition
        run_drop(Work(world.table, RUN), DropOptions(partitions=(partition,)))


@pytest.mark.long
@pytest.mark.parametrize("seed", range(300 if FULL else 6))
def test_every_version_shows_the_state_that_the_table_had(seed: int) -> None:
    r, world = random.Random(seed), mirrored_world()
    expected: list[set[str]] = []
    for _ in range(25):
        step(world, r)
        if r.random() < 0.6:
            done = publish(world.table)
            assert done.hold is None
            if done.written:
                expected.append(live(world))
            assert states(world)[-1] == live(world)
    assert states(world) == expected


def test_an_ordinary_version_needs_no_look_at_the_mirror() -> None:
    world = mirrored_world()
    put_append(world, "d=1", "d=2")
    publish(world.table)
    keys = [k for k in live(world) if "d=1" in k] + put_append(world)
    put_append(world, "d=3")
    do_merge(world, keys)
    run_drop(Work(world.table, RUN), DropOptions(partitions=("d=2",)))
    done = publish(world.table)
    assert (done.adds, done.removes, done.replayed) == (2, 2, False)


def test_two_appends_of_one_date_are_told_apart() -> None:
    world = mirrored_world()
    first = put_append(world)
    date = world.clock.now
    publish(world.table)
    second = put_append(world, t=date)
    assert publish(world.table).adds == 1
    # Folded, an append is known by its date alone: their number shows that it is not enough.
    third = put_append(world, t=date)
    do_merge(world, put_append(world, "d=2"))
    done = publish(world.table)
    assert done.replayed
    assert {*first, *second, *third} < states(world)[-1] == live(world)


@pytest.mark.parametrize("grace_passed", [False, True])
def test_a_version_that_is_half_a_grace_old_is_read(grace_passed: bool) -> None:
    world = mirrored_world()
    keys = put_append(world)
    publish(world.table)
    world.clock.advance(DAY if grace_passed else 10)
    do_merge(world, keys)
    assert publish(world.table).replayed == grace_passed
    assert states(world)[-1] == live(world)


def test_an_unchanged_table_gets_no_version_however_old_the_last_one_is() -> None:
    world = mirrored_world()
    put_append(world)
    assert publish(world.table).written
    world.clock.advance(30 * DAY)
    done = publish(world.table)
    assert (done.written, done.replayed) == (False, False)
    assert len(versions(world)) == 1


@pytest.mark.parametrize("op", ["rebuild", "clone", "downgrade"])
def test_after_the_log_was_made_again_the_mirror_is_read(op: str) -> None:
    world = mirrored_world()
    put_append(world)
    publish(world.table)
    base = take_base(world.table)
    commit(world.table, base, Change(op=op, replaces=(), adds=(), counts=Counts()), RUN)
    put_append(world)
    assert publish(world.table).replayed
    assert states(world)[-1] == live(world)


def test_what_clients_of_version_1_merged_is_found_in_the_mirror() -> None:
    world = mirrored_world()
    keys = put_append(world)
    publish(world.table)
    world.clock.advance(10)
    t, new = world.clock.now, part_key(world)
    markers = [Marker(p=keys[0], b=100, t=1, tmb=t), Marker(p=new, b=100, t=t)]
    name = f"{world.table.paths.log_dir}{t:013d}_m_host-{world.ids.uuid7(t)}.jsonl"
    world.store.put_new(name, codec.encode(LogContent(t=t, schema=SCHEMA, markers=markers)))
    assert publish(world.table).replayed
    assert states(world)[-1] == {new}


def data_changes(world: World) -> set[tuple[str, bool]]:
    return {
        (kind, action[kind]["dataChange"])
        for action in versions(world)[-1]
        for kind in ("add", "remove")
        if kind in action
    }


def test_a_merge_of_files_that_were_shown_changes_no_data() -> None:
    world = mirrored_world()
    keys = put_append(world, "d=1", "d=1")
    publish(world.table)
    do_merge(world, keys)
    publish(world.table)
    assert data_changes(world) == {("add", False), ("remove", False)}
    put_append(world)
    publish(world.table)
    assert data_changes(world) == {("add", True)}


def a_drop(world: World, keys: list[str]) -> None:
    run_drop(Work(world.table, RUN), DropOptions(partitions=("d=1",)))


def a_merge_with_new_rows(world: World, keys: list[str]) -> None:
    do_merge(world, [*keys, *put_append(world)])


def a_merge_that_loses_rows(world: World, keys: list[str]) -> None:
    base = take_base(world.table)
    new = Marker(p=part_key(world), b=1, t=0, n=7, q=base.seq)
    counts = Counts(rows_in=10, rows_out=7, rows_removed=3)
    change = Change(op="merge", replaces=tuple(keys), adds=(new,), counts=counts)
    commit(world.table, base, change, RUN)


def a_merge_that_loses_as_many_rows_as_are_new(world: World, keys: list[str]) -> None:
    new_rows = put_append(world)
    base = take_base(world.table)
    new = Marker(p=part_key(world), b=1, t=0, n=10, q=base.seq)
    counts = Counts(rows_in=20, rows_out=10, rows_removed=10)
    change = Change(op="merge", replaces=(*keys, *new_rows), adds=(new,), counts=counts)
    commit(world.table, base, change, RUN)


def a_merge_of_unknown_rows(world: World, keys: list[str]) -> None:
    base = take_base(world.table)
    new = Marker(p=part_key(world), b=1, t=0, q=base.seq)
    change = Change(op="merge", replaces=tuple(keys), adds=(new,), counts=Counts())
    commit(world.table, base, change, RUN)


@pytest.mark.parametrize(
    "act",
    [
        a_drop,
        a_merge_with_new_rows,
        a_merge_that_loses_rows,
        a_merge_that_loses_as_many_rows_as_are_new,
        a_merge_of_unknown_rows,
    ],
)
def test_whatever_else_happens_to_files_is_a_change_of_data(act: Any) -> None:
    world = mirrored_world()
    keys = put_append(world)
    publish(world.table)
    act(world, keys)
    publish(world.table)
    assert ("remove", True) in data_changes(world)
    assert {changed for _, changed in data_changes(world)} == {True}


def test_a_merge_with_a_query_of_the_user_is_a_change_of_data() -> None:
    world = mirrored_world(merge={"sql": "select * from _rows"})
    keys = put_append(world)
    publish(world.table)
    do_merge(world, keys)
    publish(world.table)
    assert data_changes(world) == {("add", True), ("remove", True)}


@pytest.mark.parametrize("ran", [True, False])
def test_the_log_says_if_a_merge_ran_a_query_whatever_the_settings_of_the_publisher(
    ran: bool,
) -> None:
    world = mirrored_world(**({} if ran else {"merge": {"sql": "select * from _rows"}}))
    keys = put_append(world)
    publish(world.table)
    base = take_base(world.table)
    commit(world.table, base, replace(merge_change(world, keys, base), query=ran), RUN)
    publish(world.table)
    assert data_changes(world) == {("add", ran), ("remove", ran)}


def test_a_position_has_the_form_of_docs_format() -> None:
    world = mirrored_world()
    put_append(world)
    publish(world.table)
    first = versions(world)[0][0]["commitInfo"]["firnline"]
    assert set(first) == {
        *("seq", "t", "at", "seen", "files", "table", "created", "columns", "features")
    }
    assert msgspec.json.encode(first["seen"]).startswith(b'"17')
