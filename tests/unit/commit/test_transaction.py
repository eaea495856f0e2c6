"""One put commits; rivals, zombies and lost answers neither lose nor double a row."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec
import pytest

from firnline.commit.base import publish, take_base
from firnline.commit.transaction import Change, Repaired, commit, commit_whole
from firnline.errors import (
    CommitConflictError,
    CommitExpiredError,
    CommitUnknownError,
    InvariantError,
    LogCorruptError,
    ObjectExistsError,
    OutcomeUnknownError,
    RowCountMismatchError,
    SchemaConflictError,
    SnapshotUnstableError,
    StoppedError,
)
from firnline.interrupts import Interrupts
from firnline.log import codec, txn_file
from firnline.log.reader import read_log
from firnline.log.records import Delete, LogContent, Marker
from firnline.log.txn_file import Counts, RunIdentity
from firnline.settings.load import settings_for_root
from firnline.state.snapshot import read_snapshot
from firnline.store.base import ObjectMeta
from firnline.store.create import Attempt
from firnline.table import Table
from tests.support.beside import Beside
from tests.support.log_tables import (
    SCHEMA,
    do_merge,
    merge_change,
    part_key,
    put_append,
    snapshot,
    v1_live,
)
from tests.support.striking import is_interrupted
from tests.support.v1_client import V1Client
from tests.support.world import Fault, FaultyStore, SetClock, Sleeping, World, make_world

GRACE = 86_400_000
RUN = RunIdentity(dag_id="merge__t", run_id="r1", try_number=1, user="ada")


def rows(world: World) -> int:
    return sum(m.n or 0 for m in snapshot(world).live.values())


def check(world: World, expected_rows: int) -> None:
    """Rows are as they were, every live part has its object, v1 clients see the same."""
    assert rows(world) == expected_rows
    live = set(snapshot(world).live)
    assert live <= world.store.objects.keys()
    assert v1_live(world) == live
    assert set(read_snapshot(world.store, world.table.paths).live) == live


def test_a_commit_replaces_parts_in_one_step() -> None:
    world = make_world()
    keys = put_append(world) + put_append(world)
    committed = do_merge(world, keys)
    assert committed.published
    assert committed.header.seq == 1
    assert len(snapshot(world).live) == 1
    check(world, 20)


@pytest.mark.parametrize(("earlier", "lists"), [(0, 2), (1, 1), (2, 1)])
def test_a_commit_costs_two_puts_and_a_list_and_the_first_one_two(earlier: int, lists: int) -> None:
    world = make_world()
    for _ in range(earlier):
        do_merge(world, put_append(world))
    keys = put_append(world)
    base = take_base(world.table)
    change = merge_change(world, keys, base)
    before = world.store.counters.as_dict()
    commit(world.table, base, change, RUN)
    after = world.store.counters.as_dict()
    spent = {k: after[k] - before[k] for k in after}
    assert (spent["put"], spent["get"], spent["list"], spent["delete"]) == (2, 0, lists, 0)


@dataclass
class Striking(FaultyStore):
    """The run is asked to stop at its first call, and interrupted before and after each."""

    interrupts: Interrupts = field(default_factory=Interrupts)

    def _call(self, name: str, act: Callable[[], Any], *, put: bool = False) -> Any:
        self.interrupts.ask(StoppedError("enough", next_step="rest"))
        assert not is_interrupted(self.interrupts.strike)
        answer = super()._call(name, act, put=put)
        assert not is_interrupted(self.interrupts.strike)
        return answer


def test_an_interrupt_waits_until_a_commit_is_answered_and_published() -> None:
    world = make_world()
    keys = put_append(world)
    base = take_base(world.table)
    table = replace(world.table, store=Striking(world.store, interrupts=world.table.interrupts))
    assert commit(table, base, merge_change(world, keys, base), RUN).published
    check(world, 10)
    assert is_interrupted(table.interrupts.strike)


def test_a_run_that_is_to_stop_commits_nothing() -> None:
    world = make_world()
    keys = put_append(world)
    base = take_base(world.table)
    change, before = merge_change(world, keys, base), dict(world.store.objects)
    world.table.interrupts.ask(StoppedError("enough", next_step="rest"))
    attempt = Attempt()
    with pytest.raises(KeyboardInterrupt):
        commit(world.table, base, change, RUN, attempt)
    assert world.store.objects == before
    assert not attempt.may_stand


def test_appends_never_conflict() -> None:
    world = make_world()
    keys = put_append(world) + put_append(world)
    base = take_base(world.table)
    put_append(world)
    do_merge(world, keys, base)
    check(world, 30)


def test_merges_of_different_partitions_do_not_conflict() -> None:
    world = make_world()
    one, two = put_append(world, "d=1"), put_append(world, "d=2")
    base = take_base(world.table)
    assert do_merge(world, one, base).header.seq == 1
    second = do_merge(world, two, base)
    assert (second.header.seq, second.header.base) == (2, 1)
    check(world, 20)


def test_of_two_merges_of_one_part_one_commits_and_the_other_conflicts() -> None:
    world = make_world()
    keys = put_append(world) + put_append(world)
    base = take_base(world.table)
    change = merge_change(world, keys, base)
    do_merge(world, keys, base)
    with pytest.raises(CommitConflictError, match="2 of the 2 parts"):
        commit(world.table, base, change, RUN)
    check(world, 20)


def test_a_lost_answer_to_the_commit_is_recognised_as_our_own_success() -> None:
    world = make_world()
    keys = put_append(world)
    base = take_base(world.table)
    change = merge_change(world, keys, base)
    faulty = FaultyStore(world.store, Fault(0, "lost"))
    table = replace_store(world.table, faulty)
    committed = commit(table, base, change, RUN)
    assert committed.header.seq == 1
    put, got, *_ = calls = [c.split("/")[1] for c in faulty.calls]
    assert (put, got, calls[-1]) == ("_txn", "_txn", "_log"), "read back, and published"
    check(world, 10)


def replace_store(table: Table, store: object) -> Table:
    return replace(table, store=store)  # type: ignore[arg-type]  # stands in for a Store


class Mute:
    """A store whose puts and gets never answer."""

    def __init__(self, world: World, *, effect: bool) -> None:
        self.world, self.effect, self.counters = world, effect, world.store.counters

    def put_new(self, key: str, data: bytes) -> None:
        if self.effect and key not in self.world.store.objects:
            self.world.store.put_new(key, data)
        raise OutcomeUnknownError(f"no answer for {key}", next_step="wait")

    def get(self, key: str) -> bytes:
        raise OutcomeUnknownError(f"no answer for {key}", next_step="wait")


@pytest.mark.parametrize("effect", [True, False])
def test_an_unknown_commit_says_so_and_deletes_nothing(effect: bool) -> None:
    world = make_world()
    keys = put_append(world)
    base = take_base(world.table)
    change = merge_change(world, keys, base)
    attempt = Attempt()
    with pytest.raises(CommitUnknownError, match="_txn/"):
        commit(replace_store(world.table, Mute(world, effect=effect)), base, change, RUN, attempt)
    assert attempt.may_stand, "else its caller would delete the new parts"
    assert {m.p for m in change.adds} <= world.store.objects.keys()
    take_base(world.table)  # whoever comes next publishes it, when it took effect
    check(world, 10)
    assert snapshot(world).seq == (1 if effect else 0)


def test_a_committer_that_died_before_publishing_is_published_by_the_next() -> None:
    world = make_world()
    keys = put_append(world) + put_append(world)
    base = take_base(world.table)
    change = merge_change(world, keys, base)
    faulty = FaultyStore(world.store, Fault(1, "lost"))

    class Dies(FaultyStore):
        def put_new(self, key: str, data: bytes) -> None:
            if "/_log/" in key:
                raise OutcomeUnknownError("gone", next_step="wait")
            super().put_new(key, data)

        def get(self, key: str) -> bytes:
            raise OutcomeUnknownError("gone", next_step="wait")

    assert faulty.calls == []
    committed = commit(replace_store(world.table, Dies(world.store)), base, change, RUN)
    assert not committed.published
    assert (snapshot(world).seq, bool(snapshot(world).unpublished)) == (1, True)
    (late,) = put_append(world)
    assert take_base(world.table).seq == 1
    check(world, 30)
    assert late in snapshot(world).live


def test_only_the_newest_transaction_is_published_again() -> None:
    world = make_world()
    first = do_merge(world, put_append(world, "d=1"))
    do_merge(world, put_append(world, *["d=2"] * 9))
    # Clean-up removed the first log file, which the second one folded: it must not come back.
    del world.store.objects[first.header.log]
    take_base(world.table)
    assert first.header.log not in world.store.objects


def test_a_lost_log_is_an_error_and_no_small_table() -> None:
    # Publishing the newest transaction again would make what it holds look like all there is,
    # and everything else like orphans.
    world = make_world()
    for day in ("d=1", "d=2", "d=3"):
        do_merge(world, put_append(world, day))
    for key in [k for k in world.store.objects if "/_log/" in k]:
        del world.store.objects[key]
    before = dict(world.store.objects)
    with pytest.raises(LogCorruptError, match=r"transaction 2 was published.*firnline rebuild"):
        take_base(world.table)
    assert world.store.objects == before


def test_rivals_between_two_listings_are_no_lost_log() -> None:
    world = make_world()
    put_append(world, "d=9")

    class Rivals(FaultyStore):
        def list(self, prefix: str, start_after: str | None = None) -> Iterator[ObjectMeta]:
            if prefix.endswith("_txn/") and len(self.calls) < 4:
                do_merge(world, put_append(world, "d=1"))
                do_merge(world, put_append(world, "d=2"))
            yield from super().list(prefix, start_after)

    assert take_base(replace_store(world.table, Rivals(world.store))).seq >= 2


def test_a_committer_slower_than_commit_ttl_does_not_commit() -> None:
    world = make_world()
    keys = put_append(world)
    base = take_base(world.table)
    change = merge_change(world, keys, base)
    world.clock.elapsed += world.settings.commit_ttl + 1
    with pytest.raises(CommitExpiredError, match="commit_ttl"):
        commit(world.table, base, change, RUN)
    assert snapshot(world).seq == 0


def test_rebasing_does_not_make_a_slow_committer_young_again() -> None:
    world = make_world()
    one, two = put_append(world, "d=1"), put_append(world, "d=2")
    base = take_base(world.table)
    change = merge_change(world, one, base)

    def rival() -> None:
        do_merge(world, two)
        world.clock.elapsed += world.settings.commit_ttl + 1

    # It is in time when it first tries, and too late when it has read what the rival did.
    store = Beside(world.store, what="put t/_txn", act=rival)
    with pytest.raises(CommitExpiredError):
        commit(replace_store(world.table, store), base, change, RUN)
    assert store.met
    assert snapshot(world).seq == 1


def test_a_committer_that_slept_between_two_puts_of_its_commit_does_not_send_the_second() -> None:
    """Others have given it up by then, and the sweep has deleted its parts."""
    world = make_world()
    keys = put_append(world)
    base = take_base(world.table)
    change = merge_change(world, keys, base)
    store = Sleeping(
        world.store, clock=world.clock, what="/_txn/", ms=world.settings.commit_ttl + 1
    )
    with pytest.raises(CommitUnknownError, match="too late to try again"):
        commit(replace_store(world.table, store), base, change, RUN)
    assert store.lost == [world.table.paths.txn(1)]
    assert take_base(world.table).seq == 0
    check(world, 10)


def whole_log(world: World) -> tuple[txn_file.TxnHeader, bytes]:
    """The transaction that a merge of a twin of this world makes."""
    twin = make_world()
    twin.clock.now, twin.ids.count = world.clock.now, world.ids.count
    do_merge(twin, put_append(twin))
    key = twin.table.paths.txn(1)
    return txn_file.decode(key, twin.store.objects[key][0], twin.table.paths)


def test_what_replaces_the_whole_log_is_not_committed_later_than_commit_ttl_after_its_reading() -> (
    None
):
    world = make_world()
    header, log_file = whole_log(world)
    began = world.clock.elapsed
    world.clock.advance(world.settings.commit_ttl + 1)
    with pytest.raises(CommitExpiredError, match=r"this merge read the table .* longer than"):
        commit_whole(world.table, header, log_file, began)
    assert not world.store.objects


def test_what_replaces_the_whole_log_is_committed_and_published_within_commit_ttl() -> None:
    world = make_world()
    header, log_file = whole_log(world)
    began = world.clock.elapsed
    world.clock.advance(world.settings.commit_ttl)
    assert commit_whole(world.table, header, log_file, began)
    assert sorted(world.store.objects) == [header.log, world.table.paths.txn(1)]


def test_a_put_that_never_arrived_is_sent_again_as_long_as_there_is_time() -> None:
    world = make_world()
    keys = put_append(world)
    base = take_base(world.table)
    change = merge_change(world, keys, base)
    store = Sleeping(world.store, clock=world.clock, what="/_txn/", ms=world.settings.commit_ttl)
    assert commit(replace_store(world.table, store), base, change, RUN).header.seq == 1
    assert store.lost == [world.table.paths.txn(1)]
    check(world, 10)


def test_a_part_that_one_delete_says_nothing_of_keeps_those_before_that_it_is_free_of() -> None:
    """Also where an older one was undone by a restore, and would hide its rows once more."""
    world = make_world()
    (key,) = put_append(world)
    for name in ("one", "two"):
        where = msgspec.Raw(b'{"op":"is_null","column":"v"}')
        change = Change(
            op="delete",
            replaces=(),
            adds=(),
            counts=Counts(),
            deletes=(Delete(name, 0, 0, where, ("*",)),),
            clean=(key,),
        )
        commit(world.table, take_base(world.table), change, RUN)
    seen = read_snapshot(world.store, world.table.paths)
    assert seen.skipped
    assert not seen.pending_deletes(seen.live[key], "d=1")


def test_a_delete_commits_beside_a_merge_of_parts_that_it_says_nothing_of() -> None:
    world = make_world()
    (key,) = put_append(world)
    base = take_base(world.table)
    do_merge(world, [key])
    where = msgspec.Raw(b'{"op":"is_null","column":"v"}')
    change = Change(
        op="delete",
        replaces=(),
        adds=(),
        counts=Counts(),
        deletes=(Delete("one", 0, 0, where, ("*",)),),
        clean=(key,),
    )
    assert commit(world.table, base, change, RUN).header.seq == 2
    assert key not in snapshot(world).live
    check(world, 10)


def test_what_is_restored_beneath_the_first_parts_of_a_partition_ends_a_commit_on_them() -> None:
    """They may have been replaced without rows that hide what is back now."""
    world = make_world(primary_key=["ts"])
    early = world.clock.now - 1000
    keys = put_append(world) + put_append(world)
    base = take_base(world.table)
    change = replace(merge_change(world, keys, base), planned=base.snapshot)
    back = Marker(p=part_key(world), b=100, t=0, n=10, q=0, o=(early, early))
    counts = Counts(parts_out=1, rows_out=10, rows_added=10)
    commit(world.table, base, Change("restore", (), (back,), counts), RUN)
    with pytest.raises(CommitConflictError, match="beneath"):
        commit(world.table, base, change, RUN)
    assert set(snapshot(world).live) == {*keys, back.p}


def test_a_late_publisher_leaves_publishing_to_others() -> None:
    world = make_world()
    committed = do_merge(world, put_append(world))
    data = world.store.objects[world.table.paths.txn(1)][0]
    header, log_file = txn_file.decode(world.table.paths.txn(1), data, world.table.paths)
    del world.store.objects[committed.header.log]
    read_at = world.clock.elapsed
    world.clock.advance(world.settings.cleanup.grace // 2 + 1)
    assert not publish(world.table, header, log_file, read_at)
    assert committed.header.log not in world.store.objects


def test_a_publisher_goes_by_the_grace_of_the_table_and_not_by_that_of_its_settings() -> None:
    """Clean-up goes by the table's: the log file may be folded and deleted after that."""
    world = make_world(cleanup={"grace": "1m"})
    committed = do_merge(world, put_append(world))
    del world.store.objects[committed.header.log]
    bare = settings_for_root(world.settings.root)
    assert bare.cleanup.grace > world.settings.cleanup.grace
    slow = replace(world.table, settings=bare, store=Slow(world.store, clock=world.clock))
    with pytest.raises(SnapshotUnstableError):
        take_base(slow)
    assert committed.header.log not in world.store.objects
    assert take_base(replace(world.table, settings=bare)).seq == 1
    assert committed.header.log in world.store.objects


