"""A process that stops between its checks and its put, for any time, does no harm when it wakes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import pytest

from firnline.appends.append import Appender
from firnline.commit.base import publish, take_base
from firnline.commit.transaction import Change, commit
from firnline.errors import CommitExpiredError, CommitUnknownError, DoubledRowsError
from firnline.log import codec, txn_file
from firnline.log.fence import Candidate, Stated, fence_record
from firnline.log.records import LogContent
from firnline.log.txn_file import Counts
from firnline.operations.cleanup.retention import TXN_KEPT
from firnline.operations.operation import Work
from firnline.operations.options import RebuildOptions, SweepOptions, VerifyOptions
from firnline.operations.rebuild.run import run_rebuild
from firnline.operations.sweep.run import plan_and_mark, preview
from firnline.operations.verify.run import run_verify
from firnline.properties.in_force import waits
from firnline.state.snapshot import read_snapshot
from firnline.store.create import Attempt
from firnline.table import Table
from tests.support.beside import Beside
from tests.support.cleanups import DAY, RUN, check, clean_up, keys_under, sweep
from tests.support.histories import append as append_rows
from tests.support.histories import delete_lazily, ids_of, rows_from, table_world
from tests.support.log_tables import (
    do_merge,
    do_nothing,
    merge_change,
    newest_number,
    part_key,
    put_append,
    snapshot,
)
from tests.support.world import SetClock, World, make_world


def sleeping(world: World, before: str, meanwhile: Callable[[], object], clock: str) -> Table:
    """The table of a process that stops right before it puts a key, while others go on.

    ``clock``: "counts" if it knows how long it slept, "stands" as in a paused virtual machine.
    """
    own = world.clock if clock == "counts" else SetClock(world.clock.now, world.clock.elapsed)
    store = Beside(world.store, act=meanwhile, what=f"put t/{before}")
    return replace(world.table, store=store, clock=own)


def pass_days(world: World, days: int) -> None:
    """Everybody else works for some days: transactions, clean-ups, sweeps."""
    for _ in range(days):
        world.clock.advance(DAY)
        do_nothing(world)
        clean_up(world)
        sweep(world)


@dataclass
class PausedClock:
    """The clock of a virtual machine that was paused: only the wall clock is right again."""

    world: SetClock
    stood: int

    def now_ms(self) -> int:
        return self.world.now

    def elapsed_ms(self) -> int:
        return self.stood

    def sleep(self, seconds: float) -> None:
        self.world.sleep(seconds)


@pytest.mark.long
@pytest.mark.parametrize("clock", ["counts", "stands"])
def test_a_merge_that_slept_until_its_output_was_swept_buries_nothing(clock: str) -> None:
    world = make_world()
    keys = put_append(world) + put_append(world)
    base = take_base(world.table)
    change = merge_change(world, keys, base)
    (output,) = (m.p for m in change.adds)
    table = sleeping(world, "_txn/00000000000000000001", lambda: pass_days(world, 9), clock)
    with pytest.raises(CommitUnknownError, match="began on transaction 0"):
        commit(table, replace(base, table=table), change, RUN)
    assert output not in world.store.objects
    check(world, keys)


@pytest.mark.parametrize("clock", ["counts", "stands"])
def test_a_merge_that_slept_beside_idle_sweeps_still_has_its_output(clock: str) -> None:
    """A table in which nothing is committed keeps orphans until a sweep has marked them."""
    world = make_world()
    keys = put_append(world) + put_append(world)
    base = take_base(world.table)
    change = merge_change(world, keys, base)
    (output,) = (m.p for m in change.adds)

    def sweeps() -> None:
        world.clock.advance(4 * DAY)
        assert sweep(world).deleted == 0
        assert snapshot(world).seq == 1, "the mark"
        world.clock.advance(4 * DAY)
        assert sweep(world).deleted == 1
        assert output not in world.store.objects

    table = sleeping(world, "_txn/00000000000000000001", sweeps, clock)
    with pytest.raises(CommitUnknownError, match="began on transaction 0"):
        commit(table, replace(base, table=table), change, RUN)
    check(world, keys)


@pytest.mark.long
@pytest.mark.parametrize("clock", ["counts", "stands"])
def test_a_number_that_was_used_and_deleted_is_not_used_again(clock: str) -> None:
    world = make_world()
    do_merge(world, put_append(world))
    base = take_base(world.table)
    change = merge_change(world, list(base.snapshot.live), base)

    def others() -> None:
        for _ in range(TXN_KEPT + 5):
            do_nothing(world)
        pass_days(world, 12)
        assert "t/_txn/00000000000000000002.jsonl" not in world.store.objects

    before = set(snapshot(world).live)
    table = sleeping(world, "_txn/00000000000000000002", others, clock)
    with pytest.raises(CommitUnknownError, match="slept until transaction 119"):
        commit(table, replace(base, table=table), change, RUN)
    assert "t/_txn/00000000000000000002.jsonl" in world.store.objects, "nobody goes by it"
    check(world, before)
    do_merge(world, [*before, *put_append(world)])
    world.clock.advance(9 * DAY)
    clean_up(world)
    assert "t/_txn/00000000000000000002.jsonl" not in world.store.objects


def test_a_rival_that_commits_on_a_transaction_before_its_check_does_not_make_it_undone() -> None:
    world = make_world()
    keys = put_append(world) + put_append(world)
    base = take_base(world.table)
    change = merge_change(world, keys, base)

    store = Beside(world.store, act=lambda: do_nothing(world), what="list t/_txn")
    committed = commit(replace(world.table, store=store), base, change, RUN)
    assert committed.header.seq == 1
    assert store.met, "the rival came in between"
    assert snapshot(world).seq == 2
    check(world, [m.p for m in change.adds])


def test_a_number_that_another_has_used_right_before_is_not_used_again() -> None:
    """The transaction after it names the one that it was committed on."""
    world = make_world()
    do_merge(world, put_append(world))
    base = take_base(world.table)
    change = merge_change(world, list(base.snapshot.live), base)
    used = world.table.paths.txn(2)

    def others() -> None:
        do_nothing(world)
        do_nothing(world)
        del world.store.objects[used]  # no clean-up of ours does so: a rule of the bucket, say

    table = sleeping(world, "_txn/00000000000000000002", others, "counts")
    with pytest.raises(CommitExpiredError, match="has not happened"):
        commit(table, replace(base, table=table), change, RUN)


@pytest.mark.long
def test_a_merge_that_slept_right_after_its_put_keeps_its_output() -> None:
    """Others committed on it, and deleted all transactions that would show it."""
    world = make_world()
    do_merge(world, put_append(world))
    base = take_base(world.table)
    change = merge_change(world, list(base.snapshot.live), base)
    (output,) = (m.p for m in change.adds)

    def others() -> None:
        for _ in range(TXN_KEPT + 5):
            do_nothing(world)
        pass_days(world, 12)
        assert "t/_txn/00000000000000000003.jsonl" not in world.store.objects

    store = Beside(world.store, act=others, what="list t/_txn")
    table = replace(world.table, store=store)
    attempt = Attempt()
    with pytest.raises(CommitUnknownError, match="slept until transaction"):
        commit(table, replace(base, table=table), change, RUN, attempt)
    assert attempt.may_stand, "what it wrote is not deleted"
    check(world, [output])


@pytest.mark.parametrize("clock", ["counts", "stands"])
def test_an_append_that_slept_until_its_parts_were_swept_breaks_no_reader(clock: str) -> None:
    world = table_world()
    append_rows(world, 0)

    def meanwhile() -> None:
        pass_days(world, 9)

    table = sleeping(world, "_log/", meanwhile, clock)
    if clock == "counts":
        with pytest.raises(CommitUnknownError, match=r"append\.ttl was over"):
            Appender(table).append(rows_from(100))
    else:
        Appender(table).append(rows_from(100))  # C2 is what its acknowledgement goes by
    state = read_snapshot(world.store, world.table.paths)
    assert len(state.behind) == 1
    assert sorted(ids_of(world)) == list(range(6)), "it counts for nobody"
    findings = run_verify(Work(world.table), VerifyOptions()).findings
    assert [f.object for f in findings if f.kind == "log-behind-fence"] == [*state.behind]
    assert {f.severity for f in findings} == {"note"}
    assert state.live.keys() <= world.store.objects.keys()
    world.clock.advance(2 * DAY)
    do_nothing(world)
    clean_up(world)
    assert not snapshot(world).behind, "clean-up has deleted it"


def test_an_append_that_slept_while_nothing_was_committed_counts_and_has_its_parts() -> None:
    world = table_world()
    append_rows(world, 0)

    def meanwhile() -> None:
        world.clock.advance(9 * DAY)
        sweep(world)

    with pytest.raises(CommitUnknownError, match=r"append\.ttl was over"):
        Appender(sleeping(world, "_log/", meanwhile, "counts")).append(rows_from(100))
    assert len(ids_of(world)) == 12
    assert snapshot(world).live.keys() <= world.store.objects.keys()


def test_rows_that_a_delete_hides_stay_hidden_when_their_append_lands_late() -> None:
    world = table_world()
    append_rows(world, 5_000)

    def meanwhile() -> None:
        delete_lazily(world, 1_000)
        pass_days(world, 9)
        assert not snapshot(world).deletes, "the record has left the log"

    with pytest.raises(CommitUnknownError):
        Appender(sleeping(world, "_log/", meanwhile, "counts")).append(rows_from(100))
    assert not set(ids_of(world)) & set(range(100, 106))


def test_a_publisher_that_slept_brings_no_log_file_back() -> None:
    world = make_world()
    keys = put_append(world) + put_append(world)
    committed = do_merge(world, keys)
    key = world.table.paths.txn(committed.header.seq)
    header, log_file = txn_file.decode(key, world.store.get(key), world.table.paths)
    do_merge(world, [*snapshot(world).live, *put_append(world)])

    def meanwhile() -> None:
        for _ in range(9):
            world.clock.advance(DAY)
            do_merge(world, [*snapshot(world).live, *put_append(world)])
            clean_up(world)
        assert header.log not in world.store.objects

    table = sleeping(world, header.log.removeprefix("t/"), meanwhile, "stands")
    publish(table, header, log_file, table.clock.elapsed_ms())
    assert header.log in world.store.objects
    state = read_snapshot(world.store, world.table.paths)
    assert state.behind.keys() == {header.log}
    assert state.live.keys() <= world.store.objects.keys()
    world.clock.advance(2 * DAY)
    clean_up(world)
    assert header.log not in world.store.objects


def test_the_fence_never_passes_an_append_or_run_that_may_be_under_way() -> None:
    world = make_world()
    do_merge(world, put_append(world))
    ended = waits((), world.settings, 0).ended
    for ms, seq in ((ended - 10, 0), (20, 1)):
        world.clock.advance(ms)
        do_nothing(world)
        assert snapshot(world).fence.seq == seq


@pytest.mark.long
def test_a_dry_run_and_a_plan_mark_nothing() -> None:
    world = make_world()
    put_append(world)
    world.store.objects["t/_data/d=1/018bcfe5-6802-7000-8000-0000000000ff.parquet"] = (b"", 0)
    world.clock.advance(9 * DAY)
    plan = preview(world.table, SweepOptions())
    assert (plan.waiting, plan.marks, plan.orphans) == (1, True, ())
    assert sweep(world, dry_run=True).left
    plan_and_mark(world.table, SweepOptions(dry_run=True), RUN)
    assert not keys_under(world, "_txn")
    plan_and_mark(world.table, SweepOptions(), RUN)
    assert len(keys_under(world, "_txn")) == 1


def test_a_machine_whose_wall_clock_went_on_while_it_was_paused_passes_no_append() -> None:
    """Its base is days old, whatever the other clock says: what landed since is not in it."""
    world = make_world()
    do_merge(world, put_append(world))
    under_way = newest_number(world)
    do_nothing(world)
    paused = replace(world.table, clock=PausedClock(world.clock, world.clock.elapsed))
    base = take_base(paused)
    world.clock.advance(600_000)
    (landed,) = put_append(world, q=under_way)
    world.clock.advance(3 * DAY)
    nothing = Change(op="analyze", replaces=(), adds=(), counts=Counts())
    assert commit(paused, base, nothing, RUN).published
    state = snapshot(world)
    assert not state.behind
    assert landed in state.live


def test_two_transactions_with_one_number_are_refused_by_everybody() -> None:
    """The object of the first was lost while the run of the other was under way."""
    world = make_world()
    do_merge(world, put_append(world))
    keys = put_append(world) + put_append(world)
    base = take_base(world.table)
    change = merge_change(world, keys, base)
    first = do_merge(world, keys).header
    del world.store.objects[world.table.paths.txn(first.seq)]
    world.clock.advance(1_000)
    second = commit(world.table, base, change, RUN).header
    assert (second.seq, second.log) != (first.seq, first.log)
    assert second.seq == first.seq
    with pytest.raises(DoubledRowsError, match=second.txn):
        read_snapshot(world.store, world.table.paths)
    with pytest.raises(DoubledRowsError, match=second.txn):
        take_base(world.table)
    findings = run_verify(Work(world.table), VerifyOptions()).findings
    assert [(f.severity, f.object) for f in findings if f.kind == "txn-twice"] == [
        ("error", second.log)
    ]
    run_rebuild(Work(world.table, RUN), RebuildOptions(force=True))  # as the error says
    assert sum(m.n or 0 for m in snapshot(world).live.values()) == 30
    kinds = {f.kind for f in run_verify(Work(world.table), VerifyOptions()).findings}
    assert "txn-twice" not in kinds


def test_a_fence_above_the_newest_transaction_is_none_of_this_table() -> None:
    world = make_world()
    do_merge(world, put_append(world))
    (key,) = put_append(world)
    stated = Stated(999, 5, (Candidate(998, 5, 5),))
    content = LogContent(t=world.clock.now, schema={}, other=[fence_record(stated)])
    name = world.table.paths.append_log(world.clock.now, f"w-{world.ids.uuid7(world.clock.now)}")
    world.store.put_new(name, codec.encode(content))
    world.clock.advance(9 * DAY)
    do_nothing(world)
    state = snapshot(world)
    assert state.fence.seq == 1
    assert key in state.live


def test_a_sweep_does_not_take_a_copied_transaction_for_a_younger_one() -> None:
    """A relocation writes ``_txn/`` anew: its times say nothing of when a transaction was there."""
    world = make_world()
    do_merge(world, put_append(world))
    world.clock.advance(DAY)
    do_nothing(world)
    world.clock.advance(1)
    orphan = part_key(world)
    world.clock.advance(1)
    for key in keys_under(world, "_txn"):
        world.store.objects[key] = (world.store.objects[key][0], world.clock.now)
    world.clock.advance(4 * DAY)
    sweep(world)
    assert orphan in world.store.objects


def test_an_object_under_txn_that_is_no_transaction_makes_no_commit_unknown() -> None:
    world = make_world()
    do_merge(world, put_append(world))
    keys = put_append(world)
    base = take_base(world.table)
    world.store.objects["t/_txn/notes.bak"] = (b"", world.clock.now)
    assert commit(world.table, base, merge_change(world, keys, base), RUN).published
