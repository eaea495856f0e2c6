"""A process that slept through a downgrade: its number was used, and the history is deleted."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace

import msgspec
import pytest

from firnline.commit.base import read_base, take_base
from firnline.commit.happened import has_happened
from firnline.commit.transaction import Change, commit
from firnline.errors import CommitExpiredError, CommitUnknownError
from firnline.log import codec
from firnline.log.records import LogContent, Marker
from firnline.log.txn_file import Counts
from firnline.operations.downgrade.run import run_downgrade
from firnline.operations.operation import Work
from firnline.operations.options import DowngradeOptions, RebuildOptions, VerifyOptions
from firnline.operations.rebuild.run import run_rebuild
from firnline.operations.verify.run import run_verify
from firnline.properties.record import PropertiesRecord
from firnline.read.appends import AppendLog
from firnline.read.offsets import pending
from firnline.state.history import history, transactions_of
from firnline.state.snapshot import read_snapshot
from tests.support.beside import Beside
from tests.support.cleanups import RUN, check
from tests.support.downgrades import downgraded, folded, no_engine
from tests.support.histories import filled
from tests.support.log_tables import (
    SCHEMA,
    do_merge,
    do_nothing,
    merge_change,
    part_key,
    put_append,
    snapshot,
)
from tests.support.world import Crashed, Fault, FaultyStore, World, make_world


def back(world: World) -> None:
    folded(world)
    do_nothing(world)


def before(transactions: int = 3) -> tuple[World, list[str]]:
    """A table, and two parts of it for a merge."""
    world = make_world(partition="d=.")
    append_birth(world)
    for _ in range(transactions):
        do_merge(world, put_append(world))
    return world, put_append(world) + put_append(world)


def warnings(world: World) -> set[tuple[str, str]]:
    """Kinds and objects of what a check finds, but that no part holds what its marker says."""
    found = run_verify(Work(world.table), VerifyOptions()).findings
    return {(f.kind, f.object) for f in found if f.severity != "note" and f.kind != "part-size"}


def append_birth(world: World) -> None:
    other = filled()
    key = world.table.paths.birth
    data = other.store.objects[key][0].replace(b'"partition_by":["day"]', b'"partition_by":[]')
    data = data.replace(b'"partition":null', b'"partition":"d=."').replace(b'["id"]', b"[]")
    world.store.objects[key] = (data.replace(b'["day","id"]', b"[]"), world.clock.now)


def test_numbers_continue_after_the_last_one_although_the_log_shows_none() -> None:
    world, _ = before()
    downgraded(world)  # transaction 4
    folded(world)
    assert (read_base(world.table).seq, take_base(world.table).seq) == (4, 4)
    committed = do_nothing(world)
    assert (committed.header.seq, committed.header.base) == (5, 4)
    assert snapshot(world).seq == 5


def test_the_first_transaction_afterwards_is_seen_and_published_if_its_run_died() -> None:
    world, _ = before()
    downgraded(world)
    folded(world)
    (part,) = put_append(world)
    committed = do_merge(world, [part, *put_append(world)])
    log = world.store.objects.pop(committed.header.log)
    found = read_snapshot(world.store, world.table.paths)
    assert (found.seq, found.unpublished) == (5, committed.header.log)
    assert part not in found.live
    assert take_base(world.table).seq == 5
    assert world.store.objects[committed.header.log][0] == log[0]


def test_a_base_after_a_downgrade_costs_what_it_did() -> None:
    world, _ = before()
    downgraded(world)
    folded(world)
    counters, start = world.store.counters, world.store.counters.as_dict()
    take_base(world.table)
    spent = {k: v - start[k] for k, v in counters.as_dict().items()}
    assert (spent["list"], spent["get"]) == (2, 1 + 1), "its log file, and the birth record"


@pytest.mark.parametrize("further", [1, 2])
@pytest.mark.parametrize("then", [lambda _: None, folded, back], ids=["v1", "folded", "back"])
def test_what_a_process_that_slept_commits_under_a_used_number_has_not_happened(
    then: Callable[[World], None], further: int
) -> None:
    world, keys = before()
    base = take_base(world.table)
    change = merge_change(world, keys, base)
    (output,) = (m.p for m in change.adds)

    def meanwhile() -> None:
        world.clock.advance(world.settings.commit_ttl)
        for _ in range(further):
            do_nothing(world)
        downgraded(world)
        then(world)

    store = Beside(world.store, act=meanwhile, what="put t/_txn/00000000000000000004")
    clock = replace(world.clock)  # it stands, as that of a virtual machine
    table = replace(world.table, store=store, clock=clock)
    with pytest.raises(CommitExpiredError, match=r"transaction t/_txn/0*4\.jsonl has not happened"):
        commit(table, replace(base, table=table), change, RUN)
    dead = world.table.paths.txn(4)
    assert dead in world.store.objects
    live = set(snapshot(world).live)
    assert set(keys) < live
    assert output not in live
    (late,) = put_append(world, q=4 + further)
    check(world, {*live, late})
    assert warnings(world) == {("txn-without-effect", dead)}
    assert 4 not in [header.seq for header in history(world.table)]
    do_nothing(world)
    check(world, {*live, late})
    run_rebuild(Work(world.table, RUN), RebuildOptions(force=True))
    check(world, {*live, late})
    del world.store.objects[dead]  # as verify advises
    check(world, {*live, late})
    assert warnings(world) == set()


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("then", [folded, back], ids=["folded", "back"])
def test_a_process_that_slept_after_its_put_is_not_told_that_nothing_happened(
    then: Callable[[World], None], known: bool
) -> None:
    """The downgrade has deleted its object with the history, before the process looks for it."""
    world, keys = before()
    header = do_merge(world, keys).header
    if not known:
        do_nothing(world)
    data = world.store.objects[world.table.paths.txn(header.seq)][0]
    downgraded(world)
    then(world)
    with nullcontext() if known else pytest.raises(CommitUnknownError, match="slept until"):
        assert has_happened(world.table, header, data)


@pytest.mark.parametrize("then", [lambda _: None, folded], ids=["v1", "folded"])
def test_properties_of_a_change_that_slept_through_a_downgrade_are_not_in_force(
    then: Callable[[World], None],
) -> None:
    world, _ = before()
    base = take_base(world.table)
    assert base.properties is not None
    wanted = msgspec.structs.replace(base.properties, sort_by=("v",))
    change = Change(op="properties", replaces=(), adds=(), counts=Counts(), properties=wanted)
    table = replace(world.table, clock=replace(world.clock))
    world.clock.advance(world.settings.commit_ttl)
    do_nothing(world)
    downgraded(world)
    then(world)
    with pytest.raises(CommitExpiredError, match="has not happened"):
        commit(table, replace(base, table=table), change, RUN)
    assert {h.op for h in transactions_of(world.table, RUN, base.seq)} == {"downgrade"}
    assert take_base(world.table).properties == base.properties
    committed = do_nothing(world)
    assert committed.header.properties == base.properties
    assert committed.header.before == "", "not the digest of what has not happened"


def test_numbers_continue_although_a_first_append_that_slept_states_properties() -> None:
    world, _ = before()
    downgraded(world)
    folded(world)
    world.clock.advance(1)
    key, t = part_key(world), world.clock.now
    properties = take_base(world.table).properties
    assert properties is not None
    late = LogContent(
        t=t,
        schema=SCHEMA,
        markers=[Marker(p=key, b=4, t=t, n=10, q=0, o=(t, t))],
        properties=[PropertiesRecord(0, t, msgspec.structs.replace(properties, sort_by=("v",)))],
    )
    name = world.table.paths.append_log(t, f"host-{world.ids.uuid7(t)}")
    world.store.put_new(name, codec.encode(late))
    base = take_base(world.table)
    assert (base.seq, base.properties) == (4, properties)
    assert do_nothing(world).header.seq == 5
    assert warnings(world) == set()


@pytest.mark.parametrize("at", [None, "now"])
def test_a_stream_that_begins_after_a_downgrade_goes_on_with_the_next_transaction(
    at: str | None,
) -> None:
    world, _ = before()
    downgraded(world)
    folded(world)
    log = AppendLog(world.table)
    offset = log.start(at)
    assert offset.seq == 4
    log._view(offset, log._look())
    counters, start = world.store.counters, world.store.counters.as_dict()
    log._view(offset, log._look())
    spent = {k: v - start[k] for k, v in counters.as_dict().items() if v - start[k]}
    assert spent == {"list": 1}, "nothing has changed"
    new = put_append(world) + put_append(world)
    assert do_merge(world, new).header.seq == 5
    assert len(pending(offset, log._view(offset, log._read()))) == 2


def test_a_log_that_is_lost_before_the_downgrade_has_deleted_the_history_is_rebuilt_from_it() -> (
    None
):
    world, _ = before()
    due = run_downgrade(Work(world.table, RUN, no_engine), DowngradeOptions()).waits_until
    assert due is not None
    world.clock.advance(due - world.clock.now)
    store = FaultyStore(world.store, Fault(6, "before"))
    with pytest.raises(Crashed, match="delete"):
        run_downgrade(Work(replace(world.table, store=store), RUN, no_engine), DowngradeOptions())
    live = set(snapshot(world).live)
    for key in [k for k in world.store.objects if "/_log/" in k]:
        del world.store.objects[key]
    run_rebuild(Work(world.table, RUN), RebuildOptions())
    assert set(snapshot(world).live) == live


@pytest.mark.parametrize("then", [lambda _: None, folded, back], ids=["v1", "folded", "back"])
def test_of_two_processes_that_slept_neither_is_told_that_it_has_happened(
    then: Callable[[World], None],
) -> None:
    """The second begins on what the first would have made; the downgrade has both numbers."""
    world, _ = before()
    table = replace(world.table, clock=replace(world.clock))
    bases = [take_base(table)]
    do_nothing(world)
    bases.append(take_base(table))
    world.clock.advance(world.settings.commit_ttl)
    do_nothing(world)
    downgraded(world)
    then(world)
    change = Change(op="properties", replaces=(), adds=(), counts=Counts())
    for base in bases:
        with pytest.raises(CommitExpiredError, match="has not happened"):
            commit(table, replace(base, table=table), change, RUN)
    assert {4, 5}.isdisjoint(header.seq for header in history(world.table))
    assert {f.kind for f in run_verify(Work(world.table), VerifyOptions()).findings} >= {
        "txn-without-effect"
    }


def test_nobody_who_slept_can_take_the_number_of_the_downgrade() -> None:
    world, keys = before()
    base = take_base(world.table)
    change = merge_change(world, keys, base)
    kept = world.table.paths.txn(4)
    table = replace(world.table, clock=replace(world.clock))
    downgraded(world)
    folded(world)
    before_it = world.store.objects[kept]
    committed = commit(table, replace(base, table=table), change, RUN)
    assert committed.header.seq == 5, "its parts are still there, so it is committed anew"
    assert world.store.objects[kept] == before_it
    assert set(keys).isdisjoint(snapshot(world).live)
