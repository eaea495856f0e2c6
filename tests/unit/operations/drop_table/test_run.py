"""The end of a table: a transaction that can be undone, and later every object."""

from __future__ import annotations

import itertools
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest

from firnline.appends.append import Appender
from firnline.errors import (
    CommitConflictError,
    FirnlineError,
    LogLostError,
    NoTableError,
    PlanChangedError,
    SnapshotUnstableError,
    StoreAccessError,
    UsageError,
)
from firnline.ids import format_uuid7
from firnline.operations.cleanup.run import run_cleanup
from firnline.operations.drop.run import run_drop
from firnline.operations.drop_table.plan import DropTablePlan
from firnline.operations.drop_table.run import DropTableFailedError
from firnline.operations.mirror.after import publish_committed
from firnline.operations.mirror.run import run_mirror
from firnline.operations.operation import Work
from firnline.operations.options import (
    CleanupOptions,
    DropOptions,
    MirrorOptions,
    RestoreOptions,
    SweepOptions,
)
from firnline.operations.restore.run import run_restore
from firnline.operations.sweep.run import run_sweep
from firnline.state.history import history
from firnline.store.base import Deleted
from tests.support import histories
from tests.support.ending import drop_table, dropped, due, over, plan, state_of
from tests.support.histories import RUN, append, filled, ids_of, rows_from, table_world
from tests.support.world import Asleep, Crashed, Fault, FaultyStore, MemoryStore, World

DAY_MS = 86_400_000


def kinds(world: World) -> set[str]:
    return {key.split("/")[1] for key in world.store.objects}


def spent(requests: dict[str, int]) -> dict[str, int]:
    counted = ("get", "put", "list", "head", "delete")
    return {kind: requests[kind] for kind in counted if requests[kind]}


# --- the first run --------------------------------------------------------------------------------


def test_the_first_run_is_one_drop_of_all_parts_that_a_restore_undoes() -> None:
    world = filled()
    before = set(world.store.objects)
    world.clock.advance(10)
    report = drop_table(world.table)
    assert (report.transaction, report.plan["parts"], report.plan["rows"]) == (1, 8, 24)
    assert report.plan["restore_to"] == 0
    assert report.due_ms == world.clock.now + DAY_MS
    (header,) = history(world.table)
    assert (header.op, header.why, header.counts.parts_in) == ("drop", "drop-table", 8)
    assert before <= set(world.store.objects), "nothing is deleted"
    assert state_of(world.table) == "dropped"
    run_restore(Work(world.table, RUN), RestoreOptions(to=0))
    assert ids_of(world) == dict.fromkeys(range(24), 1)


def test_what_it_would_drop_is_shown_with_mirrors_prepared_changes_and_certificates() -> None:
    world = filled(2, mirror=["delta", {"iceberg": {"catalog": "c", "name": "lake.{table}"}}])
    key = world.table.paths.certificate(world.ids.uuid7(world.clock.now))
    world.store.objects[key] = (b"{}", world.clock.now)
    shown = plan(world.table, named_in="/etc/tables.yaml").to_json()
    assert shown["phase"] == "drop"
    assert (shown["partitions"], shown["parts"], shown["rows"]) == (2, 4, 12)
    assert (shown["mirrors"], shown["prepared"]) == (["delta", "iceberg"], [])
    assert (shown["certificates"], shown["named_in"]) == (1, "/etc/tables.yaml")
    assert shown["catalog"] == "lake.t in the Iceberg catalog c"
    assert shown["wait_ms"] == DAY_MS


def test_a_plan_writes_nothing_and_neither_does_a_dry_run() -> None:
    world = filled()
    before = dict(world.store.objects)
    assert not plan(world.table).nothing_to_do
    assert drop_table(world.table, dry_run=True, name=None).transaction is None
    assert world.store.objects == before


@pytest.mark.parametrize(
    ("name", "said"), [(None, "needs the name"), ("T", "'T' was given"), (" t", "' t' was given")]
)
def test_only_the_exact_name_drops(name: str | None, said: str) -> None:
    for world in (filled(), due()):
        before = dict(world.store.objects)
        with pytest.raises(UsageError, match=said):
            drop_table(world.table, name=name)
        assert world.store.objects == before


def test_a_table_that_changed_since_it_was_shown_is_not_dropped() -> None:
    world = filled()
    agreed = plan(world.table).agreed
    append(world, 24)
    with pytest.raises(PlanChangedError, match="10 parts now"):
        drop_table(world.table, agreed=agreed)
    assert state_of(world.table) == "live"
    assert drop_table(world.table, agreed=plan(world.table).agreed).transaction == 1