def test_a_transaction_of_before_tables_said_what_they_are_is_published_by_the_settings() -> None:
    world = make_world()
    committed = do_merge(world, put_append(world))
    key = world.table.paths.txn(1)
    header, log_file = txn_file.decode(key, world.store.objects[key][0], world.table.paths)
    old = msgspec.structs.replace(header, properties=None)
    del world.store.objects[committed.header.log]
    read_at, half = world.clock.elapsed, world.settings.cleanup.grace // 2
    world.clock.advance(half + 1)
    assert not publish(world.table, old, log_file, read_at)
    assert publish(world.table, old, log_file, read_at + 1)
    assert committed.header.log in world.store.objects


@dataclass
class Slow(FaultyStore):
    """The machine sleeps for 31 s after each GET of a transaction."""

    clock: SetClock = field(default_factory=SetClock)

    def get(self, key: str) -> bytes:
        data = super().get(key)
        self.clock.advance(31_000 if "/_txn/" in key else 0)
        return data


def test_a_publisher_that_slept_between_two_puts_of_a_log_file_does_not_send_the_second() -> None:
    """It may have been published, folded and deleted by others: it must not come back."""
    world = make_world()
    keys = put_append(world)
    base = take_base(world.table)
    change = merge_change(world, keys, base)
    half = world.settings.cleanup.grace // 2
    store = Sleeping(world.store, clock=world.clock, what="/_log/", ms=half + 1)
    committed = commit(replace_store(world.table, store), base, change, RUN)
    assert store.lost == [committed.header.log]
    assert not committed.published
    assert committed.header.log not in world.store.objects
    assert take_base(world.table).seq == 1
    check(world, 10)


