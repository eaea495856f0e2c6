"""The plan of a clean-up: what every reader has had time to let go of, and nothing else."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from firnline.commit.base import take_base
from firnline.commit.transaction import Change, commit
from firnline.errors import InvariantError, LogCorruptError
from firnline.log import codec, dated
from firnline.log.fence import Fence
from firnline.log.reader import LogObject, LogRead
from firnline.log.records import Delete, LogContent, LogTombstone, Marker
from firnline.log.sinks import sink_record
from firnline.log.txn_file import Counts, RunIdentity
from firnline.operations.cleanup.logs import deletable
from firnline.operations.cleanup.plan import (
    CleanupPlan,
    Doomed,
    old_transactions,
    plan_cleanup,
    purge_horizon,
)
from firnline.operations.cleanup.retention import TXN_AGE_MS
from firnline.properties.in_force import from_settings
from firnline.properties.record import PropertiesRecord
from firnline.state.snapshot import Snapshot, build, read_snapshot
from firnline.store.base import ObjectMeta
from tests.support.cleanups import DAY, GRACE, clean_up
from tests.support.log_tables import SCHEMA, do_merge, part_key, put_append, snapshot
from tests.support.v1_client import V1Client
from tests.support.world import World, make_world


def plan(world: World, max_deletes: int | None = None) -> CleanupPlan:
    listing = list(world.store.list(world.table.paths.txn_dir))
    return plan_cleanup(snapshot(world), listing, world.settings, world.clock.now, max_deletes)


def merged(parts: int = 3) -> tuple[World, list[str]]:
    """A table whose parts have just been merged into one; their keys."""
    world = make_world()
    keys = [key for _ in range(parts) for key in put_append(world)]
    world.clock.advance(10)
    do_merge(world, keys)
    return world, keys


def test_within_the_grace_everything_waits_and_the_plan_says_until_when() -> None:
    world, keys = merged()
    made = plan(world)
    assert made.nothing_to_do
    due = world.clock.now + GRACE
    assert [(w.what, w.count, w.first_ms, w.last_ms) for w in made.waiting] == [
        ("parts", 3, due, due),
        ("log files", 3, due, due),
    ]
    world.clock.advance(GRACE - 1)
    assert plan(world).nothing_to_do
    world.clock.advance(1)
    assert {d.key for d in plan(world).parts} == set(keys)


def test_after_the_grace_replaced_parts_and_folded_log_files_go() -> None:
    world, keys = merged()
    world.clock.advance(GRACE)
    made = plan(world)
    assert {d.key for d in made.parts} == set(keys)
    assert all("_host-" in d.key for d in made.logs)
    assert (len(made.logs), made.count, made.waiting) == (3, 6, ())
    data = made.to_json()
    assert (data["parts"], data["log_files"], data["txn_files"]) == (3, 3, 0)
    assert data["part_bytes"] == 300


def test_a_tombstone_counts_from_when_readers_could_first_see_it() -> None:
    world = make_world()
    keys = put_append(world) + put_append(world)
    committed = do_merge(world, keys)
    # Published by somebody else, long after the commit.
    data, _ = world.store.objects[committed.header.log]
    world.clock.advance(10 * GRACE)
    world.store.objects[committed.header.log] = (data, world.clock.now)
    made = plan(world)
    assert made.nothing_to_do
    assert {w.first_ms for w in made.waiting} == {world.clock.now + GRACE}
    world.clock.advance(GRACE)
    assert {d.key for d in plan(world).parts} == set(keys)


def test_the_oldest_tombstones_go_first_and_log_files_before_all() -> None:
    world = make_world()
    first = put_append(world) + put_append(world)
    do_merge(world, first)
    world.clock.advance(1000)
    second = put_append(world) + put_append(world)
    do_merge(world, second)
    world.clock.advance(2 * GRACE)
    whole = plan(world)
    assert {d.key for d in whole.parts[:2]} == set(first)
    logs = len(whole.logs)
    bounded = plan(world, max_deletes=logs + 3)
    assert (len(bounded.logs), bounded.parts) == (logs, whole.parts[:3])
    assert [(w.what, w.count, w.first_ms) for w in bounded.waiting] == [("parts", 1, None)]
    assert plan(world, max_deletes=1).parts == ()


def test_a_snapshot_that_left_log_files_out_is_refused() -> None:
    world, _ = merged()
    partial = read_snapshot(world.store, world.table.paths)
    assert partial.skipped
    with pytest.raises(InvariantError, match="every log file"):
        plan_cleanup(partial, [], world.settings, world.clock.now)


def put_log(world: World, content: LogContent, name: str) -> str:
    key = f"{world.table.paths.log_dir}{name}"
    world.store.put_new(key, codec.encode(content))
    return key


def fold_by_somebody(world: World, target: str, markers: list[Marker], **more: object) -> str:
    """A foreign merged log file that buries ``target`` and carries these markers only."""
    world.clock.advance(1)
    t = world.clock.now
    content = LogContent(
        t=t,
        schema=SCHEMA,
        markers=markers,
        tombstones=[LogTombstone(target, t)],
        **more,  # type: ignore[arg-type]  # passed through
    )
    return put_log(world, content, f"{t}_m_foreign-host.jsonl")


def test_a_log_file_whose_markers_nobody_else_carries_stays() -> None:
    world = make_world()
    (kept, lost) = put_append(world, "d=1", "d=2")
    (log,) = snapshot(world).listing
    fold_by_somebody(world, log, [snapshot(world).parts[kept]])
    world.clock.advance(2 * GRACE)
    made = plan(world)
    assert made.logs == ()
    assert [w.reason for w in made.waiting] == ["hold something that no other log file carries"]
    assert lost in snapshot(world).live


def test_a_log_file_whose_schema_or_records_nobody_else_carries_stays() -> None:
    for content in (
        LogContent(t=1, schema={**SCHEMA, "only_here": "INTEGER"}),
        LogContent(t=1, schema=SCHEMA, other=[b'{"later":{"a":1}}']),
    ):
        world = make_world()
        log = put_log(world, content, "0000000000001_w-1.jsonl")
        fold_by_somebody(world, log, [])
        world.clock.advance(2 * GRACE)
        assert plan(world).logs == ()


@pytest.mark.parametrize(
    ("seq", "ttl", "stays"), [(0, "6h", True), (0, "7h", True), (1, "7h", False)]
)
def test_a_log_file_that_alone_says_what_the_table_is_stays_until_that_is_superseded(
    seq: int, ttl: str, stays: bool
) -> None:
    """Two first appends may say different things, and only the birth record who is right."""
    world = make_world(append={"ttl": "6h"})
    own = PropertiesRecord(0, 1, from_settings(world.settings))
    other = PropertiesRecord(seq, 1, from_settings(make_world(append={"ttl": ttl}).settings))
    content = LogContent(t=1, schema=SCHEMA, properties=[own])
    log = put_log(world, content, "0000000000001_w-1.jsonl")
    fold_by_somebody(world, log, [])
    if own != other:
        content = LogContent(t=2, schema=SCHEMA, properties=[other])
        put_log(world, content, "0000000000002_w-1.jsonl")
    world.clock.advance(60 * DAY)
    assert [d.key for d in plan(world).logs] == ([] if stays else [log])


AHEAD = 3650 * DAY


@pytest.mark.parametrize(
    ("past", "said", "stays"),
    [(-1, "", True), (0, "", True), (1, "", False), (1, "part", True), (-1, "record", False)],
)
def test_a_log_file_dated_years_ahead_stays_until_others_say_when_it_was_there(
    past: int, said: str, stays: bool
) -> None:
    """Clients of version 1, who have folded it, do not write that down."""
    world = make_world()
    t = world.clock.now + AHEAD
    part = Marker(part_key(world), b=100, t=t, n=10, q=0)
    markers = [part] if said == "part" else []
    log = put_log(world, LogContent(t=t, schema=SCHEMA, markers=markers), f"{t}_w-1.jsonl")
    other = [dated.record(t, world.clock.now)] if said == "record" else []
    fold_by_somebody(world, log, markers, other=other)
    world.clock.advance(2 * GRACE)
    state = replace(snapshot(world), purged=t + past)
    made = plan_cleanup(state, [], world.settings, world.clock.now)
    assert [d.key for d in made.logs] == ([] if stays else [log])


@pytest.mark.parametrize(("past", "stays"), [(-1, True), (0, False)])
def test_a_log_file_that_alone_lists_a_part_dead_stays_until_that_is_deleted(
    past: int, stays: bool
) -> None:
    world = make_world()
    dead = Marker(part_key(world), b=100, t=1, tmb=2, n=10, q=0)
    log = put_log(world, LogContent(t=2, schema=SCHEMA, markers=[dead]), "0000000000002_w-1.jsonl")
    fold_by_somebody(world, log, [])
    world.clock.advance(2 * GRACE)
    state = replace(snapshot(world), purged=2 + past)
    made = plan_cleanup(state, [], world.settings, world.clock.now)
    assert [d.key for d in made.logs] == ([] if stays else [log])


def test_a_log_file_goes_with_the_only_mention_of_a_column_that_was_dropped() -> None:
    world = make_world()
    log = put_log(
        world, LogContent(t=1, schema={**SCHEMA, "x": "INTEGER"}), "0000000000001_w-1.jsonl"
    )
    fold_by_somebody(world, log, [])
    world.clock.advance(2 * GRACE)
    assert plan(world).logs == ()
    state = replace(snapshot(world), schema=SCHEMA)
    made = plan_cleanup(state, [], world.settings, world.clock.now)
    assert [d.key for d in made.logs] == [log]


def test_old_types_go_at_once_and_nothing_else_does() -> None:
    world = make_world()
    keys = [key for _ in range(3) for key in put_append(world)]
    world.clock.advance(GRACE)
    do_merge(world, keys)
    listing = list(world.store.list(world.table.paths.txn_dir))
    state = snapshot(world)
    now = world.clock.now
    assert plan_cleanup(state, listing, world.settings, now, old_types=True).logs == ()
    wider = replace(state, schema={**SCHEMA, "v": "BIGINT"})
    made = plan_cleanup(wider, listing, world.settings, now, old_types=True)
    assert {d.key for d in made.logs} == set(state.log_tombstones)


def test_an_old_type_in_a_log_file_whose_writer_may_still_put_it_again_waits() -> None:
    world, _ = merged()
    wider = replace(snapshot(world), schema={**SCHEMA, "v": "BIGINT"})
    assert plan_cleanup(wider, [], world.settings, world.clock.now, old_types=True).logs == ()
    world.clock.advance(GRACE)
    assert len(plan_cleanup(wider, [], world.settings, world.clock.now, old_types=True).logs) == 3


def test_an_old_type_waits_like_any_other_log_file_where_nobody_asks_for_it() -> None:
    """A stream that has not read the append in it would be behind."""
    world = make_world()
    keys = [key for _ in range(3) for key in put_append(world)]
    world.clock.advance(GRACE)
    do_merge(world, keys)
    wider = replace(snapshot(world), schema={**SCHEMA, "v": "BIGINT"})
    made = plan_cleanup(wider, [], world.settings, world.clock.now)
    assert (made.logs, {w.what: w.count for w in made.waiting}["log files"]) == ((), 3)


def test_there_is_something_to_do_also_where_only_transactions_or_the_horizon_go() -> None:
    world, keys = merged()
    world.clock.advance(2 * GRACE)
    nothing = replace(plan(world), parts=(), logs=(), transactions=(), gone=())
    assert nothing.nothing_to_do
    assert not replace(nothing, gone=(keys[0],)).nothing_to_do
    assert not replace(nothing, transactions=(Doomed("t/_txn/1", 1),)).nothing_to_do


def test_a_dead_part_that_only_the_buried_log_file_lists_dead_keeps_it() -> None:
    world = make_world()
    (key,) = put_append(world)
    alive = snapshot(world).parts[key]
    dead = Marker(p=key, b=alive.b, t=alive.t, tmb=alive.t + 1, n=alive.n, q=0)
    killer = put_log(
        world, LogContent(t=alive.t + 1, schema=SCHEMA, markers=[dead]), f"{alive.t + 1}_w-1.jsonl"
    )
    fold_by_somebody(world, killer, [alive])
    world.clock.advance(2 * GRACE)
    assert plan(world).logs == ()


def test_a_log_file_that_alone_holds_a_delete_stays_as_long_as_a_part_needs_it() -> None:
    for partition, stays in (("d=1", True), ("d=2", False)):
        world = make_world()
        (key,) = put_append(world, "d=1", q=None)
        (appended,) = snapshot(world).listing
        t = world.clock.now + 1
        where = msgspec.Raw(b'{"op":"is_null","column":"v"}')
        record = Delete("del1", 1, t, where, (partition,))
        holder = put_log(world, LogContent(t=t, schema={}, deletes=[record]), f"{t}_w-1.jsonl")
        world.clock.advance(10)
        # As clients of version 1 fold: markers and columns, no extension records.
        fold_by_somebody(world, holder, [snapshot(world).parts[key]])
        world.clock.advance(world.settings.append.ttl + 3 * GRACE)
        assert bool(snapshot(world).pending_deletes(snapshot(world).parts[key], "d=1")) == stays
        passed = replace(snapshot(world), fence=Fence(1, t))
        made = plan_cleanup(passed, [], world.settings, world.clock.now)
        assert [d.key for d in made.logs] == ([] if stays else [holder])
        assert appended in snapshot(world).listing


def test_a_log_file_goes_whose_delete_another_holds_too() -> None:
    world = make_world()
    (key,) = put_append(world)
    t = world.clock.now + 1
    record = Delete("del1", 1, t, msgspec.Raw(b'{"op":"is_null","column":"v"}'))
    content = LogContent(t=t, schema={}, deletes=[record])
    holder = put_log(world, content, f"{t}_w-1.jsonl")
    world.clock.advance(10)
    fold_by_somebody(world, holder, [], deletes=[record])
    world.clock.advance(2 * GRACE)
    state = snapshot(world)
    assert state.pending_deletes(state.parts[key], "d=1"), "somebody needs it"
    assert [d.key for d in plan(world).logs] == [holder]


@pytest.mark.parametrize(("elsewhere", "stays"), [(-1, False), (1, True), (None, True)])
def test_when_something_took_effect_is_said_by_the_log_file_with_the_earliest_time(
    elsewhere: int | None, stays: bool
) -> None:
    """A record goes with its log file if another has corrected it."""
    world = make_world()
    t, at = world.clock.now + AHEAD, world.clock.now
    content = LogContent(t=1, schema=SCHEMA, other=[dated.record(t, at)])
    log = put_log(world, content, "0000000000001_w-1.jsonl")
    other = [] if elsewhere is None else [dated.record(t, at + elsewhere)]
    fold_by_somebody(world, log, [], other=other)
    world.clock.advance(2 * GRACE)
    assert [d.key for d in plan(world).logs] == ([] if stays else [log])


@pytest.mark.parametrize(("past", "used", "stays"), [(0, 0, True), (1, 0, False), (1, 1, True)])
def test_it_is_said_as_long_as_a_state_that_can_be_read_has_something_of_that_date(
    past: int, used: int, stays: bool
) -> None:
    world = make_world()
    t = world.clock.now + AHEAD
    markers = [Marker(part_key(world), b=100, t=t, n=10, q=0)] * used
    content = LogContent(
        t=1, schema=SCHEMA, markers=markers, other=[dated.record(t, world.clock.now)]
    )
    log = put_log(world, content, "0000000000001_w-1.jsonl")
    fold_by_somebody(world, log, markers)
    world.clock.advance(2 * GRACE)
    state = replace(snapshot(world), purged=t + past)
    made = plan_cleanup(state, [], world.settings, world.clock.now)
    assert [d.key for d in made.logs] == ([] if stays else [log])


def test_a_log_file_that_lists_a_part_dead_stays_with_another_that_lists_it_alive() -> None:
    """The part is deleted and forgotten: nobody else lists it, and nobody may revive it."""
    world = make_world()
    part = Marker(world.table.paths.data_part("d=1", "gone"), b=100, t=1, n=10, q=0)
    dead = msgspec.structs.replace(part, tmb=2)
    alive = put_log(
        world,
        LogContent(t=1, schema=SCHEMA, markers=[part], other=[b'{"later":{"a":1}}']),
        "0000000000001_w-1.jsonl",
    )
    killer = put_log(
        world, LogContent(t=2, schema=SCHEMA, markers=[dead]), "0000000000002_w-1.jsonl"
    )
    for log in (alive, killer):
        fold_by_somebody(world, log, [])
    world.clock.advance(2 * GRACE)
    state = replace(snapshot(world), purged=2)
    made = plan_cleanup(state, [], world.settings, world.clock.now)
    assert made.logs == (), "the first holds a record of its own, and the second what it lacks"


def test_a_part_that_clients_of_version_1_take_for_live_stays_until_they_see_it_dead() -> None:
    """One of them slept through the drop, and wrote down what it had read before."""
    world, keys = merged()
    world.clock.advance(1)
    t = world.clock.now
    copy = msgspec.structs.replace(snapshot(world).parts[keys[0]], tmb=None)
    put_log(world, LogContent(t=t, schema=SCHEMA, markers=[copy]), f"{t}_w-9.jsonl")
    world.clock.advance(2 * GRACE)
    made = plan(world)
    assert {d.key for d in made.parts} == set(keys[1:])
    (held,) = made.waiting
    assert (held.what, held.count, held.first_ms, "version 1" in held.reason) == (
        "parts",
        1,
        None,
        True,
    )
    do_merge(world, put_append(world, "d=2"))  # folds the copy: the tombstone stands behind it
    world.clock.advance(GRACE)
    assert keys[0] in {d.key for d in plan(world).parts}


def test_the_newest_transactions_log_file_stays_even_if_a_v1_client_folded_it() -> None:
    world, _ = merged()
    client = V1Client(world)
    client.append("d=1")
    client.append("d=1")
    newest = next(k for k, item in snapshot(world).listing.items() if item.name.seq == 1)
    client.merge("d=1")
    world.clock.advance(2 * GRACE)
    assert newest in snapshot(world).log_tombstones
    assert newest not in {d.key for d in plan(world).logs}


def test_it_stays_also_where_others_hold_all_that_it_says() -> None:
    """Without it an older transaction would be the log's newest, and this one published again."""
    world = make_world()
    keys = put_append(world, *(f"d={day}" for day in range(60)))
    do_merge(world, keys[:1])
    do_merge(world, put_append(world, "d=1"))
    state = snapshot(world)
    older, newest = sorted(k for k, item in state.listing.items() if item.name.seq)
    assert older not in state.log_tombstones, "it states the properties too"
    fold_by_somebody(world, newest, list(state.contents[newest].markers))
    world.clock.advance(2 * GRACE)
    assert newest in snapshot(world).log_tombstones
    assert newest not in {d.key for d in plan(world).logs}