def test_somebody_who_agreed_to_the_first_run_has_not_agreed_to_the_second() -> None:
    world = filled()
    agreed = plan(world.table).agreed
    drop_table(world.table)
    world.clock.advance(2 * DAY_MS)
    before = dict(world.store.objects)
    with pytest.raises(PlanChangedError, match="was dropped since it was shown"):
        drop_table(world.table, agreed=agreed)
    assert world.store.objects == before


def test_an_empty_table_is_dropped_too() -> None:
    world = filled(1)
    run_drop(Work(world.table, RUN), DropOptions(partitions=("day=0", "day=1")))
    assert drop_table(world.table).transaction == 2
    world.clock.advance(2 * DAY_MS)
    assert drop_table(world.table).deleted > 0
    assert world.store.objects == {}


@pytest.mark.parametrize("leftover", [False, True])
def test_where_no_table_is_there_is_nothing_to_drop(leftover: bool) -> None:
    world = table_world()
    if leftover:
        world.store.objects["t/notes.txt"] = (b"x", world.clock.now)
    with pytest.raises(NoTableError):
        drop_table(world.table)
    assert ("t/notes.txt" in world.store.objects) == leftover


# --- the wait -------------------------------------------------------------------------------------


def test_before_the_time_nothing_is_deleted_and_it_is_said_from_when_on() -> None:
    world = dropped()
    before = dict(world.store.objects)
    report = drop_table(world.table, name=None)
    assert (report.plan["phase"], report.deleted, report.transaction) == ("wait", 0, None)
    assert report.due_ms == world.clock.now - 60_000 + DAY_MS
    world.clock.now = report.due_ms
    assert drop_table(world.table).plan["phase"] == "wait"
    assert world.store.objects == before
    world.clock.now += 1
    assert drop_table(world.table).plan["phase"] == "delete"
    assert world.store.objects == {}


@pytest.mark.parametrize(
    ("settings", "days"),
    [
        ({"cleanup": {"grace": "9d"}}, 9),
        ({"append": {"ttl": "6d"}, "orphan_grace": "8d"}, 6),
        ({"commit_ttl": "1d", "cleanup": {"grace": "1h"}, "append": {"ttl": "1h"}}, 1),
    ],
)
def test_the_longest_of_the_times_of_the_table_counts(settings: dict[str, Any], days: int) -> None:
    world = filled(1, **settings)
    drop_table(world.table)
    other = histories.table_world()
    table = replace(world.table, settings=other.settings)  # a root without settings
    world.clock.advance(days * DAY_MS)
    assert drop_table(table).plan["phase"] == "wait"
    world.clock.advance(1)
    assert drop_table(table).plan["phase"] == "delete"


def test_the_clock_of_the_store_decides_and_not_that_of_this_machine() -> None:
    world = dropped()
    before = dict(world.store.objects)
    ahead = replace(world.table, clock=type(world.clock)(world.clock.now + 30 * DAY_MS))
    report = drop_table(ahead)
    assert (report.plan["phase"], report.deleted) == ("wait", 0)
    assert (report.requests["put"], report.requests["head"]) == (1, 2)
    assert world.store.objects == before


def test_what_was_appended_since_is_named_and_kept_until_its_partitions_are_dropped() -> None:
    world = due()
    append(world, 12, 1)
    before = dict(world.store.objects)
    with pytest.raises(UsageError, match=r"1 part that came since: t/_data/day=0/.*parquet"):
        drop_table(world.table)
    assert world.store.objects == before
    run_drop(Work(world.table, RUN), DropOptions(partitions=("day=0",)))
    assert drop_table(world.table).transaction == 3, "it begins anew"
    assert drop_table(world.table).plan["phase"] == "wait"


def test_a_restore_cancels_it() -> None:
    world = due()
    run_restore(Work(world.table, RUN), RestoreOptions(to=0))
    assert plan(world.table).phase == "drop"
    assert drop_table(world.table).transaction == 3


def test_another_change_since_lets_it_begin_anew_and_clean_ups_and_sweeps_do_not() -> None:
    world = due()
    run_cleanup(Work(world.table, RUN), CleanupOptions())
    world.store.objects["t/_data/x.parquet"] = (b"", world.clock.now - 3 * DAY_MS)
    key = f"t/_data/{format_uuid7(world.clock.now - 3 * DAY_MS, 9)}.parquet"
    world.store.objects[key] = (b"", world.clock.now - 3 * DAY_MS)
    del world.store.objects["t/_data/x.parquet"]
    run_sweep(Work(world.table, RUN), SweepOptions())
    assert {h.op for h in history(world.table)} >= {"drop", "cleanup"}
    assert plan(world.table).phase == "delete"
    histories.delete_lazily(world, 1)
    assert plan(world.table).phase == "drop"