def test_rows_that_do_not_add_up_are_not_committed() -> None:
    world = make_world()
    keys = put_append(world)
    base = take_base(world.table)
    change = merge_change(world, keys, base)
    wrong = replace(change, counts=type(change.counts)(rows_in=10, rows_out=9))
    with pytest.raises(RowCountMismatchError, match="10 rows"):
        commit(world.table, base, wrong, RUN)
    assert not [k for k in world.store.objects if "/_txn/" in k]


def test_time_goes_on_from_the_newest_log_file_whatever_the_clock_says() -> None:
    world = make_world()
    keys = put_append(world, t=world.clock.now + 7_200_000)
    committed = do_merge(world, keys)
    assert committed.header.t == world.clock.now + 7_200_000
    check(world, 10)


def test_a_commit_leaves_one_unfolded_log_file_of_many_appends() -> None:
    world = make_world()
    keys = [key for _ in range(50) for key in put_append(world)]
    do_merge(world, keys)
    before = world.store.counters.get
    log = read_log(world.store, world.table.paths)
    assert world.store.counters.get - before == 1
    assert len(log.contents) == 1
    assert len(log.listing) == 51
    check(world, 500)


@pytest.mark.long
def test_merged_log_files_stay_few_over_many_commits() -> None:
    world = make_world()
    for _ in range(60):
        put_append(world)
        put_append(world, "d=2")
        do_merge(world, put_append(world))
    unfolded = len(read_log(world.store, world.table.paths).contents)
    assert unfolded <= 8
    check(world, 60 * 30)