def test_so_do_those_that_the_newest_transaction_says_stand() -> None:
    """Without one of them the log would be taken for lost, by our own readers."""
    world = make_world()
    keys = put_append(world, *(f"d={day}" for day in range(60)))
    for key in keys[:2]:
        do_merge(world, [key])
        world.clock.advance(10)
    client = V1Client(world)
    client.append("d=1")
    client.merge("d=1")
    world.clock.advance(2 * GRACE)
    state = snapshot(world)
    ours = {key: item.name.seq for key, item in state.listing.items() if item.name.seq}
    (mark,) = (state.contents[key].x for key, seq in ours.items() if seq == 2)
    assert mark is not None
    assert mark.standing == (1,)
    assert ours.keys() <= state.log_tombstones.keys()
    assert not ours.keys() & {d.key for d in plan(world).logs}
    clean_up(world)
    assert snapshot(world).seq == 3, "which folds them again"
    world.clock.advance(2 * GRACE)
    assert ours.keys() <= {d.key for d in plan(world).logs}


def test_a_transaction_of_an_older_version_names_none_that_stand() -> None:
    world, _ = merged()
    state = snapshot(world)
    contents = {
        key: content
        if content.x is None
        else msgspec.structs.replace(content, x=msgspec.structs.replace(content.x, standing=None))
        for key, content in state.contents.items()
    }
    assert deletable(replace(state, contents=contents), set(), 0, 0) == frozenset()


