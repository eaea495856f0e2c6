"""Clone: a table of its own that holds what readers of the other one see."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from firnline.appends.append import Appender
from firnline.commit.base import take_base
from firnline.errors import (
    CommitUnknownError,
    FirnlineError,
    LogCorruptError,
    PropertiesDifferError,
    SnapshotExpiredError,
    SnapshotUnstableError,
    StreamBehindError,
    UsageError,
)
from firnline.log.sinks import newest_batches
from firnline.operations.clone.run import CloneReport, run_clone
from firnline.operations.operation import Work
from firnline.operations.options import (
    CloneOptions,
    Evolution,
    LazyOptions,
    RebuildOptions,
    RelocateOptions,
    RestoreOptions,
    VerifyOptions,
)
from firnline.operations.rebuild.run import run_rebuild
from firnline.operations.relocate.run import RelocateProgress, run_relocate
from firnline.operations.restore.run import run_restore
from firnline.operations.schema.lazy import run_lazily
from firnline.operations.verify.run import run_verify
from firnline.read.offsets import Bounds
from firnline.read.plan import ReadOptions
from firnline.read.stream import AppendStream
from firnline.settings.load import TableSettings
from firnline.state.history import history
from firnline.state.snapshot import read_snapshot
from firnline.table import Table
from tests.support import histories
from tests.support.beside import Beside
from tests.support.histories import RUN, append, filled, merge, state, table_world
from tests.support.log_tables import do_merge, put_append, v1_live
from tests.support.moving import beside, enriched, sized
from tests.support.reading import visible_ids, visible_rows
from tests.support.v1_client import V1Client
from tests.support.world import Asleep, World, make_world


def clone(world: World, name: str = "c", **options: Any) -> World:
    """A clone of the world's table, as a world of its own."""
    world.clock.advance(1)
    target = beside(world.table, name)
    run_clone(Work(world.table, RUN), CloneOptions(**options), target=target)
    return replace(world, settings=target.settings, table=target)


def lived(scratch: Path) -> World:
    """Merged, cleaned up, deletes of two ages pending, appends between them and after."""
    world = filled()
    merge(world, scratch)
    append(world, 24)
    histories.clean_up(world)
    append(world, 30)
    merge(world, scratch)
    histories.delete_lazily(world, 3)
    append(world, 36)
    histories.delete_lazily(world, 8)
    append(world, 0)  # rows that no delete hides: they came later
    return world


def objects(world: World, prefix: str) -> dict[str, bytes]:
    return {k: v for k, (v, _) in world.store.objects.items() if k.startswith(f"{prefix}/")}


def healthy(world: World) -> None:
    found = run_verify(Work(world.table), VerifyOptions(deep=True))
    assert found.healthy, found.findings
    assert not [finding for finding in found.findings if finding.severity != "note"]


@pytest.mark.long
@pytest.mark.parametrize("with_log", [False, True])
def test_a_clone_holds_the_same_rows_and_lives_on(tmp_path: Path, with_log: bool) -> None:
    world = lived(tmp_path)
    ids, before = visible_ids(world.table), objects(world, "t")
    copy = clone(world, history=with_log)
    assert objects(world, "t") == before, "nothing is written to the source"
    assert visible_ids(copy.table) == ids
    assert "c/_probe/clone" not in world.store.objects
    healthy(copy)
    append(copy, 0)
    ids += Counter(range(6))
    assert visible_ids(copy.table) == ids, "no delete of before applies to what comes later"
    merge(copy, tmp_path)
    assert visible_ids(copy.table) == ids
    histories.clean_up(copy)
    assert visible_ids(copy.table) == ids
    healthy(copy)
    assert v1_live(copy) == state(copy).live.keys()
    assert objects(world, "t") == before


@pytest.mark.long
def test_a_clone_without_its_history_is_one_transaction_over_the_live_parts(
    tmp_path: Path,
) -> None:
    world = lived(tmp_path)
    source = state(world)
    copy = clone(world)
    found = state(copy)
    assert len(objects(world, "c/_log")) == len(objects(world, "c/_txn")) == 1
    assert len(objects(world, "c/_data")) == len(source.live)
    (header,) = history(copy.table)
    assert (header.op, header.seq, header.why) == ("clone", source.seq + 1, "of memory://bucket/t")
    assert header.counts.rows_out == sum(m.n or 0 for m in source.live.values())
    for path, marker in source.live.items():
        mine = found.live[path.replace("t/", "c/", 1)]
        assert (mine.q, mine.d, mine.n, mine.order(), mine.s, mine.c, mine.t) == (
            source.sequence_of(marker),
            marker.d,
            marker.n,
            marker.order(),
            marker.s,
            marker.c,
            marker.t,
        )
    assert found.deletes == source.deletes
    with pytest.raises(UsageError):
        read_snapshot(copy.store, copy.table.paths).at(source.newest_t)