def in_conflict() -> tuple[World, str]:
    """A table and the log file of a writer that gave ``v`` another type."""
    world = make_world()
    put_append(world)
    put_append(world, schema={"v": "VARCHAR"})
    return world, max(k for k in world.store.objects if "/_log/" in k)


def repaired(world: World, wrong: str, line: dict[str, str]) -> Change:
    """Nothing but the wrong log file is folded."""
    return Change(
        op="fix",
        replaces=(),
        adds=(),
        counts=Counts(),
        repair=lambda _: Repaired(folds=(wrong,), line=line),
    )


def test_a_repair_folds_the_wrong_log_file_and_states_its_columns_anew() -> None:
    world, wrong = in_conflict()
    with pytest.raises(SchemaConflictError):
        take_base(world.table)
    base = take_base(world.table, tolerant=True)
    made = commit(world.table, base, repaired(world, wrong, SCHEMA), RUN)
    assert made.base is not None
    assert made.base.snapshot.conflict is None
    assert snapshot(world).schema == SCHEMA
    assert list(snapshot(world).log_tombstones) == [wrong]
    check(world, 20)


def test_nothing_else_is_committed_on_a_conflict() -> None:
    world, _ = in_conflict()
    base = take_base(world.table, tolerant=True)
    keys = list(base.snapshot.live)[:1]
    with pytest.raises(SchemaConflictError):
        commit(world.table, base, merge_change(world, keys, base), RUN)
    assert not [k for k in world.store.objects if "/_txn/" in k]