def meta(world: World, seq: int, age_ms: int) -> ObjectMeta:
    return ObjectMeta(world.table.paths.txn(seq), 10, world.clock.now - age_ms)


def passed(world: World, upto: int = 150) -> Snapshot:
    """The state as transaction 150 left it, with a fence that has reached a number."""
    return replace(snapshot(world), seq=150, fence=Fence(upto, world.clock.now))


def test_transactions_stay_while_they_are_young_or_among_the_newest_hundred() -> None:
    world = make_world()
    listing = [meta(world, seq, TXN_AGE_MS + DAY if seq < 50 else DAY) for seq in range(1, 201)]
    cutoff = world.clock.now - TXN_AGE_MS
    old = old_transactions(listing, world.table.paths, 200, cutoff)
    assert [world.table.paths.parse_txn(m.key) for m in old] == list(range(1, 50))
    few = old_transactions(listing[:120], world.table.paths, 120, cutoff)
    assert [world.table.paths.parse_txn(m.key) for m in few] == list(range(1, 21))
    assert old_transactions(listing[:99], world.table.paths, 99, cutoff) == []


def test_transactions_outlive_a_long_grace_and_the_parts_they_buried() -> None:
    world = make_world(cleanup={"grace": "30d"})
    do_merge(world, put_append(world))
    listing = [meta(world, seq, 20 * DAY) for seq in range(1, 151)]
    state = passed(world)
    assert plan_cleanup(state, listing, world.settings, world.clock.now).transactions == ()
    # Dead parts that still wait need the transactions from then on.
    waits = make_world()
    do_merge(waits, put_append(waits))
    listing = [meta(waits, seq, 0) for seq in range(1, 151)]
    (log,) = (k for k, item in snapshot(waits).listing.items() if item.name.seq)
    waits.clock.advance(20 * DAY)
    waits.store.objects[log] = (waits.store.objects[log][0], waits.clock.now)
    state = passed(waits)
    assert plan_cleanup(state, listing, waits.settings, waits.clock.now).transactions == ()