# --- the second run -------------------------------------------------------------------------------


def test_the_second_run_deletes_every_object() -> None:
    world = due()
    assert kinds(world) == {"_log", "_data", "_txn"}
    report = drop_table(world.table)
    assert world.store.objects == {}
    assert report.deleted == 4 + 3 + 2
    assert report.plan["left"]["objects"] == {  # type: ignore[index]  # plain data
        "part": 4,
        "log file": 3,
        "transaction": 1,
        "birth record": 1,
    }
    with pytest.raises(NoTableError):
        drop_table(world.table)
    append(world, 0)
    assert ids_of(world) == dict.fromkeys(range(6), 1), "a new table begins"


def test_what_the_table_has_besides_goes_too() -> None:
    world = due()
    ident = world.ids.uuid7(world.clock.now)
    for name in (
        f"_ckpt/{1:020d}-{ident}.parquet",
        f"_erase/{ident}.json",
        f"_runs/{'0' * 32}/000001.json",
        f"_once/{'0' * 32}/000001.json",
        f"_imports/{ident}.json",
        f"_prepared/{ident}.json",
        f"_delta_log/{0:020d}.json",
        "_delta_log/_last_checkpoint",
        "_iceberg/metadata/v1.metadata.json",
        f"_probe/{ident}",
    ):
        world.store.objects[f"t/{name}"] = (b"x", world.clock.now)
    drop_table(world.table)
    assert world.store.objects == {}


def test_the_order_leaves_log_and_transactions_to_the_end_and_the_birth_record_is_the_last() -> (
    None
):
    world = due()
    deleted: list[str] = []

    class Noting(FaultyStore):
        def delete_many(self, keys: Any) -> Any:
            wanted = list(keys)
            deleted.extend(wanted)
            return super().delete_many(wanted)

    drop_table(over(world, Noting(world.store)))
    folders = [key.split("/")[1] for key in deleted if "_probe" not in key]
    assert [name for name, _ in itertools.groupby(folders)] == ["_data", "_log", "_txn"]
    paths = world.table.paths
    assert deleted[-2:] == [paths.txn(1), paths.birth]
    assert paths.parse_log(deleted[-3]).seq == 1, "the newest transaction's log file"


def test_requests_are_counted_and_do_not_grow_with_parts() -> None:
    few, many = due(2), due(9)
    costs = [spent(drop_table(world.table).requests) for world in (few, many)]
    # two of the base, the history, all objects, and twice what is left
    fixed = {"put": 1, "list": 2 + 1 + 1 + 2, "head": 2, "delete": 1 + 5}
    assert costs == [{"get": 3 + 1, **fixed}, {"get": 10 + 1, **fixed}]
    world = filled(2)
    assert spent(drop_table(world.table).requests)["delete"] == 1, "of the probe"
    assert spent(drop_table(world.table).requests) == {"get": 4, "list": 3, "head": 1}


# --- what stops it --------------------------------------------------------------------------------


def refused(world: World, said: str, **options: Any) -> UsageError:
    before = dict(world.store.objects)
    with pytest.raises(UsageError, match=said) as caught:
        drop_table(world.table, **options)
    assert world.store.objects == before
    return caught.value


@pytest.mark.parametrize(
    "key", ["t/notes.txt", "t/_log/old.txt", "t/_data/day=0/a.parquet", "t/sub/x", "t/_more/x"]
)
def test_a_foreign_object_stops_it_unless_it_is_to_go_too(key: str) -> None:
    world = due()
    world.store.objects[key] = (b"x", 1)
    error = refused(world, f"1 object that firnline has not written: {key}")
    assert "--with-foreign" in error.next_step
    drop_table(world.table, with_foreign=True)
    assert world.store.objects == {}


@pytest.mark.parametrize("inner", ["t/sub/{}", "t/_data/x/{}", "t/a/b/{}"])
def test_a_table_below_it_never_goes(inner: str) -> None:
    world = due()
    for key in ("_log/1_x.jsonl", "_data/a.parquet"):
        world.store.objects[inner.format(key)] = (b"x", 1)
    place = inner.removesuffix("/{}")
    for options in ({}, {"with_foreign": True}):
        refused(world, f"there is another table: {place}", **options)