@pytest.mark.long
def test_a_clone_with_its_history_tells_the_past_and_can_be_restored(tmp_path: Path) -> None:
    world = filled()
    merge(world, tmp_path)
    then = world.clock.now
    histories.drop(world, "day=0")
    append(world, 24)
    ids = visible_ids(world.table)
    past = read_snapshot(world.store, world.table.paths).at(then)
    copy = clone(world, history=True)
    assert visible_ids(copy.table) == ids
    again = read_snapshot(copy.store, copy.table.paths).at(then)
    assert {p.replace("c/", "t/", 1) for p in again.live} == set(past.live)
    assert [h.op for h in history(copy.table)] == [h.op for h in history(world.table)]
    run_restore(Work(copy.table, RUN), RestoreOptions(to=1))
    assert visible_ids(copy.table) == Counter(range(30))
    assert visible_ids(world.table) == ids
    healthy(copy)


@pytest.mark.long
def test_columns_that_changed_lazily_are_those_of_the_source(tmp_path: Path) -> None:
    world = filled(1)
    world.clock.advance(10)
    run_lazily(Work(world.table, RUN), LazyOptions(evolution=Evolution(rename={"name": "title"})))
    copy = clone(world)
    assert state(copy).schema == state(world).schema
    assert visible_rows(copy.table) == visible_rows(world.table)
    merge(copy, tmp_path)
    assert {row["title"] for row in visible_rows(copy.table)} == {f"n{n}" for n in range(6)}


def test_extension_records_are_carried(tmp_path: Path) -> None:
    world = filled(1)
    key = next(k for k in world.store.objects if "/_log/" in k)
    later = b'{"later":{"x":1.50}}'
    for record in (later, b'{"sink":{"query":"q","batch":7}}'):
        data, at = world.store.objects[key]
        world.store.objects[key] = (enriched(data, record), at)
    for with_log in (False, True):
        copy = clone(world, f"c{with_log}", history=with_log)
        assert later in state(copy).other
        assert newest_batches(state(copy).other) == {"q": 7}
        assert all(m.unknown() for m in state(copy).live.values())


def test_a_primary_keys_newest_rows_stay_the_newest(tmp_path: Path) -> None:
    world = table_world(primary_key=["id"])
    append(world, 0)
    append(world, 3)
    copy = clone(world)
    orders = {p.rpartition("/")[2]: m.order() for p, m in state(copy).live.items()}
    assert orders == {p.rpartition("/")[2]: m.order() for p, m in state(world).live.items()}
    assert all(m.o is not None for m in state(copy).live.values())


@pytest.mark.parametrize("with_log", [False, True])
def test_a_clone_knows_what_the_source_knows_of_itself(with_log: bool) -> None:
    world = filled(2, append={"ttl": "2h"}, primary_key=["id"])
    target = beside(world.table, "c")
    bare = TableSettings.model_validate({"name": "c", "root": "memory://bucket/c"})
    target = replace(target, settings=bare)
    run_clone(Work(world.table, RUN), CloneOptions(history=with_log), target=target)
    found = take_base(target).properties
    assert found is not None
    assert (found.append_ttl, found.primary_key) == (7_200_000, ("id",))
    if not with_log:
        assert history(target)[0].properties == found
    Appender(target).append(histories.rows_from(0))
    with pytest.raises(PropertiesDifferError):
        take_base(replace(target, settings=bare.model_copy(update={"primary_key": ("day",)})))


@pytest.mark.parametrize("with_log", [False, True])
def test_settings_of_another_key_are_refused_before_anything_is_written(with_log: bool) -> None:
    world = filled(2, primary_key=["id"])
    target = beside(world.table, "c")
    settings = target.settings.model_copy(update={"primary_key": ("day",)})
    before = dict(world.store.objects)
    options = CloneOptions(history=with_log)
    with pytest.raises(PropertiesDifferError):
        run_clone(Work(world.table, RUN), options, target=replace(target, settings=settings))
    assert world.store.objects == before