def test_a_transaction_whose_log_file_nobody_folded_stays_however_old() -> None:
    # After the loss of the log nothing else would name its parts.
    world = make_world()
    put_append(world)
    take_over = Change("merge", (), (), Counts())
    commit(world.table, take_base(world.table), take_over, RunIdentity())
    listing = [meta(world, seq, 20 * DAY) for seq in range(1, 151)]
    world.clock.advance(20 * DAY)
    (log,) = (item.name for item in snapshot(world).listing.values() if item.name.seq)
    plan = plan_cleanup(passed(world), listing, world.settings, world.clock.now)
    kept = {world.table.paths.txn(seq) for seq in (log.seq, *range(51, 151))}
    assert {m.key for m in listing} - {d.key for d in plan.transactions} == kept


def test_one_goes_once_its_log_file_is_folded_and_its_parts_are_deleted_or_may_be() -> None:
    world = make_world()
    do_merge(world, put_append(world))
    put_append(world)
    do_merge(world, list(snapshot(world).live))
    world.clock.advance(20 * DAY)
    listing = [meta(world, seq, 15 * DAY) for seq in range(1, 151)]
    going = plan_cleanup(passed(world), listing, world.settings, world.clock.now).transactions
    assert world.table.paths.txn(1) in {d.key for d in going}