def test_a_part_that_somebody_may_be_about_to_append_stops_it() -> None:
    world = due()
    key = f"t/_data/day=0/{world.ids.uuid7(world.clock.now)}.parquet"
    world.store.objects[key] = (b"x", world.clock.now)
    refused(world, "somebody may be about to append to t")
    world.clock.advance(DAY_MS + 1)
    assert drop_table(world.table).deleted == 10


def test_an_orphan_from_before_the_drop_is_no_obstacle() -> None:
    world = filled()
    key = f"t/_data/day=0/{world.ids.uuid7(world.clock.now)}.parquet"
    world.store.objects[key] = (b"x", world.clock.now)
    world.clock.advance(10)
    drop_table(world.table)
    world.clock.advance(DAY_MS + 1)
    drop_table(world.table)
    assert world.store.objects == {}


def test_an_object_that_cannot_be_deleted_stops_the_run_before_the_log_goes() -> None:
    world = due()
    locked = next(key for key in world.store.objects if "/_data/" in key)

    class Locked(FaultyStore):
        def delete_many(self, keys: Any) -> Any:
            wanted = list(keys)
            yield from super().delete_many(key for key in wanted if key != locked)
            if locked in wanted:
                error = StoreAccessError(f"{locked} is locked", next_step="unlock it")
                yield Deleted(locked, error)

    with pytest.raises(DropTableFailedError, match="is locked") as caught:
        drop_table(over(world, Locked(world.store)))
    assert (caught.value.report.failed, caught.value.report.deleted) == (1, 3)
    assert state_of(world.table) == "dropped"
    drop_table(world.table)
    assert world.store.objects == {}


@pytest.mark.parametrize("before", ["list t/", "delete"])
@pytest.mark.parametrize("skip", range(8))
def test_what_is_appended_while_it_deletes_is_never_deleted(before: str, skip: int) -> None:
    world = due()
    writer = Appender(world.table)
    writer.knowing()
    landed: list[str] = []

    def lands() -> None:
        seen = set(world.store.objects)
        try:
            writer.append(rows_from(100))
        except LogLostError:
            return
        finally:
            landed.extend(set(world.store.objects) - seen)

    store = Asleep(world.store, at=before, meanwhile=lands, skip=skip)
    with suppress(CommitConflictError, UsageError):
        drop_table(over(world, store))
    named = [key for key in landed if "/_log/" in key]
    if named:
        assert set(landed) <= set(world.store.objects)
        assert state_of(world.table) in ("live", "LogLostError")


def test_an_append_that_lands_before_the_log_goes_stops_the_run_and_stays_readable() -> None:
    world = due()
    listings = [call for call in calls_of(world) if call.startswith("list t/")]
    again = [n for n, call in enumerate(listings) if call == "list t/"][1]
    store = Asleep(world.store, at="list t/", meanwhile=lambda: append(world, 30), skip=again)
    with pytest.raises(CommitConflictError, match="came to t while its objects were deleted"):
        drop_table(over(world, store))
    assert ids_of(world) == dict.fromkeys(range(30, 36), 1)


@pytest.mark.parametrize("skip", [2, 4])
def test_a_run_that_slept_before_a_delete_sends_no_other_before_it_looks_again(skip: int) -> None:
    """The second is that of log files, which that of the newest follows; the fourth the mark."""
    world = due()
    left: list[dict[str, Any]] = []

    def sleep() -> None:
        world.clock.advance(DAY_MS)

    class Noting(Asleep):
        def delete_many(self, keys: Any) -> Any:
            yield from super().delete_many(keys)
            left.append(dict(world.store.objects))

    store = Noting(world.store, at="delete", meanwhile=sleep, skip=skip)
    with pytest.raises(SnapshotUnstableError, match="before it could delete"):
        drop_table(over(world, store))
    assert len(left) == skip + 1


def test_a_run_that_slept_while_the_table_was_restored_leaves_its_log() -> None:
    world = due()

    def restored() -> None:
        world.clock.advance(DAY_MS)
        append(world, 30)

    store = Asleep(world.store, at="list t/", meanwhile=restored, after=True, skip=0)
    store.skip = [c for c in calls_of(world) if c.startswith("list t/")].index("list t/") + 1
    with pytest.raises(SnapshotUnstableError):
        drop_table(over(world, store))
    assert state_of(world.table) == "live"
    assert ids_of(world) == dict.fromkeys(range(30, 36), 1)


# --- runs that die --------------------------------------------------------------------------------


def calls_of(world: World) -> list[str]:
    store = FaultyStore(copied(world).store)
    drop_table(over(world, store))
    return store.calls


