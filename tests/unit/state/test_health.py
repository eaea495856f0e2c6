"""The judgement of a log: who lost what, who is told, and that a plain rebuild repairs it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from firnline.appends.append import Appender
from firnline.commit import checkpoint
from firnline.commit.base import take_base
from firnline.commit.transaction import Change, commit
from firnline.errors import FindingsError, LogCorruptError, LogLostError, UsageError
from firnline.log import codec, txn_file
from firnline.log.records import Marker
from firnline.log.txn_file import Counts
from firnline.operations.merge.run import preview
from firnline.operations.operation import Work
from firnline.operations.options import MergeOptions, RebuildOptions, VerifyOptions
from firnline.operations.rebuild.run import run_rebuild
from firnline.operations.verify.run import VerifyReport, run_verify
from firnline.read.stream import AppendStream
from firnline.settings.ages import LEAST_ORPHAN_MS
from firnline.state.health import Health, confirmed_lost, require_table, unknown_parts
from firnline.state.moment import snapshot_at
from firnline.state.snapshot import read_snapshot
from firnline.state.survey import TxnSurvey
from firnline.store.base import ObjectMeta
from tests.support import histories
from tests.support.beside import Beside
from tests.support.checkpoints import by_checkpoint, by_log
from tests.support.histories import (
    RUN,
    append,
    filled,
    lose_log,
    merge,
    rows_from,
    state,
    table_world,
)
from tests.support.log_tables import do_merge, put_append
from tests.support.reading import visible_ids
from tests.support.v1_client import V1Client
from tests.support.world import FaultyStore, World, make_world

NOTES = {"v1-sees-deleted-rows", "log-clean-up-due", "part-gone-early"}


def read(world: World) -> Counter[int]:
    return visible_ids(world.table)


def logs_of(world: World) -> list[str]:
    """Log files of transactions, the oldest first."""
    return sorted(k for k in world.store.objects if "/_log/" in k and "_m_0" in k)


def verify(world: World) -> VerifyReport:
    return run_verify(Work(world.table), VerifyOptions())


def rebuild(world: World, *, revive: bool = False) -> None:
    world.clock.advance(1)
    run_rebuild(Work(world.table, RUN), RebuildOptions(revive=revive))


def refused(world: World) -> str:
    """Everybody refuses with one sentence, and nothing is written; returns it."""
    before = dict(world.store.objects)
    told = set()
    doings: list[Callable[[], object]] = [
        lambda: snapshot_at(world.table),
        lambda: read_snapshot(world.store, world.table.paths, everything=True),
        lambda: AppendStream(world.table).start(None),
        lambda: take_base(world.table),
        lambda: preview(world.table, MergeOptions()),
        lambda: Appender(world.table).append(rows_from(900)),
    ]
    for doing in doings:
        with pytest.raises(LogLostError) as caught:
            doing()
        told.add(str(caught.value))
    assert world.store.objects == before
    (sentence,) = told
    assert "`firnline rebuild`" in sentence
    report = verify(world)
    assert (report.healthy, report.findings[0].kind) == (False, "log-lost")
    return sentence


def repaired(world: World, rows: Counter[int] | dict[int, int]) -> None:
    """A plain rebuild brings everything back, and there is nothing more to rebuild."""
    rebuild(world)
    assert read(world) == rows
    # The client of version 1 in these tests does not state the sizes of its objects.
    assert not verify(world).kinds.keys() - {"part-size", *NOTES}
    with pytest.raises(UsageError, match="is whole"):
        rebuild(world)
    append(world, 500)
    assert read(world) == Counter(rows) + Counter(range(500, 506))


def busy(tmp_path: Path) -> World:
    """Three merges, each after appends, and appends behind them."""
    world = table_world()
    for number in range(3):
        appends(world, 24 * number)
        merge(world, tmp_path)
    appends(world, 72)
    assert len(logs_of(world)) == 3
    return world


def appends(world: World, first: int) -> None:
    """Four of them, which is what a merge waits for."""
    for number in range(4):
        append(world, first + 6 * number)


# --- log files deleted ----------------------------------------------------------------------------


@pytest.mark.long
def test_where_the_newest_log_files_are_deleted_everybody_is_told_and_a_rebuild_mends_it(
    tmp_path: Path,
) -> None:
    world = busy(tmp_path)
    histories.delete_lazily(world, 5)
    histories.clean_up(world)
    right = read(world)
    for key in logs_of(world)[-2:]:
        del world.store.objects[key]
    refused(world)
    repaired(world, right)


@pytest.mark.long
def test_where_only_the_newest_log_file_is_deleted_readers_lose_nothing(tmp_path: Path) -> None:
    # Published and deleted, or not published yet: nobody can tell, and it makes no difference.
    world = busy(tmp_path)
    merge(world, tmp_path)
    right = read(world)
    del world.store.objects[logs_of(world)[-1]]
    assert read(world) == right
    assert verify(world).kinds.get("txn-unpublished") == 1
    assert len(logs_of(world)) == 3
    assert take_base(world.table).seq == 4
    assert len(logs_of(world)) == 4
    assert read(world) == right


@pytest.mark.long
def test_a_log_that_lacks_the_newest_log_file_alone_is_whole_and_not_rebuilt(
    tmp_path: Path,
) -> None:
    world = busy(tmp_path)
    del world.store.objects[logs_of(world)[-1]]
    before = dict(world.store.objects)
    with pytest.raises(UsageError, match="is whole"):
        rebuild(world)
    assert world.store.objects == before


@pytest.mark.long
def test_the_newest_log_file_and_what_it_had_folded_gone_is_a_lost_log(tmp_path: Path) -> None:
    world = busy(tmp_path)
    before = set(world.store.objects)
    merge(world, tmp_path)
    right = read(world)
    content = read_snapshot(world.store, world.table.paths).contents[logs_of(world)[-1]]
    folded = {tombstone.p for tombstone in content.tombstones if tombstone.t == content.t}
    assert folded <= before
    for key in [logs_of(world)[-1], *folded]:
        del world.store.objects[key]
    refused(world)
    repaired(world, right)


def test_where_a_standing_log_file_is_deleted_what_it_buried_does_not_come_back() -> None:
    world = make_world()
    big = put_append(world, *(f"d={day}" for day in range(200)))
    first = do_merge(world, big[:1])
    do_merge(world, put_append(world))
    del world.store.objects[first.header.log]
    with pytest.raises(LogLostError, match="that of transaction 1 is gone"):
        read_snapshot(world.store, world.table.paths)
    with pytest.raises(LogLostError, match="that of transaction 1 is gone"):
        Appender(world.table).append(rows_from(0))
    assert verify(world).findings[0].kind == "log-lost"


def test_an_unpublished_transaction_is_not_taken_for_the_table_without_what_it_stands_on() -> None:
    # The transaction before it does not say what it stands on: an older version wrote it.
    world = make_world()
    big = put_append(world, *(f"d={day}" for day in range(200)))
    first = do_merge(world, big[:1])
    second = do_merge(world, put_append(world))
    assert first.header.log not in folded_by(world, second.header.log)
    says_nothing_of_standing(world, second.header.log)
    third = do_merge(world, put_append(world))
    assert first.header.log not in folded_by(world, third.header.log)
    for log in (first.header.log, third.header.log):
        del world.store.objects[log]
    before = dict(world.store.objects)
    with pytest.raises(LogLostError, match="transaction 3 was committed on transaction 1"):
        read_snapshot(world.store, world.table.paths)
    with pytest.raises(LogLostError, match="transaction 3 was committed on transaction 1"):
        state(world)
    assert world.store.objects == before


def test_an_unpublished_transaction_of_an_older_version_does_not_say_what_it_stands_on() -> None:
    world = make_world()
    put_append(world)
    header = do_merge(world, put_append(world)).header
    right = set(read_snapshot(world.store, world.table.paths).live)
    says_nothing_of_standing(world, header.log)
    key = world.table.paths.txn(1)
    log_file, at = world.store.objects.pop(header.log)
    world.store.objects[key] = (txn_file.encode(header, log_file), at)
    assert set(read_snapshot(world.store, world.table.paths).live) == right
    assert set(state(world).live) == right


def test_what_only_the_transactions_still_name_is_brought_back_by_a_plain_rebuild() -> None:
    # The newest transaction does not say what it stands on: nobody is refused.
    world = make_world()
    big = put_append(world, *(f"d={day}" for day in range(200)))
    first = do_merge(world, big[:1]).header.log
    second = do_merge(world, put_append(world)).header.log
    right = set(read_snapshot(world.store, world.table.paths).live)
    assert first not in folded_by(world, second)
    says_nothing_of_standing(world, second)
    for log in (first, *folded_by(world, first)):
        del world.store.objects[log]
    assert set(read_snapshot(world.store, world.table.paths).live) < right
    assert "log-misses-part" in verify(world).kinds
    rebuild(world)
    assert set(read_snapshot(world.store, world.table.paths).live) == right


ALIVE, DEAD = Marker("t/_data/1.parquet", 1, 1), Marker("t/_data/1.parquet", 1, 1, tmb=2)


@pytest.mark.parametrize(
    ("shown", "published", "unknown"),
    [
        (None, ALIVE, "missing"),
        (None, DEAD, ""),  # its object is deleted, and then a log need not name it any more
        (ALIVE, DEAD, "revived"),
        (ALIVE, ALIVE, ""),
        (DEAD, ALIVE, ""),  # a client of version 1 has merged it since
        (DEAD, DEAD, ""),
    ],
)
def test_a_log_lacks_a_live_part_that_it_does_not_name_and_a_dead_one_that_it_takes_for_live(
    shown: Marker | None, published: Marker, unknown: str
) -> None:
    parts = {} if shown is None else {shown.p: shown}
    missing, revived = unknown_parts(parts, TxnSurvey(parts={published.p: published}))
    assert missing == ((ALIVE.p,) if unknown == "missing" else ())
    assert revived == ((ALIVE.p,) if unknown == "revived" else ())


def says_nothing_of_standing(world: World, log: str) -> None:
    data, at = world.store.objects[log]
    content = codec.decode(log, data, world.table.paths)
    assert content.x is not None
    mark = msgspec.structs.replace(content.x, standing=None)
    world.store.objects[log] = (codec.encode(msgspec.structs.replace(content, x=mark)), at)


def folded_by(world: World, log: str) -> set[str]:
    content = codec.decode(log, world.store.objects[log][0], world.table.paths)
    return {tombstone.p for tombstone in content.tombstones}


@pytest.mark.long
def test_where_the_whole_log_is_deleted_it_is_not_an_empty_place(tmp_path: Path) -> None:
    world = busy(tmp_path)
    right = read(world)
    lose_log(world)
    refused(world)
    with pytest.raises(LogLostError):
        require_table(world.table)
    repaired(world, right)


@pytest.mark.long
def test_after_one_append_to_a_lost_log_readers_are_refused_and_not_served_a_part(
    tmp_path: Path,
) -> None:
    world = busy(tmp_path)
    writer = Appender(world.table)
    writer.append(rows_from(100))
    right = read(world)
    lose_log(world)
    world.clock.advance(10)
    writer.append(rows_from(200))  # it knows the columns, and did not look
    refused(world)
    repaired(world, right + Counter(range(200, 206)))


@pytest.mark.long
def test_the_log_of_a_table_of_appends_alone_that_is_deleted_is_missed_when_its_parts_are_old() -> (
    None
):
    world = filled()
    right = read(world)
    lose_log(world)
    del world.store.objects[world.table.paths.birth]  # as of a table that was written before
    with pytest.raises(UsageError, match="there is no table"):
        snapshot_at(world.table)  # all of it may belong to an append that is under way
    world.clock.advance(LEAST_ORPHAN_MS + 1_000)
    assert "older than any append" in str(refused_without_snapshot(world))
    with pytest.raises(FindingsError, match="not even a birth record"):
        rebuild(world)  # nobody knows whether a transaction had removed some of it
    rebuild(world, revive=True)
    assert read(world) == right


def test_a_transaction_that_vanishes_while_the_log_is_judged_is_looked_for_again() -> None:
    world = filled(2)
    histories.delete_lazily(world, 3)
    newest, txn = logs_of(world)[-1], world.table.paths.txn(1)
    published = world.store.objects.pop(newest)

    class Vanishing(FaultyStore):
        def get(self, key: str) -> bytes:
            if key == txn and newest not in world.store.objects:
                del world.store.objects[txn]
                world.store.objects[newest] = published  # somebody has published it
            return super().get(key)

    seen = read_snapshot(Vanishing(world.store), world.table.paths)
    assert seen.seq == 1
    assert newest in seen.listing


def test_a_log_is_missed_too_where_a_clock_that_was_ahead_has_named_all_parts() -> None:
    world = table_world()
    world.clock.now += 90 * LEAST_ORPHAN_MS
    for first in (0, 6):
        append(world, first)
    world.clock.now -= 90 * LEAST_ORPHAN_MS
    for key, (data, modified) in list(world.store.objects.items()):
        world.store.objects[key] = (data, modified - 90 * LEAST_ORPHAN_MS)
    lose_log(world)
    del world.store.objects[world.table.paths.birth]
    world.clock.advance(LEAST_ORPHAN_MS + 1_000)
    assert "older than any append" in str(refused_without_snapshot(world))


def copied_without_its_log() -> World:
    """A table of old appends whose objects, copied to another bucket a moment ago, lack the log."""
    world = table_world()
    append(world, 0)
    lose_log(world)
    del world.store.objects[world.table.paths.birth]
    world.clock.advance(LEAST_ORPHAN_MS + 1_000)
    for key, (data, _) in list(world.store.objects.items()):
        world.store.objects[key] = (data, world.clock.now)
    return world


def test_a_log_that_a_copy_of_the_bucket_left_out_is_missed_at_once() -> None:
    assert "older than any append" in str(refused_without_snapshot(copied_without_its_log()))


def test_parts_that_a_clone_has_copied_before_the_log_are_no_lost_table() -> None:
    world = copied_without_its_log()
    world.store.objects[world.table.paths.clone_plan] = (b"{}", world.clock.now)
    with pytest.raises(UsageError, match="there is no table"):
        snapshot_at(world.table)
    world.clock.advance(LEAST_ORPHAN_MS + 1_000)
    refused_without_snapshot(world)  # nobody completes it any more


def refused_without_snapshot(world: World) -> LogLostError:
    with pytest.raises(LogLostError) as caught:
        snapshot_at(world.table)
    for doing in (
        lambda: take_base(world.table),
        lambda: Appender(world.table).append(rows_from(9)),
    ):
        with pytest.raises(LogLostError):
            doing()
    assert verify(world).findings[0].kind == "log-lost"
    return caught.value


@pytest.mark.long
def test_a_birth_record_says_that_there_was_a_log() -> None:
    world = filled()
    right = read(world)
    assert world.table.paths.birth in world.store.objects
    assert take_base(world.table).seq == 0
    assert verify(world).kinds == {}
    lose_log(world)
    refused(world)
    repaired(world, right)


def test_the_birth_record_says_what_the_table_is_where_v1_clients_have_folded_it_away() -> None:
    world = filled(append={"ttl": "2h"})
    right = take_base(world.table).properties
    assert right is not None
    assert right.append_ttl == 7_200_000
    V1Client(world).merge("day=0")
    V1Client(world).clean_up()
    later = table_world(append={"ttl": "1h"}).settings
    base = take_base(replace(world.table, settings=later))
    assert not base.snapshot.properties
    assert (base.seq, base.born, base.properties) == (0, True, right)


def test_a_table_of_a_v1_client_has_no_birth_record() -> None:
    world = make_world()
    V1Client(world).append("d=0")
    base = take_base(world.table)
    assert (base.born, base.properties) == (False, None)


def test_a_place_where_nobody_has_written_is_no_table_for_whoever_reads() -> None:
    world = table_world()
    for doing in (
        lambda: snapshot_at(world.table),
        lambda: AppendStream(world.table).start(None),
        lambda: verify(world),
        lambda: require_table(world.table),
    ):
        with pytest.raises(UsageError, match="there is no table at memory"):
            doing()
    append(world, 0)
    require_table(world.table)
    assert sum(read(world).values()) == 6


def test_an_append_or_run_that_died_a_moment_ago_does_not_make_a_new_table_a_lost_one() -> None:
    world = table_world()
    left = world.table.paths.data_part("day=0", world.ids.uuid7(world.clock.now))
    world.store.objects[left] = (b"rows", world.clock.now)
    append(world, 0)
    assert sum(read(world).values()) == 6


def test_an_old_object_that_is_no_part_does_not_make_a_new_table_a_lost_one() -> None:
    world = table_world()
    world.store.objects[f"{world.table.paths.data_dir}_SUCCESS"] = (b"", world.clock.now)
    world.clock.advance(LEAST_ORPHAN_MS + 1_000)
    append(world, 0)
    assert sum(read(world).values()) == 6


# --- committed and not published ------------------------------------------------------------------


def test_a_reader_sees_what_is_committed_and_not_published_and_writes_nothing() -> None:
    world = make_world()
    parts = put_append(world) + put_append(world)
    log = do_merge(world, parts).header.log
    del world.store.objects[log]
    before, gets = dict(world.store.objects), world.store.counters.get
    found = read_snapshot(world.store, world.table.paths)
    assert (found.seq, found.unpublished) == (1, log)
    assert found.live.keys().isdisjoint(parts)
    assert world.store.objects == before
    assert world.store.counters.get == gets + 3  # two appends, one transaction


def test_a_reader_pays_one_list_more() -> None:
    world = make_world()
    do_merge(world, put_append(world))
    put_append(world)
    before = world.store.counters.as_dict()
    read_snapshot(world.store, world.table.paths)
    after = world.store.counters.as_dict()
    assert (after["list"] - before["list"], after["get"] - before["get"]) == (2, 2)


def test_a_reader_lists_no_transaction_that_the_log_shows() -> None:
    world = make_world()
    for _ in range(3):
        do_merge(world, put_append(world))

    class Listing(FaultyStore):
        found: list[str] = []

        def list(self, prefix: str, start_after: str | None = None) -> Iterator[ObjectMeta]:
            for meta in super().list(prefix, start_after):
                self.found.append(meta.key)
                yield meta

    store = Listing(world.store)
    read_snapshot(store, world.table.paths)
    assert store.found
    assert not [key for key in store.found if "/_txn/" in key]


def test_a_commit_pays_no_list_more_than_a_reader() -> None:
    world = make_world()
    do_merge(world, put_append(world))
    before = world.store.counters.list
    take_base(world.table)
    assert world.store.counters.list == before + 2


def test_commits_between_the_two_listings_do_not_make_a_log_look_lost() -> None:
    world = make_world()
    put_append(world)

    def rivals() -> None:
        for _ in range(3):
            do_merge(world, put_append(world))

    store = Beside(world.store, what="list t/_txn", act=rivals)
    assert read_snapshot(store, world.table.paths).seq == 3


def test_nor_do_commits_between_the_two_listings_of_every_reading() -> None:
    world = make_world()
    put_append(world)

    class Rivals(FaultyStore):
        rounds = 0

        def list(self, prefix: str, start_after: str | None = None) -> Iterator[ObjectMeta]:
            if prefix.endswith("_txn/") and self.rounds < 3:
                self.rounds += 1
                for _ in range(2):
                    do_merge(world, put_append(world))
            yield from super().list(prefix, start_after)

    assert read_snapshot(Rivals(world.store), world.table.paths).seq == 6


@pytest.mark.long
def test_a_listing_that_misses_another_transaction_than_the_last_one_did_is_no_lost_log() -> None:
    # Of several pages each, while somebody publishes: what a listing misses is there on the next.
    world = make_world()
    logs = []
    for parts in (900, 90, 1):
        made = put_append(world, *(f"d={day}" for day in range(parts)))
        logs.append(do_merge(world, made[:1]).header.log)
    newest = read_snapshot(world.store, world.table.paths).contents[logs[2]].x
    assert newest is not None
    assert newest.standing == (1, 2)
    right = set(read_snapshot(world.store, world.table.paths).live)

    class Torn(FaultyStore):
        misses = logs[:2]

        def list(self, prefix: str, start_after: str | None = None) -> Iterator[ObjectMeta]:
            missed = self.misses.pop(0) if prefix.endswith("_log/") and self.misses else ""
            yield from (m for m in super().list(prefix, start_after) if m.key != missed)

    assert set(read_snapshot(Torn(world.store), world.table.paths).live) == right


def test_a_lost_log_is_told_of_also_while_transactions_are_committed() -> None:
    world = make_world()
    for _ in range(3):
        do_merge(world, put_append(world))
    lose_log(world)

    class Rivals(FaultyStore):  # they look no more whether there is a log
        seq = 3

        def list(self, prefix: str, start_after: str | None = None) -> Iterator[ObjectMeta]:
            if prefix.endswith("_txn/"):
                self.seq += 1
                world.store.put_new(world.table.paths.txn(self.seq), b"of an older version")
            yield from super().list(prefix, start_after)

    with pytest.raises(LogLostError):
        read_snapshot(Rivals(world.store), world.table.paths)


def test_a_first_append_between_the_two_listings_does_not_make_a_log_look_lost() -> None:
    world = table_world()

    def rival() -> None:
        append(world, 0)

    store = Beside(world.store, what="list t/_txn", act=rival)
    assert len(read_snapshot(store, world.table.paths).live) == 2


def on_an_empty_log(world: World) -> str:
    """A first transaction that folded nothing; returns its part."""
    key = world.table.paths.data_part("day=0", world.ids.uuid7(world.clock.now))
    world.store.objects[key] = (b"rows", world.clock.now)
    change = Change(
        op="replace",
        replaces=(),
        adds=(Marker(p=key, b=4, t=0, n=1),),
        columns={"id": "BIGINT"},
        counts=Counts(parts_out=1, rows_out=1, rows_added=1),
    )
    commit(world.table, take_base(world.table), change, RUN)
    return key


def test_a_first_transaction_on_an_empty_log_that_nobody_published_is_seen_and_published() -> None:
    world = table_world()
    key = on_an_empty_log(world)
    lose_log(world)
    assert set(read_snapshot(world.store, world.table.paths).live) == {key}
    assert set(take_base(world.table).snapshot.live) == {key}
    assert len(logs_of(world)) == 1


@pytest.mark.long
def test_with_parts_that_it_does_not_name_the_log_is_lost(tmp_path: Path) -> None:
    world = table_world()
    on_an_empty_log(world)
    append(world, 0)
    lose_log(world)
    assert "does not name" in refused(world)
    del tmp_path


def test_a_transaction_that_folded_nothing_is_published_on_the_log_that_is_there() -> None:
    # The large log file of a client of version 1 is not folded, and the transaction buries a part.
    world = make_world()
    client = V1Client(world)
    for _ in range(2):
        client.append("d=0")
    parts = [client.append(f"d={day}") for day in range(1, 200)]
    client.merge("d=0")
    client.clean_up()
    log = do_merge(world, parts[:1]).header.log
    assert not folded_by(world, log)
    live = set(read_snapshot(world.store, world.table.paths).live)
    del world.store.objects[log]
    assert parts[0] not in live
    assert read_snapshot(world.store, world.table.paths).live.keys() == live
    assert state(world).live.keys() == live
    assert log in world.store.objects


# --- clients of version 1 -------------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.parametrize("rewrite", [False, True])
def test_after_a_clean_up_by_a_v1_client_no_deleted_row_is_shown_and_a_rebuild_mends_it(
    tmp_path: Path, rewrite: bool
) -> None:
    world = filled()
    merge(world, tmp_path)
    append(world, 24)
    histories.delete_lazily(world, 3)
    right = read(world)
    assert set(right) == set(range(3, 30))
    client = V1Client(world)
    for _ in range(2):
        new = client.append("day=7")
        world.store.objects[new] = (histories.parquet_bytes(rows_from(700, 1)), world.clock.now)
    merged = client.merge("day=7")
    assert merged is not None
    world.store.objects[merged] = (histories.parquet_bytes(rows_from(700, 2)), world.clock.now)
    client.clean_up(rewrite=rewrite)
    assert logs_of(world) == []
    assert "maybe by the clean-up of a client of log version 1" in refused(world)
    repaired(world, right + Counter({700: 1, 701: 1}))
    assert set(take_base(world.table).snapshot.deletes), "the delete is still pending"


def test_a_v1_clean_up_of_a_first_transaction_is_a_lost_log_too(tmp_path: Path) -> None:
    world = filled()
    merge(world, tmp_path)
    assert len(logs_of(world)) == 1
    client = V1Client(world)
    client.append("day=7")
    client.append("day=7")
    client.merge("day=7")
    client.clean_up()
    assert "transaction 1" in refused(world)


def test_what_a_v1_client_has_merged_is_not_there_twice_after_a_rebuild(tmp_path: Path) -> None:
    world = filled()
    merge(world, tmp_path)
    append(world, 24)
    rows = read(world)
    client = V1Client(world)
    merged = client.merge("day=0")
    assert merged is not None
    ids = sorted(k for k in rows if k % 2 == 0)
    made = rows_from(0, 2 * len(ids)).filter([k % 2 == 0 for k in range(2 * len(ids))])
    world.store.objects[merged] = (histories.parquet_bytes(made), world.clock.now)
    client.clean_up(rewrite=True)
    refused(world)
    report = run_rebuild(Work(world.table, RUN), RebuildOptions(dry_run=True))
    assert report.plan["missing"], "the parts that the client has deleted are told of"
    repaired(world, rows)


def test_what_a_v1_client_has_folded_and_deleted_is_no_loss_for_whoever_reads_by_a_checkpoint() -> (
    None
):
    # The transaction folded it too, and is not published; the client's log file is in a checkpoint.
    world = make_world()
    client = V1Client(world)
    parts = put_append(world, "d=1")
    client.append("d=0")
    client.append("d=0")
    base = take_base(world.table)
    client.merge("d=0")
    client.clean_up()
    checkpoint.write(world.table, by_log(world.table))
    log = do_merge(world, parts, base).header.log
    right = set(by_log(world.table).live)
    del world.store.objects[log]
    found = by_checkpoint(world.table)
    assert found.covered
    assert (set(found.live), found.unpublished) == (right, log)
    assert set(by_log(world.table).live) == right


# --- what does not read ---------------------------------------------------------------------------


def test_a_transaction_that_does_not_read_and_is_not_published_is_an_error_of_its_own() -> None:
    world = make_world()
    log = do_merge(world, put_append(world)).header.log
    del world.store.objects[log]
    key = world.table.paths.txn(1)
    data, at = world.store.objects[key]
    world.store.objects[key] = (data[:-5], at)
    with pytest.raises(LogCorruptError, match=r"_txn/0*1\.jsonl"):
        read_snapshot(world.store, world.table.paths)
    report = verify(world)
    assert {"log-lost", "txn-unreadable"} <= report.kinds.keys()


def test_a_command_pays_one_list_to_see_that_there_is_a_table() -> None:
    world = make_world()
    do_merge(world, put_append(world))
    before = world.store.counters.as_dict()
    require_table(world.table)
    assert world.store.counters.as_dict() == before | {"list": before["list"] + 1}


def test_a_log_of_which_nothing_says_that_it_is_lost_is_not_read_once_more() -> None:
    world = make_world()
    do_merge(world, put_append(world))
    before = world.store.counters.as_dict()
    assert confirmed_lost(world.table, Health("whole")) == ""
    assert world.store.counters.as_dict() == before


def test_the_second_look_is_paid_for_once() -> None:
    world = make_world()
    put_append(world)
    for _ in range(3):
        do_merge(world, put_append(world))
    lose_log(world)
    before = world.store.counters.list
    with pytest.raises(LogLostError):
        read_snapshot(replace(world.table).store, world.table.paths)
    assert world.store.counters.list == before + 4