def test_a_number_is_not_free_again_before_the_fence_has_passed_it() -> None:
    world = make_world()
    do_merge(world, put_append(world))
    put_append(world)
    do_merge(world, list(snapshot(world).live))
    world.clock.advance(20 * DAY)
    listing = [meta(world, seq, 15 * DAY) for seq in range(1, 151)]
    state = passed(world, upto=20)
    going = plan_cleanup(state, listing, world.settings, world.clock.now).transactions
    (stands,) = {item.name.seq for item in state.listing.values() if item.name.seq} - {1}
    numbers = set(range(1, 21)) - {stands}
    assert {d.key for d in going} == {world.table.paths.txn(seq) for seq in numbers}


def test_transactions_stay_for_a_part_that_clients_of_version_1_take_for_live() -> None:
    """A rebuild of a lost log would know nothing of its end."""
    world, keys = merged()
    t = world.clock.now + 1
    copy = msgspec.structs.replace(snapshot(world).parts[keys[0]], tmb=None)
    put_log(world, LogContent(t=t, schema=SCHEMA, markers=[copy]), f"{t}_w-9.jsonl")
    world.clock.advance(20 * DAY)
    listing = [meta(world, seq, 15 * DAY) for seq in range(1, 151)]
    plan = plan_cleanup(passed(world), listing, world.settings, world.clock.now)
    assert plan.transactions == ()