def test_a_table_of_clients_of_version_1_is_cloned() -> None:
    world = make_world()
    client = V1Client(world)
    for partition in ("d=1", "d=1", "d=2"):
        client.append(partition)
    client.merge("d=1")
    client.append("d=1")
    sized(world)
    for with_log in (False, True):
        copy = clone(world, f"c{with_log}", history=with_log)
        live = {p.replace(f"c{with_log}/", "t/", 1) for p in state(copy).live}
        assert live == state(world).live.keys() == client.live()
        assert V1Client(copy).live() == state(copy).live.keys()


@pytest.mark.long
def test_a_transaction_that_nobody_published_is_in_it(tmp_path: Path) -> None:
    """A clone shows what readers of the source see, and does not publish there."""
    world = filled()
    histories.dies_at(world, "put t/_log/", "before", lambda s: merge(world, tmp_path, s))
    before = objects(world, "t")
    for with_log in (False, True):
        copy = clone(world, f"c{with_log}", history=with_log)
        assert len(take_base(copy.table).snapshot.live) == 2
        assert visible_ids(copy.table) == Counter(range(24))
        healthy(copy)
    assert objects(world, "t") == before


@pytest.mark.long
@pytest.mark.parametrize("with_log", [False, True])
def test_a_place_that_was_written_is_refused(with_log: bool) -> None:
    world = filled()
    for key in ("_log/1700000000000_x.jsonl", f"_txn/{1:020}.jsonl", "_data/d=1/x.parquet"):
        world.store.objects[f"c/{key}"] = (b"x", world.clock.now)
        before = dict(world.store.objects)
        with pytest.raises(UsageError, match="there is something at memory://bucket/c already"):
            clone(world, history=with_log)
        assert world.store.objects == before
        del world.store.objects[f"c/{key}"]
    with pytest.raises(UsageError, match="no table at memory://bucket/c"):
        clone(replace(world, table=beside(world.table, "c")), "d")


@pytest.mark.long
@pytest.mark.parametrize("name", ["t", "t/inner", "t/_data/x", ""])
def test_a_place_within_the_other_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match="lie in each other"):
        clone(filled(1), name)


def test_another_bucket_is_refused_with_the_way_to_go() -> None:
    world = filled(1)
    target = beside(world.table, "c")
    settings = target.settings.model_copy(update={"root": "memory://other/c"})
    with pytest.raises(UsageError, match="`firnline relocate memory://other/c`"):
        run_clone(Work(world.table, RUN), CloneOptions(), target=replace(target, settings=settings))


@pytest.mark.long
@pytest.mark.parametrize("with_log", [False, True])
def test_a_dry_run_writes_nothing(tmp_path: Path, with_log: bool) -> None:
    world = lived(tmp_path)
    before = dict(world.store.objects)
    options = CloneOptions(history=with_log, dry_run=True)
    report = run_clone(Work(world.table, RUN), options, target=beside(world.table, "c"))
    assert world.store.objects == before
    assert report.plan["rows"] == sum(m.n or 0 for m in state(world).live.values())
    assert (report.plan["logs"] != 0) is with_log


@pytest.mark.parametrize("with_log", [False, True])
def test_a_part_that_is_missing_is_named_before_anything_is_written(with_log: bool) -> None:
    world = filled()
    lost = min(state(world).live)
    del world.store.objects[lost]
    before = dict(world.store.objects)
    with pytest.raises(UsageError, match=lost):
        clone(world, history=with_log)
    assert world.store.objects == before


def test_a_history_that_is_missing_is_not_cloned(tmp_path: Path) -> None:
    world = lived(tmp_path)
    del world.store.objects[world.table.paths.txn(state(world).seq)]
    before = dict(world.store.objects)
    with pytest.raises(UsageError, match="the log names transaction"):
        clone(world, history=True)
    assert world.store.objects == before
    assert visible_ids(clone(world).table) == visible_ids(world.table)


@pytest.mark.parametrize("with_log", [False, True])
def test_a_clean_up_of_the_source_under_way_is_one_error_and_no_table(
    tmp_path: Path, with_log: bool
) -> None:
    world = filled()
    target = beside(world.table, "c")

    def pass_by() -> None:
        merge(world, tmp_path)
        histories.clean_up(world)

    store = Beside(world.store, what="put c/_data/day=1", act=pass_by)
    with pytest.raises(SnapshotExpiredError, match="a clean-up has passed") as raised:
        run_clone(
            Work(world.table, RUN),
            CloneOptions(history=with_log),
            target=replace(target, store=store),
        )
    assert "delete everything at memory://bucket/c" in str(raised.value)
    assert not objects(world, "c/_log")
    assert not objects(world, "c/_txn")
    with pytest.raises(SnapshotExpiredError):
        clone(world, history=with_log)
    for key in objects(world, "c"):
        del world.store.objects[key]
    copy = clone(world, history=with_log)
    assert visible_ids(copy.table) == Counter(range(24))