@pytest.mark.parametrize(
    ("line", "rule"),
    [
        ({"ts": "TIMESTAMP"}, "folded columns are carried"),
        ({**SCHEMA, "v": "DATE"}, "schema lines go together"),
    ],
)
def test_a_schema_line_that_loses_or_contradicts_a_column_is_not_committed(
    line: dict[str, str], rule: str
) -> None:
    world = make_world()
    put_append(world)
    put_append(world)
    base = take_base(world.table)
    change = repaired(world, max(base.snapshot.listing), line)
    with pytest.raises(InvariantError, match=rule):
        commit(world.table, base, change, RUN)


def test_a_committed_repair_is_published_by_whoever_takes_the_next_base() -> None:
    world, wrong = in_conflict()
    base = take_base(world.table, tolerant=True)
    made = commit(world.table, base, repaired(world, wrong, SCHEMA), RUN)
    del world.store.objects[made.header.log]
    assert take_base(world.table).snapshot.schema == SCHEMA
    check(world, 20)


def test_what_a_later_version_wrote_is_carried_on() -> None:
    world = make_world()
    keys = put_append(world)
    content = LogContent(t=world.clock.now, schema={}, other=[b'{"later":{"a":1}}'])
    world.store.put_new(world.table.paths.append_log(world.clock.now, "w-9"), codec.encode(content))
    committed = do_merge(world, keys)
    assert b'{"later":{"a":1}}' in world.store.objects[committed.header.log][0]