def test_what_is_no_transaction_is_named_and_not_deleted() -> None:
    world = make_world()
    with pytest.raises(LogCorruptError, match="not the name of a transaction"):
        old_transactions([ObjectMeta("t/_txn/.notes", 1, 0)], world.table.paths, 200, 10)


@given(
    st.lists(st.integers(1, 50), min_size=1, max_size=20),
    st.sets(st.integers(0, 19)),
    st.integers(0, 20),
)
def test_the_horizon_never_passes_a_part_that_is_not_confirmed(
    tombs: list[int], confirmed: set[int], purged: int
) -> None:
    world = make_world()
    markers = [Marker(p=f"t/_data/{n}.parquet", b=1, t=0, tmb=t) for n, t in enumerate(tombs)]
    key = "t/_log/0000000000001_w-1.jsonl"
    listing = {key: LogObject(world.table.paths.parse_log(key), 1, 1)}
    content = LogContent(t=1, schema={}, markers=markers)
    state = replace(build(world.table.paths, LogRead(listing, {key: content})), purged=purged)
    done = frozenset(markers[n].p for n in confirmed if n < len(markers))
    horizon = purge_horizon(state, done)
    assert horizon >= purged
    pending = [m.tmb for m in markers if m.p not in done and m.tmb is not None and m.tmb > purged]
    assert not pending or horizon < min(pending)
    if not pending:
        assert horizon == max([purged, *(t for t in tombs)])
    assert horizon <= max([purged, *(m.tmb or 0 for m in markers if m.p in done)])


def test_log_files_of_streaming_batches_go_once_a_later_batch_stands_for_them() -> None:
    """A fold keeps the record of the newest batch alone; no other is lost with its file."""
    world = make_world()
    keys: list[str] = []
    for batch in range(3):
        world.clock.advance(1)
        key, at = part_key(world), world.clock.now
        content = LogContent(
            t=at,
            schema=SCHEMA,
            markers=[Marker(p=key, b=1, t=at, n=1, q=0)],
            other=[sink_record("query", batch)],
        )
        name = world.table.paths.append_log(at, f"host-{world.ids.uuid7(at)}")
        world.store.put_new(name, codec.encode(content))
        keys.append(key)
    world.clock.advance(10)
    do_merge(world, keys)
    world.clock.advance(GRACE)
    assert len(plan(world).logs) == 3