@pytest.mark.long
def test_a_source_that_changes_under_way_is_cloned_as_it_was(tmp_path: Path) -> None:
    for with_log in (False, True):
        world = filled()
        target = beside(world.table, "c")

        def go_on(world: World = world) -> None:
            merge(world, tmp_path)
            append(world, 24)

        store = Beside(world.store, what="put c/_data/day=1", act=go_on)
        run_clone(
            Work(world.table, RUN),
            CloneOptions(history=with_log),
            target=replace(target, store=store),
        )
        copy = replace(world, settings=target.settings, table=target)
        assert visible_ids(copy.table) == Counter(range(24))
        assert len(state(copy).live) == 8
        healthy(copy)


def test_who_writes_to_the_target_meanwhile_is_told_of() -> None:
    world = filled()
    target = beside(world.table, "c")
    store = Beside(
        world.store,
        what="put c/_data/day=1",
        act=lambda: Appender(target).append(histories.rows_from(100)),
    )
    with pytest.raises(UsageError, match="was written to memory://bucket/c while"):
        run_clone(Work(world.table, RUN), CloneOptions(), target=replace(target, store=store))
    assert visible_ids(target) == Counter(range(100, 106))


def test_another_clone_that_was_begun_there_is_not_mixed_in() -> None:
    world = filled()
    other = beside(world.table, "other")
    run_clone(Work(world.table, RUN), CloneOptions(), target=other)
    target = beside(world.table, "c")

    def die() -> None:
        raise RuntimeError("died")

    store = Beside(world.store, what="put c/_data/day=1", act=die)
    with pytest.raises(RuntimeError):
        run_clone(Work(world.table, RUN), CloneOptions(), target=replace(target, store=store))
    with pytest.raises(UsageError, match="a clone of memory://bucket/t without its history was"):
        run_clone(Work(other, RUN), CloneOptions(), target=target)
    with pytest.raises(UsageError, match="a clone of memory://bucket/t without its history was"):
        run_clone(Work(world.table, RUN), CloneOptions(history=True), target=target)
    append(world, 24)
    run_clone(Work(world.table, RUN), CloneOptions(), target=target)
    assert visible_ids(target) == Counter(range(24)), "as it was when the clone was begun"


@pytest.mark.long
def test_a_clone_that_copies_its_log_is_not_relocated_by_hand() -> None:
    world = filled()
    target = beside(world.table, "c")

    def die() -> None:
        raise RuntimeError("died")

    store = Beside(world.store, what="put c/_txn/", act=die)
    append_key = state(world)
    assert append_key.seq == 0
    histories.delete_lazily(world, 1)
    with pytest.raises(RuntimeError):
        run_clone(
            Work(world.table, RUN), CloneOptions(history=True), target=replace(target, store=store)
        )
    with pytest.raises(UsageError, match="is being cloned"):
        run_relocate(Work(target), RelocateOptions())
    with pytest.raises(FirnlineError, match="firnline relocate"):
        take_base(target)
    run_clone(Work(world.table, RUN), CloneOptions(history=True), target=target)
    assert visible_ids(target) == Counter(range(1, 24))


@pytest.mark.long
def test_a_log_of_a_clone_that_is_lost_is_rebuilt(tmp_path: Path) -> None:
    world = lived(tmp_path)
    ids = visible_ids(world.table)
    copy = clone(world)
    before = state(copy)
    histories.lose_log(copy)
    run_rebuild(Work(copy.table, RUN), RebuildOptions())
    assert visible_ids(copy.table) == ids
    assert state(copy).live.keys() == before.live.keys()
    healthy(copy)


@pytest.mark.long
def test_one_that_was_committed_and_not_published_may_be_rebuilt_too(tmp_path: Path) -> None:
    world = lived(tmp_path)
    target = beside(world.table, "c")

    def die() -> None:
        raise RuntimeError("died")

    store = Beside(world.store, what="put c/_log/", act=die)
    with pytest.raises(CommitUnknownError, match="not published yet"):
        run_clone(Work(world.table, RUN), CloneOptions(), target=replace(target, store=store))
    with pytest.raises(LogCorruptError, match="firnline rebuild"):
        take_base(target)
    run_rebuild(Work(target, RUN), RebuildOptions())
    assert visible_ids(target) == visible_ids(world.table)
    run_clone(Work(world.table, RUN), CloneOptions(), target=target)
    assert visible_ids(target) == visible_ids(world.table)