def deleted_and_merged_by_a_v1_client(appends: int) -> tuple[World, str, str]:
    """A record that hides rows of d=2, in a log file that a client which drops it has folded.

    Returns the world and the log files of the delete and of the client.
    """
    world = make_world()
    put_append(world, *["d=1"] * appends, "d=2", q=0)
    where = msgspec.Raw(b'{"op":"is_null","column":"v"}')
    record = Delete("del1", 0, 0, where, ("d=2",))
    change = Change("delete", (), (), Counts(), deletes=(record,))
    deleted = commit(world.table, take_base(world.table), change, RUN)
    world.clock.advance(10)
    V1Client(world).append("d=1")
    V1Client(world).merge("d=1")
    return world, deleted.header.log, max(snapshot(world).listing)


def test_a_log_file_that_only_a_v1_client_folded_is_read_until_one_of_ours_has_folded_it() -> None:
    world, holder, foreign = deleted_and_merged_by_a_v1_client(2)
    base = take_base(world.table)
    commit(world.table, base, repaired(world, foreign, SCHEMA), RUN)
    read = read_snapshot(world.store, world.table.paths)
    assert foreign in read.skipped
    assert holder in read.contents
    assert list(read.deletes) == ["del1"]


@pytest.mark.long
def test_the_next_transaction_folds_what_only_a_v1_client_has_folded_however_large() -> None:
    world, holder, _ = deleted_and_merged_by_a_v1_client(200)
    committed = do_merge(world, put_append(world, "d=3"))
    read = read_snapshot(world.store, world.table.paths)
    assert holder in {tombstone.p for tombstone in read.contents[committed.header.log].tombstones}
    assert holder in read.skipped
    assert list(read.deletes) == ["del1"]