def copied(world: World) -> World:
    store = MemoryStore(world.clock)
    store.objects = dict(world.store.objects)
    return replace(world, store=store, table=replace(world.table, store=store))


@pytest.mark.parametrize("kind", ["before", "after", "lost"])
@pytest.mark.parametrize("clean", [False, True])
def test_a_run_that_dies_at_any_call_leaves_what_is_dropped_or_refused_and_is_run_again(
    kind: str, clean: bool
) -> None:
    world = due()
    if clean:
        run_cleanup(Work(world.table, RUN), CleanupOptions())
    calls = calls_of(world)
    assert len(calls) > 15
    met = set()
    for at in range(len(calls)):
        died = copied(world)
        with suppress(Crashed, FirnlineError):
            drop_table(over(died, FaultyStore(died.store, Fault(at, kind))))
        met.add(found := state_of(died.table))
        assert found in ("dropped", "LogLostError", "nothing"), calls[at]
        if found == "LogLostError":
            with pytest.raises(LogLostError):
                Appender(died.table).append(rows_from(0))
        if died.store.objects:
            drop_table(died.table)
        assert died.store.objects == {}, calls[at]
    assert met == {"dropped", "LogLostError", *(["nothing"] if kind != "before" else [])}


def steps_of(shown: DropTablePlan) -> list[tuple[str, ...]]:
    return [*shown.stock.first, *shown.stock.last, *shown.stock.end]


@pytest.mark.parametrize("clean", [False, True])
@pytest.mark.parametrize("appends", [1, 3])
def test_any_part_of_a_step_that_was_deleted_shows_no_row_and_no_new_table(
    appends: int, clean: bool
) -> None:
    """A batch is deleted in no order: every subset of the keys of each step may be gone."""
    world = due(appends)
    if clean:
        run_cleanup(Work(world.table, RUN), CleanupOptions())
    gone: set[str] = set()
    for step in steps_of(plan(world.table)):
        subsets = itertools.chain.from_iterable(
            itertools.combinations(step, count) for count in range(len(step) + 1)
        )
        for subset in subsets:
            left = copied(world)
            for key in (*gone, *subset):
                del left.store.objects[key]
            if not left.store.objects:
                continue
            assert state_of(left.table) in ("dropped", "LogLostError"), subset
            drop_table(left.table)
            assert left.store.objects == {}
        gone |= set(step)


# --- a log that is lost by others -----------------------------------------------------------------


def without(world: World, folder: str) -> World:
    for key in list(world.store.objects):
        if f"/{folder}/" in key:
            del world.store.objects[key]
    return world


@pytest.mark.parametrize("lost", ["_log", "_txn"])
def test_a_log_that_others_have_lost_is_left_alone(lost: str) -> None:
    for world in (without(filled(2), lost), without(due(), lost)):
        before = dict(world.store.objects)
        try:
            drop_table(world.table)
        except LogLostError:
            assert world.store.objects == before
        else:
            assert lost == "_txn"
            assert set(before) <= set(world.store.objects)


def test_a_lost_log_before_its_time_or_with_an_append_is_left_alone() -> None:
    early = without(without(dropped(), "_log"), "_data")
    late = without(without(due(), "_log"), "_data")
    late.store.objects["t/_data/day=0/x.parquet"] = (b"x", 1)
    for world in (early, late):
        before = dict(world.store.objects)
        with pytest.raises((LogLostError, UsageError)):
            drop_table(world.table, with_foreign=world is late)
        assert world.store.objects == before


def test_the_birth_record_alone_is_the_rest_of_a_table() -> None:
    world = due()
    for key in list(world.store.objects):
        if key != world.table.paths.birth:
            del world.store.objects[key]
    assert plan(world.table).to_json()["mark"] is None
    assert drop_table(world.table).deleted == 1
    assert world.store.objects == {}


# --- mirrors --------------------------------------------------------------------------------------


def test_it_waits_for_readers_of_a_mirror_and_publishes_nothing_in_the_end() -> None:
    world = filled(2, mirror=["delta"])
    run_mirror(Work(world.table, RUN), MirrorOptions())
    drop_table(world.table)
    world.clock.advance(DAY_MS + 1)
    before = dict(world.store.objects)
    shown = plan(world.table)
    assert (shown.phase, shown.shown_by) == ("wait", ("Delta",))
    assert drop_table(world.table).deleted == 0
    assert world.store.objects == before
    run_mirror(Work(world.table, RUN), MirrorOptions())
    world.clock.advance(DAY_MS + 1)
    drop_table(world.table)
    assert world.store.objects == {}
    assert publish_committed(world.table, RUN) is None
    assert world.store.objects == {}
