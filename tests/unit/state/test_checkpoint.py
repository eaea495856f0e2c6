"""A checkpoint saves time, and nothing else about a table depends on it."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from firnline.commit import checkpoint
from firnline.commit.base import take_base
from firnline.commit.transaction import Change, commit
from firnline.errors import CheckpointError, InvariantError, SnapshotExpiredError
from firnline.log import checkpoint as checkpoint_encode
from firnline.log import checkpoint as checkpoint_file
from firnline.log import codec
from firnline.log.columnar import WALKED, ColumnarParts
from firnline.log.parts_view import (
    PartitionsView,
    PartsView,
    dead,
    deaths,
    figures,
    orders,
    totals,
    writers,
)
from firnline.log.reader import LogRead
from firnline.log.records import (
    NO_STATS,
    Delete,
    LogContent,
    LogTombstone,
    Marker,
    hashes_json,
    sort_json,
    stats_json,
    with_unknown,
)
from firnline.log.txn_file import Counts, RunIdentity
from firnline.operations.cleanup.run import run_cleanup
from firnline.operations.operation import Work
from firnline.operations.options import CleanupOptions, RebuildOptions, VerifyOptions
from firnline.operations.rebuild.run import run_rebuild
from firnline.operations.verify.run import run_verify
from firnline.state.checkpoint import newest_usable
from firnline.state.snapshot import Snapshot, build, read_snapshot
from firnline.table import Table
from firnline.types.hashes import HashRange
from firnline.types.order import SortKey
from tests.support import histories
from tests.support.beside import Beside
from tests.support.checkpoints import ALWAYS, assert_same, by_checkpoint, by_log, checkpoints, write
from tests.support.cleanups import Refusing
from tests.support.effort import examples
from tests.support.log_tables import SCHEMA, do_merge, put_append, v1_live
from tests.support.v1_client import V1Client
from tests.support.world import Fault, FaultyStore, World, make_world

RUN = RunIdentity(run_id="r")
WHERE = msgspec.Raw(b'{"op":"<","column":"v","value":3}')


def eager_world(least: int = 1) -> World:
    """Writes a checkpoint whenever more than ``least`` markers changed."""
    return make_world(checkpoint={"min_parts": least})


def delete(world: World) -> None:
    record = Delete(id=world.ids.uuid7(world.clock.now), seq=0, t=0, where=WHERE)
    change = Change("delete", (), (), Counts(), deletes=(record,))
    commit(world.table, take_base(world.table), change, RUN)


def drop(world: World, partition: str) -> None:
    base = take_base(world.table)
    parts = base.snapshot.partitions.get(partition, [])
    rows = sum(m.n or 0 for m in parts)
    counts = Counts(parts_in=len(parts), rows_in=rows, rows_deleted=rows)
    commit(world.table, base, Change("drop", tuple(m.p for m in parts), (), counts), RUN)


def clean_up(world: World) -> Any:
    world.clock.advance(world.settings.cleanup.grace + 1)
    return run_cleanup(Work(world.table, RUN), CleanupOptions())


RANGES = hashes_json((HashRange(("id",), ("long",), 64, 3, 3),))


def merge_some(world: World, partition: str, most: int) -> None:
    base = take_base(world.table)
    keys = [m.p for m in base.snapshot.partitions.get(partition, [])][:most]
    if len(keys) > 1:
        do_merge(world, keys, base)


# --- reading --------------------------------------------------------------------------------------


def mixed() -> World:
    """Log files of every kind, a checkpoint, and newer ones."""
    world = make_world()
    V1Client(world).append("d=1")
    do_merge(world, put_append(world, "d=1") + put_append(world, "d=1"))
    put_append(world, "d=2", "")
    delete(world)
    write(world)
    put_append(world, "d=3")
    merge_some(world, "d=2", 5)
    drop(world, "d=1")
    return world


def test_a_checkpoint_and_the_newer_log_files_give_the_state_of_the_whole_log() -> None:
    world = mixed()
    state = assert_same(world.table)
    assert state.covered
    assert len(state.contents) < len(by_log(world.table).contents)
    assert isinstance(state.live, PartsView)


def test_every_key_of_a_marker_comes_back() -> None:
    world, paths = make_world(), make_world().table.paths
    stats = stats_json({"v": (-1, 9, 2), "ts": (None, None, 4)})
    path = "t/_data/d=é/"
    # A key that is added to markers has to get a column here.
    assert set(Marker.__struct_fields__) == {*"pbtnqdoschgkw", "tmb"}
    markers = [
        Marker(path + "1.parquet", 7, 9),
        Marker(path + "2.parquet", 0, 0, tmb=0, n=0, q=0, d=(), o=0),
        Marker(path + "3.parquet", 7, 9, tmb=12, n=4, q=3, d=("a", "b"), o=(1, 9), s=stats, c="r"),
        with_unknown(Marker("t/_data/no-uuid", 2**62, 9), {"zz": msgspec.Raw(b'{"a":[1]}')}),
        Marker("t/_data/a/b/c.parquet", 1, 2, n=3),
        Marker("t/_data/a-b/c.parquet", 1, 2, n=3),
        Marker("t/_data/a-c/c.parquet", 1, 2, h=RANGES, g="r1:" + "0f" * 16, w=("é", "z")),
        Marker("t/_data/a-d/c.parquet", 1, 2, k=sort_json((SortKey("v"), SortKey("w", True)))),
    ]
    data = checkpoint_encode.encode(
        checkpoint_file.CheckpointHead(seq=0, parts=8, covered=[], schemas=[]), markers, paths
    )
    parts = checkpoint_file.decode("t/_ckpt/x", data, paths).with_newer([])
    assert dict(parts.items()) == {m.p: m for m in markers}
    assert all(parts[m.p] == m for m in markers)
    assert sorted(parts) == sorted(m.p for m in markers)
    assert isinstance(parts, PartsView)
    found = dict(orders(parts.by_partition()))
    assert found.pop("a-d") == {markers[-1].sorted_by(): 1}
    assert {order for each in found.values() for order in each} == {()}
    assert "t/_data/d=é/4.parquet" not in parts
    assert all(p not in parts for p in ("t/_data/", "", "t/_data//no-uuid", "other", "t/_data/z"))
    assert world.store.objects == {}


@pytest.mark.parametrize("known", [True, False])
def test_a_checkpoint_of_a_version_without_hash_ranges_is_read(
    known: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = make_world().table.paths
    # That version had no column for them, and left those that it read with the unknown keys.
    marker = Marker("t/_data/a/c.parquet", 1, 2, n=3)
    left = with_unknown(marker, {"h": RANGES, "zz": msgspec.Raw(b"1")}) if known else marker
    schema = checkpoint_file._SCHEMA
    former = schema.remove(schema.get_field_index("h"))
    monkeypatch.setattr(checkpoint_file, "_SCHEMA", former)
    head = checkpoint_file.CheckpointHead(seq=0, parts=1, covered=[], schemas=[])
    data = checkpoint_file.encode(head, [left], paths)
    (found,) = checkpoint_file.decode("t/_ckpt/x", data, paths).with_newer([]).values()
    assert found.h == (RANGES if known else NO_STATS)
    assert found.unknown() == ({"zz": msgspec.Raw(b"1")} if known else {})
    assert (found.p, found.n) == (marker.p, 3)


def test_orders_need_no_marker_and_are_those_of_the_markers() -> None:
    world = mixed()
    quick, whole = by_checkpoint(world.table), by_log(world.table)
    found = dict(orders(quick.partitions))
    assert list(found) == list(quick.partitions)
    assert found == dict(orders(whole.partitions)) == dict(whole.orders())
    assert sum(found.values(), Counter()).total() == len(whole.live)


def test_writers_need_no_marker_and_are_those_of_the_parts_in_the_order_of_their_figures() -> None:
    world = mixed()
    quick, whole = by_checkpoint(world.table), by_log(world.table)
    assert isinstance(quick.partitions, PartitionsView)
    found = {
        one.partition: Counter(zip(one.sizes, one.rows, names, strict=True))
        for one, (partition, names) in zip(
            figures(quick.partitions), writers(quick.partitions), strict=True
        )
        if one.partition == partition
    }
    assert found == {
        partition: Counter((m.b, m.n, m.w or ()) for m in markers)
        for partition, markers in whole.partitions.items()
    }
    assert {names for each in found.values() for _, _, names in each} == {("host",)}


def test_sums_need_no_marker_and_are_those_of_the_markers() -> None:
    world = mixed()
    quick, whole = by_checkpoint(world.table), by_log(world.table)
    assert totals(quick.live) == totals(whole.live)
    assert dead(quick.parts) == dead(whole.parts) > 0
    assert deaths(quick.parts) == deaths(whole.parts) != {}
    ours, theirs = figures(quick.partitions), figures(whole.partitions)
    for mine, other in zip(ours, theirs, strict=True):
        assert mine.partition == other.partition
        pairs = zip(mine.sizes, mine.rows, strict=True)
        assert sorted(pairs) == sorted(zip(other.sizes, other.rows, strict=True))


def test_numbers_need_no_marker_and_are_those_of_the_markers() -> None:
    world = mixed()
    quick, whole = by_checkpoint(world.table), by_log(world.table)
    assert isinstance(quick.partitions, PartitionsView)
    for partition, markers in whole.partitions.items():
        found = quick.partitions.numbers(partition)
        rows = zip(*(each.tolist() for each in found[:-1]), strict=True)
        assert sorted(rows) == sorted(
            (m.b, _stated(m.n), m.t, _stated(m.q), *m.order()) for m in markers
        )
        assert not found.in_runs


def _stated(number: int | None) -> int:
    return -1 if number is None else number


def test_a_walk_through_partitions_keeps_a_few_row_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoint_file, "GROUP_ROWS", 3)
    world = make_world()
    names = [f"d={number}" for number in range(10, 30)]
    keys = put_append(world, *names, *names)
    write(world)
    state = by_checkpoint(world.table)
    assert isinstance(state.parts, ColumnarParts)
    columns = state.parts._columns
    assert isinstance(state.partitions, PartitionsView)
    for partition in names:
        state.partitions.numbers(partition)
        assert len(state.partitions[partition]) == 2
        assert len(columns._walked) <= WALKED
    assert sorted(state.parts) == sorted(keys)
    assert not columns._groups
    assert not columns._names
    assert {state.parts[key].p for key in keys} == set(keys)  # single ones, in any order
    assert len(columns._groups) == 14


def test_the_past_is_read_from_a_checkpoint_as_from_the_log() -> None:
    world = mixed()
    quick, whole = by_checkpoint(world.table), by_log(world.table)
    for t in sorted({m.t for m in whole.parts.values()} | {t for t, _ in whole.times}):
        for at in (t - 1, t):
            then = quick.at(at)
            assert dict(then.live) == dict(whole.at(at).live)
            assert dict(then.deletes) == dict(whole.at(at).deletes)
            assert totals(then.live) == totals(whole.at(at).live)
    clean_up(world)
    with pytest.raises(SnapshotExpiredError):
        by_checkpoint(world.table).at(by_log(world.table).purged)


def test_a_repair_of_the_schema_counts_for_a_checkpoint_of_the_time_before_it() -> None:
    world = make_world()
    put_append(world, "d=1", schema={"v": "INTEGER", "old": "DATE"})
    write(world)
    # What a repair does: it folds the file that is wrong and states its columns anew.
    do_merge(world, put_append(world, "d=1") + put_append(world, "d=1"))
    (merged,) = (k for k in world.store.objects if "_m_" in k and "/_log/" in k)
    data, modified = world.store.objects[merged]
    content = codec.decode(merged, data, world.table.paths)
    repaired = codec.encode(msgspec.structs.replace(content, schema=SCHEMA))
    world.store.objects[merged] = (repaired, modified)
    state = by_checkpoint(world.table)
    assert state.covered
    assert dict(state.schema) == SCHEMA


def test_no_transaction_is_built_on_a_checkpoint() -> None:
    world = mixed()
    assert not take_base(world.table).snapshot.covered
    state = by_checkpoint(world.table)
    item = next(iter(state.listing.values()))
    with pytest.raises(InvariantError, match="built on a checkpoint"):
        state.with_log(item, LogContent(t=1, schema={}))


# --- when it is not used --------------------------------------------------------------------------


def test_a_checkpoint_that_covers_a_log_file_which_is_gone_is_not_used() -> None:
    world = eager_world(1000)
    keys = put_append(world) + put_append(world)
    write(world)
    do_merge(world, keys)
    assert by_checkpoint(world.table).covered
    clean_up(world)
    assert not by_checkpoint(world.table).covered
    assert_same(world.table)


@pytest.mark.parametrize("damage", ["cut", "empty", "newer", "other", "metadata"])
def test_a_checkpoint_that_does_not_read_costs_a_warning_and_a_full_read(
    damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    world = mixed()
    right = dict(by_log(world.table).live)
    (key,) = checkpoints(world)
    data, modified = world.store.objects[key]
    paths = world.table.paths
    head = checkpoint_file.CheckpointHead(v=2, seq=0, parts=0, covered=[], schemas=[])
    log = by_log(world.table)
    less = checkpoint.head_of(log, len(log.parts))
    changed = {
        "cut": data[: len(data) // 2],
        "empty": b"",
        "newer": checkpoint_encode.encode(head, [], paths),
        "other": b"PAR1 crc32=00000000 PAR1",
        "metadata": checkpoint_encode.encode(less, [], paths),
    }[damage]
    world.store.objects[key] = (changed, modified)
    with caplog.at_level(logging.WARNING):
        state = by_checkpoint(world.table)
    assert dict(state.live) == right
    assert not state.covered
    assert key in caplog.text
    assert ("version 2" in caplog.text) == (damage == "newer")


def test_one_that_is_deleted_after_the_listing_costs_a_full_read() -> None:
    world = mixed()
    right = dict(by_log(world.table).live)
    (key,) = checkpoints(world)

    def clean_up_of_another() -> None:
        del world.store.objects[key]

    store = Beside(world.store, what="get many", act=clean_up_of_another)
    state = by_checkpoint(replace(world.table, store=store))
    assert (dict(state.live), state.covered) == (right, frozenset())


def test_the_one_before_is_used_when_the_newest_does_not_read_or_fit() -> None:
    world = mixed()
    put_append(world, "d=7")
    newest = write(world)
    older = checkpoints(world)[0]
    assert older < newest
    world.store.objects[newest] = (b"x", world.clock.now)
    assert by_checkpoint(world.table).covered
    assert_same(world.table)


def test_a_reader_finds_the_newest_beside_objects_that_are_no_checkpoints() -> None:
    world = mixed()
    for name in ("~1", "~2.parquet", "~3"):
        world.store.objects[world.table.paths.checkpoint_dir + name] = (b"x", world.clock.now)
    assert assert_same(world.table).covered


def test_one_that_an_earlier_attempt_has_fetched_is_not_fetched_again() -> None:
    world = mixed()
    found: list[checkpoint_file.Checkpoint] = []
    listing = by_log(world.table).listing
    store, paths = world.store, world.table.paths
    first = newest_usable(store, paths, listing, found)
    gets = world.store.counters.get
    assert newest_usable(store, paths, listing, found) is first is not None
    assert world.store.counters.get == gets


def test_a_small_log_is_read_without_a_request_for_checkpoints() -> None:
    world = mixed()
    before = world.store.counters.list
    state = read_snapshot(world.store, world.table.paths)
    assert (world.store.counters.list - before, state.covered) == (2, frozenset())


def test_a_large_log_costs_one_list_more_and_with_a_checkpoint_one_get() -> None:
    world = make_world()
    for _ in range(20):
        put_append(world)

    def spent() -> tuple[int, int]:
        counters = world.store.counters
        before = (counters.list, counters.get)
        by_checkpoint(world.table)
        return counters.list - before[0], counters.get - before[1]

    assert spent() == (3, 20)
    write(world)
    put_append(world)
    assert spent() == (3, 2)


def test_with_a_checkpoint_nobody_fetches_what_a_transaction_had_folded_before() -> None:
    world = make_world()
    for _ in range(5):
        do_merge(world, put_append(world) + put_append(world))
    assert len(by_log(world.table).listing) == 15
    write(world)
    before = world.store.counters.get
    assert by_checkpoint(world.table).covered
    assert world.store.counters.get == before + 1
    assert_same(world.table)


# --- writing --------------------------------------------------------------------------------------


def test_a_table_of_few_parts_never_writes_one_and_sends_no_request_for_it() -> None:
    world = make_world()
    do_merge(world, put_append(world) + put_append(world))
    report = clean_up(world)
    assert report.checkpoint is None
    assert checkpoints(world) == []
    assert world.settings.checkpoint.min_parts == 50_000


def test_a_transaction_writes_one_when_enough_has_changed_since_the_last() -> None:
    world = eager_world(6)
    keys = [key for _ in range(7) for key in put_append(world)]
    made = do_merge(world, keys[:2])
    assert made.checkpoint == checkpoints(world)[0]
    assert by_checkpoint(world.table).covered
    world.clock.advance(1000)
    assert do_merge(world, keys[2:4]).checkpoint is None
    assert len(checkpoints(world)) == 1
    for _ in range(7):
        put_append(world)
    base = take_base(world.table)
    assert do_merge(world, keys[4:6], base).checkpoint is not None
    assert_same(world.table)


@pytest.mark.parametrize("act", [checkpoint.write_when_due, checkpoint.renew])
@pytest.mark.parametrize("least", [None, 3])
def test_of_no_more_parts_than_that_nobody_asks_for_one(
    act: Callable[[Table, Snapshot], checkpoint.Written], least: int | None
) -> None:
    world = make_world(checkpoint={"min_parts": least})
    for _ in range(3):
        put_append(world)
    state, before = by_log(world.table), world.store.counters.as_dict()
    assert act(world.table, state) == checkpoint.Written()
    assert world.store.counters.as_dict() == before


@pytest.mark.parametrize("act", [checkpoint.write_when_due, checkpoint.renew])
def test_none_is_written_while_columns_are_in_dispute(
    act: Callable[[Table, Snapshot], checkpoint.Written],
) -> None:
    world = eager_world()
    for kind in ("INTEGER", "DATE"):
        put_append(world, "d=1", "d=2", schema={"v": kind})
    state = read_snapshot(world.store, world.table.paths, everything=True, tolerant=True)
    assert state.conflict is not None
    assert act(world.table, state) == checkpoint.Written()
    assert checkpoints(world) == []


def test_as_many_markers_as_that_since_the_last_are_not_enough() -> None:
    world = eager_world(2)
    put_append(world, "d=1", "d=2", "d=3")
    assert checkpoint.write_when_due(world.table, by_log(world.table)).key is not None
    for partitions, due in ((2, False), (1, True)):
        put_append(world, *(f"d={n}" for n in range(partitions)))
        made = checkpoint.write_when_due(world.table, by_log(world.table))
        assert (made.key is not None) == due


def test_null_means_never() -> None:
    world = make_world(checkpoint={"min_parts": None})
    do_merge(world, put_append(world) + put_append(world))
    clean_up(world)
    assert checkpoints(world) == []


class Unwritable:
    """A store that takes nothing under ``_ckpt/``."""

    def __init__(self, world: World) -> None:
        self._world = world

    def __getattr__(self, name: str) -> Any:
        return getattr(self._world.store, name)

    def put_new(self, key: str, data: bytes) -> None:
        if "/_ckpt/" in key:
            raise CheckpointError("no room", next_step="make some")
        self._world.store.put_new(key, data)


def test_a_commit_whose_checkpoint_fails_is_a_commit_with_a_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = eager_world()
    keys = put_append(world) + put_append(world)
    table = replace(world.table, store=Unwritable(world))
    base = take_base(table)
    from tests.support.log_tables import merge_change

    made = commit(table, base, merge_change(world, keys, base), RUN)
    assert made.published
    assert made.checkpoint is None
    assert "no room" in made.warning
    assert "no room" in caplog.text
    world.clock.advance(world.settings.cleanup.grace + 1)
    report = run_cleanup(Work(table, RUN), CleanupOptions())
    assert report.parts == 2
    assert report.warnings[0].startswith("no checkpoint was written: no room")
    assert "after the clean-up: no checkpoint was written" in caplog.text


def test_a_clean_up_that_deletes_log_files_writes_a_new_one_and_keeps_two() -> None:
    world, deleted = eager_world(), 0
    for _ in range(4):
        do_merge(world, put_append(world) + put_append(world))
        old = set(checkpoints(world))
        report = clean_up(world)
        assert (report.checkpoint, report.warnings) == (checkpoints(world)[-1], ())
        assert report.checkpoints_deleted == len(old - set(checkpoints(world)))
        deleted += report.checkpoints_deleted
        read = by_checkpoint(world.table)
        own = {k for k, i in read.listing.items() if i.name.seq == report.transactions[0]}
        assert own
        assert own <= read.covered, "it holds the state after the clean-up"
        assert_same(world.table)
    assert deleted
    assert len(checkpoints(world)) <= 2
    last = clean_up(world)
    assert (last.log_files, last.transactions, last.checkpoint) == (1, (), checkpoints(world)[-1])
    assert by_checkpoint(world.table).covered == set(by_log(world.table).listing)
    before = dict(world.store.objects)
    assert clean_up(world).checkpoint is None
    assert world.store.objects == before
    assert "_ckpt" not in str(v1_live(world))


def test_a_clean_up_deletes_no_object_that_is_no_checkpoint() -> None:
    world = eager_world()
    strange = {world.table.paths.checkpoint_dir + name for name in ("0", "~", "x.parquet")}
    world.store.objects |= dict.fromkeys(strange, (b"x", world.clock.now))
    for _ in range(3):
        do_merge(world, put_append(world) + put_append(world))
        clean_up(world)
    assert strange < world.store.objects.keys()


def test_a_clean_up_leaves_the_newest_that_is_usable_besides_its_own() -> None:
    # A reader who has listed the log before it may need that one.
    world = eager_world()
    put_append(world, "d=1", "d=2")
    oldest, usable, unused = write(world), write(world), write(world)
    cover_what_is_gone(world, unused)
    made = checkpoint.renew(world.table, by_log(world.table))
    assert checkpoints(world) == [usable, made.key]
    assert (made.deleted, made.warning) == (2, "")
    assert oldest < usable


def cover_what_is_gone(world: World, key: str) -> None:
    """A checkpoint covers a log file besides that somebody has deleted since."""
    paths = world.table.paths
    read = checkpoint_file.decode(key, world.store.objects[key][0], paths)
    gone = checkpoint_file.Covered(paths.append_log(1_700_000_000_000, "host-" + "0" * 8), 0)
    head = msgspec.structs.replace(read.head, covered=[*read.head.covered, gone])
    data = checkpoint_encode.encode(head, read.with_newer([]).values(), paths)
    world.store.objects[key] = (data, world.clock.now)


def test_an_older_one_that_cannot_be_deleted_is_told_of_and_does_not_count() -> None:
    world = eager_world()
    put_append(world, "d=1", "d=2")
    stays, goes, _ = write(world), write(world), write(world)
    table = replace(world.table, store=Refusing(world.store, refuse=frozenset({stays})))
    made = checkpoint.renew(table, by_log(world.table))
    assert (made.deleted, stays in made.warning) == (1, True)
    assert stays in checkpoints(world)
    assert goes not in checkpoints(world)


def test_what_was_written_counts_where_the_older_ones_cannot_be_read() -> None:
    world = eager_world()
    put_append(world, "d=1", "d=2")
    write(world)
    store = FaultyStore(world.store, Fault(2, "lost"))  # the GET after LIST and PUT
    made = checkpoint.renew(replace(world.table, store=store), by_log(world.table))
    assert made.key in checkpoints(world)
    assert made.warning.startswith("older checkpoints stay")


def test_a_clean_up_leaves_none_in_its_place_that_covers_what_it_deleted_itself() -> None:
    """Also where log files alone go, and nothing is committed."""
    world = eager_world()
    put_append(world, "d=1", "d=2")
    usable = write(world)
    known = by_log(world.table).listing.keys()
    put_append(world, "d=2")
    (log,) = by_log(world.table).listing.keys() - known
    world.clock.advance(1)
    t, content = world.clock.now, by_log(world.table).contents[log]
    folded = LogContent(
        t=t,
        schema=content.schema,
        markers=content.markers,
        tombstones=[LogTombstone(log, t)],
    )
    name = f"{world.table.paths.log_dir}{t}_m_foreign-host.jsonl"
    world.store.put_new(name, codec.encode(folded))
    covering = write(world)
    assert usable < covering
    report = clean_up(world)
    assert (report.log_files, report.transactions) == (1, ())
    assert checkpoints(world) == [usable, report.checkpoint]


def test_a_clean_up_leaves_a_later_versions_newest_checkpoint_alone() -> None:
    world = eager_world()
    head = checkpoint_file.CheckpointHead(v=2, seq=0, parts=0, covered=[], schemas=[])
    key = world.table.paths.checkpoint(7, world.ids.uuid7(world.clock.now))
    world.store.objects[key] = (checkpoint_encode.encode(head, [], world.table.paths), 1)
    do_merge(world, put_append(world) + put_append(world))
    clean_up(world)
    assert key in checkpoints(world)


# --- verify ---------------------------------------------------------------------------------------


@pytest.mark.long
def test_a_checkpoint_that_contradicts_the_log_is_left_out() -> None:
    world = mixed()
    right = by_log(world.table)
    contradict(world)
    assert dict(by_checkpoint(world.table).live) == dict(right.live)


def contradict(world: World) -> None:
    """The newest checkpoint counts another number of rows in every part."""
    (key,) = checkpoints(world)
    read = checkpoint_file.decode(key, world.store.objects[key][0], world.table.paths)
    old = read.with_newer([]).values()
    wrong = [msgspec.structs.replace(m, n=(m.n or 0) + 1) for m in old]
    data = checkpoint_encode.encode(read.head, wrong, world.table.paths)
    world.store.objects[key] = (data, world.clock.now)


def kinds(world: World) -> dict[str, int]:
    return run_verify(Work(world.table), VerifyOptions()).kinds


def test_verify_finds_nothing_wrong_with_checkpoints_that_fit() -> None:
    world = mixed()
    assert not {k for k in kinds(world) if k.startswith("checkpoint")}


def test_verify_reads_a_checkpoint_as_readers_do_beside_a_folded_log_file_that_is_back() -> None:
    """A writer that slept has created it once more: it lists a part alive that was dropped."""
    world = eager_world()
    put_append(world, "d=1", "d=2", "d=2")
    (key,) = (k for k in world.store.objects if k.startswith(world.table.paths.log_dir))
    appended = world.store.objects[key]
    drop(world, "d=1")
    clean_up(world)
    clean_up(world)
    assert key not in world.store.objects
    world.store.objects[key] = appended
    assert by_checkpoint(world.table).covered
    assert not {kind for kind in kinds(world) if kind.startswith("checkpoint")}


def test_a_checkpoint_from_before_a_clean_up_brings_no_dropped_part_back() -> None:
    """The clean-up ended before it wrote one of its own, and a log file came back since."""
    world = eager_world()
    first = put_append(world, "d=1") + put_append(world, "d=1")
    do_merge(world, first)
    put_append(world, "d=2", "d=2")
    old = {key: world.store.objects[key] for key in checkpoints(world)}
    assert old
    logs = {k: v for k, v in world.store.objects.items() if k.startswith(world.table.paths.log_dir)}
    drop(world, "d=1")
    clean_up(world)
    clean_up(world)
    for key in checkpoints(world):
        del world.store.objects[key]
    world.store.objects |= old
    world.store.objects |= {key: (held, world.clock.now) for key, (held, _) in logs.items()}
    assert assert_same(world.table).live.keys() == by_log(world.table).live.keys()
    assert len(by_checkpoint(world.table).live) == 2
    assert "checkpoint-differs" not in kinds(world)


def test_the_next_transaction_writes_the_checkpoint_that_a_clean_up_did_not() -> None:
    world = eager_world(62)
    put_append(world, "d=1", "d=1", *["d=2"] * 60)
    put_append(world, "d=1")
    drop(world, "d=1")
    assert len(checkpoints(world)) == 1
    world.clock.advance(world.settings.cleanup.grace + 1)

    def cleans(store: Any) -> None:
        run_cleanup(Work(replace(world.table, store=store), RUN), CleanupOptions())

    assert histories.dies_at(world, "put t/_ckpt", "before", cleans)
    (key,) = checkpoints(world)
    state = by_log(world.table)
    cleaned = max(item.modified_ms for item in state.listing.values())
    # Too little is newer than it to be worth another one, but that it is of no use.
    for modified, written in ((cleaned, False), (cleaned - 1, True), (cleaned - 1, False)):
        world.store.objects[key] = (world.store.objects[key][0], modified)
        assert (checkpoint.write_when_due(world.table, state).key is not None) == written
    assert by_checkpoint(world.table).covered


def test_a_checkpoint_has_no_part_that_only_folded_log_files_list() -> None:
    world = eager_world()
    put_append(world, "d=1", "d=2", "d=2")
    drop(world, "d=1")
    clean_up(world)
    state = by_log(world.table)
    assert len(state.parts) == 3, "the log files that it folded are there for another grace"
    (key,) = checkpoints(world)[-1:]
    read = checkpoint_file.decode(key, world.store.objects[key][0], world.table.paths)
    assert read.with_newer([]).keys() == state.live.keys()
    assert len(state.live) == 2


def test_verify_tells_of_a_checkpoint_that_says_something_else() -> None:
    world = mixed()
    contradict(world)
    assert kinds(world)["checkpoint-differs"] == 1


def test_verify_tells_of_checkpoints_that_nobody_can_use() -> None:
    world = mixed()
    (key,) = checkpoints(world)
    whole = world.store.objects[key]
    world.store.objects[key] = (whole[0][:-9], 1)
    assert kinds(world)["checkpoint-unreadable"] == 1
    world.store.objects[key] = whole
    covered = by_checkpoint(world.table).covered
    clean_up(world)
    clean_up(world)
    assert not covered <= set(world.store.objects)
    assert kinds(world)["checkpoint-unused"] == 1


# --- histories ------------------------------------------------------------------------------------

STEPS = (
    "append", "append", "merge", "merge all", "drop", "delete", "checkpoint", "checkpoint",
    "clean-up", "v1 append", "v1 merge", "wait",
)  # fmt: skip


def take_step(world: World, step: str, partition: str) -> None:
    world.clock.advance(7)
    match step:
        case "append":
            put_append(world, partition, q=take_base(world.table).seq)
        case "merge":
            merge_some(world, partition, 2)
        case "merge all":
            merge_some(world, partition, 100)
        case "drop":
            drop(world, partition)
        case "delete":
            delete(world)
        case "checkpoint":
            write(world)
        case "clean-up":
            clean_up(world)
        case "v1 append":
            V1Client(world).append(partition)
        case "v1 merge":
            V1Client(world).merge(partition)
        case _:
            world.clock.advance(world.settings.cleanup.grace * 2)


@pytest.mark.long
@examples(25, 1_000)
@given(
    st.lists(st.tuples(st.sampled_from(STEPS), st.sampled_from(["d=1", "d=2"])), max_size=14),
    st.booleans(),
)
@example(  # our own clean-up after a fold by a client of version 1
    [("append", "d=1"), ("append", "d=2"), ("merge", "d=1"), ("drop", "d=1"), ("v1 merge", "d=2"),
     ("clean-up", "d=1")],
    False,
)  # fmt: skip
@example(  # a delete of parts that were dead before it, and a transaction that leaves it out
    [("drop", "d=1"), ("drop", "d=2"), ("delete", "d=1"), ("append", "d=1"), ("append", "d=1"),
     ("wait", "d=1"), ("merge", "d=1")],
    False,
)  # fmt: skip
def test_whatever_happened_any_usable_checkpoint_gives_the_state_of_the_log(
    steps: list[tuple[str, str]], own: bool
) -> None:
    world = eager_world(2) if own else make_world()
    put_append(world, "d=1", "d=2")
    for step, partition in steps:
        take_step(world, step, partition)
        assert_same(world.table)
    every_checkpoint_agrees(world)


def every_checkpoint_agrees(world: World) -> None:
    """Each of them, not the newest alone."""
    there = {key: world.store.objects.pop(key) for key in checkpoints(world)}
    for key, held in there.items():
        world.store.objects[key] = held
        assert_same(world.table)
        del world.store.objects[key]


def test_a_reading_without_any_log_file_is_empty() -> None:
    world = make_world()
    state: Snapshot = read_snapshot(world.store, world.table.paths, checkpoint_above=ALWAYS)
    assert (dict(state.live), state.covered) == ({}, frozenset())


def test_a_delete_survives_a_v1_client_that_folds_its_log_file_and_our_fold_of_that() -> None:
    """Such a client carries no extension records, and readers skip what one of us has folded."""
    world = make_world()
    put_append(world, "d=1", "d=2")
    put_append(world, "d=1")
    delete(world)
    world.clock.advance(7)
    V1Client(world).merge("d=1")
    delete(world)
    (part,) = by_checkpoint(world.table).partitions["d=2"]
    for state in (take_base(world.table).snapshot, assert_same(world.table)):
        assert len(state.pending_deletes(part, "d=2")) == 2


def test_a_delete_that_a_checkpoint_missed_survives_a_v1_client_that_folds_it() -> None:
    # Its listing was of several pages, and somebody published on one that was read already.
    world = make_world()
    put_append(world, "d=1", "d=2")
    put_append(world, "d=1")
    delete(world)
    V1Client(world).merge("d=1")
    whole = by_log(world.table)
    (log,) = (key for key, item in whole.listing.items() if item.name.seq)
    listing = {key: item for key, item in whole.listing.items() if key != log}
    contents = {key: whole.contents[key] for key in listing}
    checkpoint.write(world.table, build(world.table.paths, LogRead(listing, contents)))
    state = assert_same(world.table)
    assert state.covered
    (part,) = state.partitions["d=2"]
    assert len(state.pending_deletes(part, "d=2")) == 1


@pytest.mark.long
def test_a_lost_log_is_rebuilt_beside_checkpoints_and_none_of_them_is_used_for_it(
    tmp_path: Path,
) -> None:
    world = histories.filled(checkpoint={"min_parts": 1})
    histories.merge(world, tmp_path)
    histories.append(world, 100)
    rows = histories.ids_of(world)
    assert checkpoints(world)
    assert by_checkpoint(world.table).covered
    histories.lose_log(world)
    run_rebuild(Work(world.table, RUN), RebuildOptions())
    state = assert_same(world.table)
    assert not state.covered
    assert histories.ids_of(world) == rows