def test_the_transaction_holds_who_ran_it_and_the_whole_log_file() -> None:
    world = make_world()
    keys = put_append(world)
    base = take_base(world.table)
    commit(world.table, base, merge_change(world, keys, base), RUN)
    key = world.table.paths.txn(1)
    header, log_file = txn_file.decode(key, world.store.objects[key][0], world.table.paths)
    assert header.run == RUN
    assert world.store.objects[header.log][0] == log_file
    assert header.counts.logs_folded == 1


def test_a_damaged_transaction_file_is_an_error_at_every_byte() -> None:
    world = make_world()
    do_merge(world, put_append(world))
    key = world.table.paths.txn(1)
    whole = world.store.objects[key][0]
    for at in range(len(whole)):
        for data in (whole[:at], whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :]):
            with pytest.raises(Exception) as caught:  # noqa: PT011 - its class is checked below
                txn_file.decode(key, data, world.table.paths)
            assert type(caught.value).__module__ == "firnline.errors"


def test_a_reader_survives_clean_up_between_its_listing_and_its_fetches() -> None:
    world = make_world()
    keys = [key for _ in range(3) for key in put_append(world)]
    do_merge(world, keys)
    old = [k for k in world.store.objects if "_host-" in k]

    class CleansUp(FaultyStore):
        def get_many(self, keys: Collection[str]) -> Iterator[tuple[str, bytes | None]]:
            for key in old:
                world.store.objects.pop(key, None)
            yield from self.inner.get_many(keys)

    state = read_snapshot(CleansUp(world.store), world.table.paths, everything=True)
    assert sum(m.n or 0 for m in state.live.values()) == 30


def test_a_name_that_exists_is_never_overwritten() -> None:
    world = make_world()
    key = part_key(world)
    with pytest.raises(ObjectExistsError):
        world.store.put_new(key, b"other")


def test_a_part_that_dies_keeps_the_sequence_of_its_foreign_writer() -> None:
    """Its own transaction, and those before, may be gone when a restore or reader asks for it."""
    world = make_world()
    client = V1Client(world)
    do_merge(world, put_append(world) + put_append(world))
    world.clock.advance(1)
    part = client.append("d=2")
    assert snapshot(world).parts[part].q is None
    base = take_base(world.table)
    counts = Counts(parts_in=1, rows_in=0)
    dropped = commit(world.table, base, Change("drop", (part,), (), counts), RUN)
    assert dropped.base is not None
    log_file = dropped.base.snapshot.contents[dropped.header.log]
    assert {m.p: m.q for m in log_file.markers}[part] == 1
    world.clock.advance(GRACE + 1)
    for key in [k for k in world.store.objects if "/_log/" in k and k != dropped.header.log]:
        del world.store.objects[key]
    state = snapshot(world)
    assert state.sequence_of(state.parts[part]) == 1