def test_a_stream_does_not_go_on_in_a_clone_without_the_history(tmp_path: Path) -> None:
    """Which appends its parts came from, the clone does not tell: one would not be delivered."""
    world = lived(tmp_path)
    here = AppendStream(world.table).start("now")
    append(world, 50)
    copy, whole = clone(world), clone(world, "whole", history=True)
    with pytest.raises(StreamBehindError, match="the table was cloned"):
        AppendStream(copy.table).latest(here, Bounds())
    stream = AppendStream(whole.table)
    batch = stream.batch(here, stream.latest(here, Bounds()), lambda _: ReadOptions())
    assert len(batch.task.parts) == 2


def test_requests_are_those_of_the_documentation() -> None:
    world = make_world()
    put_append(world, "d=1", "d=2")
    put_append(world, "d=1")
    sized(world)
    report = run_clone(Work(world.table, RUN), CloneOptions(), target=beside(world.table, "c"))
    assert report.requests["list"] == 3 + 8
    assert report.requests["get"] == 2 + 2 + 1 + 1 + 1
    assert report.requests["put"] == 3 + 2 + 3
    assert report.requests["delete"] == 1 + 1
    assert report.copied == 3


def test_requests_with_the_history_are_those_of_the_documentation() -> None:
    world = make_world()
    do_merge(world, put_append(world) + put_append(world))
    put_append(world)
    sized(world)
    report = run_clone(
        Work(world.table, RUN), CloneOptions(history=True), target=beside(world.table, "c")
    )
    logs, txns, parts = 4, 1, 4
    assert report.copied == logs + txns + parts
    relocation = {"list": 5, "get": 2 * (logs + txns), "put": logs + txns}
    assert report.requests["list"] == 5 + 3 + relocation["list"]
    assert report.requests["get"] == logs + 2 + 1 + relocation["get"]  # the log says properties
    assert report.requests["put"] == report.copied + 1 + 2 + relocation["put"]
    assert report.requests["delete"] == 1 + 1


def test_progress_is_told() -> None:
    world = make_world()
    put_append(world, *(f"d={n}" for n in range(230)))
    sized(world)
    told: list[RelocateProgress] = []
    run_clone(
        Work(world.table, RUN, tell=told.append), CloneOptions(), target=beside(world.table, "c")
    )
    assert [(p.objects_done, p.objects) for p in told] == [(n, 230) for n in range(10, 231, 10)]


def report_of(table: Table, target: Table) -> CloneReport:
    return run_clone(Work(table, RUN), CloneOptions(), target=target)


@pytest.mark.long
def test_one_that_is_complete_and_run_again_is_refused() -> None:
    world = filled()
    target = beside(world.table, "c")
    report_of(world.table, target)
    before = dict(world.store.objects)
    with pytest.raises(UsageError, match="there is something at"):
        report_of(world.table, target)
    assert world.store.objects == before


@pytest.mark.parametrize("keeps", [False, True])
def test_one_that_slept_before_it_listed_the_parts_reads_the_source_again(
    keeps: bool, tmp_path: Path
) -> None:
    world = filled()

    def maintained() -> None:
        append(world, 100)
        merge(world, tmp_path)
        histories.clean_up(world)

    store = Asleep(world.store, at="list t/_data/", meanwhile=maintained)
    target = beside(world.table, "c")
    run_clone(
        Work(replace(world.table, store=store), RUN), CloneOptions(history=keeps), target=target
    )
    assert store.slept == 1
    assert visible_ids(target) == visible_ids(world.table)


@pytest.mark.long
@pytest.mark.parametrize("at", ["put c/_log/", "put c/_txn/00000000000000000001"])
def test_one_that_slept_before_it_copied_a_file_of_the_log_says_so(at: str, tmp_path: Path) -> None:
    """Also before the last one: another run may be done, and the copy names the source."""
    world = filled()
    merge(world, tmp_path)
    target = beside(world.table, "c")
    sleeps = partial(world.clock.advance, world.settings.cleanup.grace)
    asleep = replace(target, store=Asleep(world.store, at=at, meanwhile=sleeps))
    with pytest.raises(SnapshotUnstableError, match=r"still .* while it copied the log"):
        run_clone(Work(world.table, RUN), CloneOptions(history=True), target=asleep)
    with pytest.raises(FirnlineError):
        state(replace(world, settings=target.settings, table=target))
    run_clone(Work(world.table, RUN), CloneOptions(history=True), target=target)
    assert visible_ids(target) == visible_ids(world.table)
