"""The scenarios: one for every operation and every way in which it goes about its work."""

from __future__ import annotations

import datetime
from dataclasses import replace
from itertools import pairwise

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from firnline.appends.append import Appender
from firnline.errors import UsageError
from firnline.operations.analyze.run import run_analyze
from firnline.operations.cleanup.run import run_cleanup
from firnline.operations.delete.run import run_delete
from firnline.operations.downgrade.run import run_downgrade
from firnline.operations.drop.run import list_partitions, run_drop
from firnline.operations.drop.ttl import run_ttl
from firnline.operations.erase.certificate import list_certificates
from firnline.operations.erase.completion import complete_certificate
from firnline.operations.erase.run import run_erase
from firnline.operations.hold.run import list_holds, run_hold
from firnline.operations.import_files.run import run_import
from firnline.operations.import_options import ImportOptions
from firnline.operations.operation import Work
from firnline.operations.options import (
    AnalyzeOptions,
    CleanupOptions,
    DeleteOptions,
    DowngradeOptions,
    DropOptions,
    EraseOptions,
    Evolution,
    HoldOptions,
    RebuildOptions,
    RepartitionOptions,
    ReplaceOptions,
    RestoreOptions,
    RewriteOptions,
    SchemaFixOptions,
    SweepOptions,
    TtlOptions,
    UpdateOptions,
    VerifyOptions,
)
from firnline.operations.prepared.run import commit_prepared, discard_prepared
from firnline.operations.prepared.waiting import of_run
from firnline.operations.properties.run import run_apply
from firnline.operations.rebuild.run import run_rebuild
from firnline.operations.repartition.run import run_repartition
from firnline.operations.replace.run import run_replace
from firnline.operations.restore.run import run_restore
from firnline.operations.rewrite.prepare import run_prepare
from firnline.operations.rewrite.run import run_rewrite
from firnline.operations.schema.run import run_schema_fix
from firnline.operations.sweep.run import run_sweep
from firnline.operations.update.run import run_update
from firnline.operations.verify.run import run_verify
from firnline.settings.fields import PartitionField
from firnline.state.snapshot import read_snapshot
from firnline.table import Table
from tests.support.histories import parquet_bytes, rows_from
from tests.support.mirror_scenarios import MIRRORS
from tests.support.places import keys_in, next_second, tally
from tests.support.reading import stored_ids, visible_ids, visible_rows
from tests.support.scenarios import (
    DAY,
    Call,
    Scenario,
    advance,
    append,
    dies_before,
    fill,
    ids,
    merge,
    tidy,
)

TWELVE, EIGHTEEN, ALL = ids(range(12)), ids(range(18)), ids(range(24))
QUERY = "select * from _rows where id not in (5, 6, 20)"
FILTER = "id not in (5, 6) and day < 2"


def two_appends(call: Call) -> None:
    fill(call.table)


def three_appends(call: Call) -> None:
    fill(call.table, 3)


def two_free_appends(call: Call) -> None:
    """In one partition: every group of parts costs a sweep a quarter of a second."""
    append_free(call.table, 0)
    append_free(call.table, 6)


def append_free(table: Table, first: int) -> None:
    advance(table, 10)
    Appender(table).append(rows_from(first), "p")


def append_more(call: Call) -> None:
    Appender(call.table, scratch=call.scratch).append(rows_from(12))


# --- what goes whole ------------------------------------------------------------------------------


def listed(call: Call) -> object:
    """Versions of partitions, as somebody was shown them."""
    fill(call.table)
    return {p.partition: p.version for p in list_partitions(call.table)}


def drop(call: Call) -> None:
    report = run_drop(Work(call.table, call.run), DropOptions(partitions=("day=0",)))
    assert report.parts == 2, "a second try reports the run's own work"


def drop_approved(call: Call) -> None:
    expected = {"day=0": call.known["day=0"]}
    run_drop(Work(call.table, call.run), DropOptions(partitions=("day=0",), expected=expected))


def aged(call: Call) -> None:
    """Two partitions of which one is ten days old."""
    now = datetime.datetime.fromtimestamp(call.table.clock.now_ms() / 1000, datetime.UTC)
    for first in (0, 6):
        times = [now - datetime.timedelta(days=10 * (n % 2)) for n in range(6)]
        append(call.table, pa.table({"id": range(first, first + 6), "ts": times}))


def aged_together(call: Call) -> None:
    """Two parts with rows that are ten days old beside new ones."""
    aged(call)
    assert len(read_snapshot(call.table.store, call.table.paths).live) == 2


def ttl(call: Call) -> None:
    run_ttl(Work(call.table, call.run), TtlOptions(force=True))


def hold(call: Call) -> None:
    options = HoldOptions(name="case-17", where="id = 3", why="a dispute", by="ana")
    run_hold(Work(call.table, call.run), options)


def is_held(call: Call) -> None:
    assert [one.name for one in list_holds(call.table).holds] == ["case-17"]
    with pytest.raises(UsageError, match="legal hold"):
        run_drop(Work(call.table, call.run), DropOptions(partitions=("day=1",)))


# --- what makes rows anew -------------------------------------------------------------------------


def with_a_third_partition(call: Call) -> None:
    fill(call.table)
    append(call.table, pa.table({"id": [20], "day": [2], "name": ["n20"]}))


def rewrite(call: Call) -> None:
    options = RewriteOptions(where=FILTER, force=True)
    run_rewrite(Work(call.table, call.run, call.engine), options)


def prepare_then_commit(call: Call) -> None:
    """As its DAG: a retry goes on with what an earlier try has prepared."""
    change = prepared(call)
    if change is not None:
        commit_prepared(call.table, change, call.run)


def prepared(call: Call) -> str | None:
    """Prepare a rewrite, or find what was prepared before; None if nothing is left to do."""
    found = of_run(call.table, call.run)
    if found:
        return found[-1].id
    options = RewriteOptions(where=FILTER, force=True, prepare=True)
    return run_prepare(Work(call.table, call.run, call.engine), options).id


def with_a_prepared_rewrite(call: Call) -> object:
    two_free_appends(call)
    return prepared(call)


def discard_what_waits(call: Call) -> None:
    if of_run(call.table, call.run):
        discard_prepared(call.table, call.known, call.run)


def sweep_thrice(call: Call) -> None:
    """A decision stays for a while, and what ends a commit that never came for longer."""
    for _ in range(3):
        tidy(call)
        advance(call.table, 4 * DAY)
    left = keys_in(call.table, "_prepared")
    assert not left, left


def query(call: Call) -> None:
    options = RewriteOptions(partitions=("day=[12]",), sql=QUERY, force=True, first_try=1)
    run_rewrite(Work(call.table, call.run, call.engine), options)


def update(call: Call) -> None:
    """Rows of both days get another number: one part of each is written anew."""
    options = UpdateOptions(set=("id = id + 100",), where="id = 5 or id = 6")
    run_update(Work(call.table, call.run, call.engine), options)


def of_another_layout(call: Call) -> None:
    """Two buckets with rows of both days, and a layout by day since then."""
    given = call.table.settings
    fields = (PartitionField.model_validate("bucket(2, id)"),)
    buckets = given.model_copy(update={"partition_by": fields})
    fill(replace(call.table, settings=buckets))
    advance(call.table, 10)
    run_apply(call.table, call.run)


def repartition(call: Call) -> None:
    report = run_repartition(Work(call.table, call.run, call.engine), RepartitionOptions())
    assert report.parts_left == 0


def by_day(call: Call) -> None:
    state = read_snapshot(call.table.store, call.table.paths)
    assert set(state.partitions) == {"day=0", "day=1"}


def delete_eagerly(call: Call) -> None:
    """One part holds a row, two go whole, unread."""
    run_delete(Work(call.table, call.run, call.engine), DeleteOptions(where="id > 10"))


def delete_lazily(call: Call) -> None:
    options = DeleteOptions(where="id > 10", mode="lazy")
    run_delete(Work(call.table, call.run, call.engine), options)


def staged(call: Call) -> object:
    """Rows 3 and 9 of another name, staged beside the table; returns where."""
    table = call.table
    for first in (0, 6, 12):
        append_free(table, first)
    parent, _, name = table.paths.prefix.rpartition("/")
    rows = pa.table({"id": [3, 9], "day": [1, 1], "name": ["new", "new"]})
    table.store.put_new(f"{parent}/staged/a.parquet".removeprefix("/"), parquet_bytes(rows))
    return f"{table.settings.root.removesuffix(name)}staged"


def replace_eagerly(call: Call) -> None:
    """One part goes unread, two are cut; the interval has two new rows."""
    options = ReplaceOptions(
        column="id", start=3, end=14, files=(call.known,), partition="p", mode="eager"
    )
    run_replace(Work(call.table, call.run, call.engine, scratch=call.scratch), options)


def replace_lazily(call: Call) -> None:
    options = ReplaceOptions(
        column="id", start=3, end=14, files=(call.known,), partition="p", mode="lazy"
    )
    run_replace(Work(call.table, call.run, call.engine, scratch=call.scratch), options)


def empty_lazily(call: Call) -> None:
    """Nothing new, and only one day."""
    options = ReplaceOptions(
        column="id", start=3, end=14, equal={"day": 1}, nothing=True, mode="lazy"
    )
    run_replace(Work(call.table, call.run, call.engine), options)


def erase(call: Call) -> None:
    """One part holds a key, the other is read in vain."""
    options = EraseOptions(columns=("name",), keys=(("n3",), ("n5",)))
    run_erase(Work(call.table, call.run, call.engine), options)


def certified(call: Call) -> None:
    """Clean-up and sweep; then every commit has a certificate, and that completes."""
    tidy(call)
    found = [
        complete_certificate(call.table, one.id, call.run)
        for one in list_certificates(call.table)
        if one.status != "void"
    ]
    done = [one for one in found if one.replaced is not None]
    assert done
    assert {one.status for one in done} == {"complete"}
    assert {one.status for one in found} <= {"complete", "void"}
    left = {key for key in keys_in(call.table, "_erase") if key.endswith(".keys.parquet")}
    if left:  # of a run that died before its plan: the next erase deletes them
        erase(call)
        assert not keys_in(call.table, "_erase") & left
        tidy_again(call)


def tidy_again(call: Call) -> None:
    advance(call.table, 4 * DAY)
    tidy(call)


def erased(call: Call) -> None:
    two_free_appends(call)
    erase(call)
    advance(call.table, 4 * DAY)


def certify(call: Call) -> None:
    for one in list_certificates(call.table):
        complete_certificate(call.table, one.id, call.run)


def complete(call: Call) -> None:
    (one,) = list_certificates(call.table)
    assert one.status == "complete"
    done = complete_certificate(call.table, one.id, call.run)
    assert not {part.key for part in done.parts} & keys_in(call.table, "_data")


# --- what deletes objects -------------------------------------------------------------------------


def worn(call: Call) -> None:
    """Two merges, what a dead run left behind between them, and appends; four days ago."""
    table = call.table
    fill(table)
    merge(call)
    for partition in ("day=1", "day=3"):
        table.store.put_new(
            table.paths.data_part(partition, table.ids.uuid7(table.clock.now_ms())), b"half"
        )
    next_second(table)
    fill(table, 1, first=12)
    merge(call)
    fill(table, 1, first=18)
    advance(table, 4 * DAY)


def cleanup(call: Call) -> None:
    run_cleanup(Work(call.table, call.run), CleanupOptions())


def sweep(call: Call) -> None:
    run_sweep(Work(call.table, call.run), SweepOptions())


# --- what writes logs -----------------------------------------------------------------------------


def lost(call: Call) -> None:
    """Merged, appended to, left-overs of a dead merge beside it; its log is gone."""
    table = call.table
    fill(table)
    merge(call)
    fill(table, 2, first=12)
    dies_before(call, f"put {table.paths.txn_dir}", merge)
    assert all(gone.error is None for gone in table.store.delete_many(keys_in(table, "_log")))


def rebuild(call: Call) -> None:
    run_rebuild(Work(call.table, call.run), RebuildOptions())


def folder(call: Call) -> object:
    """Files beside a table that has rows already; returns where they lie."""
    table = call.table
    two_free_appends(call)
    parent, _, name = table.paths.prefix.rpartition("/")
    for number in range(2):
        key = f"{parent}/in/a/{number}.parquet".removeprefix("/")
        table.store.put_new(key, parquet_bytes(rows_from(12 + 6 * number)))
    return f"{table.settings.root.removesuffix(name)}in"


def import_(call: Call) -> None:
    run_import(Work(call.table), ImportOptions(source=call.known))


def spanning_files(call: Call) -> object:
    """Files of which one has rows of both partitions; returns where they lie."""
    table = call.table
    two_appends(call)
    parent, _, name = table.paths.prefix.rpartition("/")
    later = rows_from(18)
    odd = later.filter(pc.equal(later["day"], 1))
    even = later.filter(pc.equal(later["day"], 0))
    for number, rows in enumerate([rows_from(12), odd, even]):
        table.store.put_new(f"{parent}/in/{number}.parquet".removeprefix("/"), parquet_bytes(rows))
    return f"{table.settings.root.removesuffix(name)}in"


def import_and_split(call: Call) -> None:
    run_import(Work(call.table, engine=call.engine), ImportOptions(source=call.known, split=True))


def with_deletes(call: Call) -> None:
    """Row 0 is hidden by a delete that is old enough."""
    fill(call.table)
    run_delete(Work(call.table, call.run, call.engine), DeleteOptions(where="id < 1", mode="lazy"))
    advance(call.table, call.table.settings.append.ttl + DAY)


def downgrade(call: Call) -> None:
    run_downgrade(Work(call.table, call.run, call.engine), DowngradeOptions())


def is_v1(call: Call) -> None:
    assert read_snapshot(call.table.store, call.table.paths).deletes == {}
    assert visible_ids(call.table) == stored_ids(call.table)


def leave_nothing(call: Call) -> None:
    """Sweeps, the downgrade of what they commit and its second half.

    A sweep commits a transaction if one is missing that orphans wait for.
    """
    for act in (tidy, tidy, downgrade, downgrade):
        act(call)
        advance(call.table, 4 * DAY)
    live = read_snapshot(call.table.store, call.table.paths).live
    assert tally(call.table) == {"_log": 1, "_data": len(live), "_txn": 2}


def downgraded(call: Call) -> None:
    with_deletes(call)
    downgrade(call)
    advance(call.table, 2 * call.table.settings.cleanup.grace)


def verify(call: Call) -> None:
    assert run_verify(Work(call.table), VerifyOptions(deep=True)).healthy


# --- what restates markers ------------------------------------------------------------------------


def without_bounds(call: Call) -> None:
    """Two appends from before the table kept bounds of a column."""
    former = call.table.settings.model_copy(update={"statistics": ()})
    for first in (0, 6):
        append_free(replace(call.table, settings=former), first)
    run_apply(call.table, call.run)


def analyze(call: Call) -> None:
    run_analyze(Work(call.table, call.run), AnalyzeOptions())


def has_bounds(call: Call) -> None:
    live = read_snapshot(call.table.store, call.table.paths).live.values()
    assert [marker.stats()["day"] for marker in live] == [(0, 1, 0)] * 2


# --- keys, clusters, columns, and what is undone --------------------------------------------------


def upserts(call: Call) -> None:
    """Three appends: six keys, four of them and one more anew, and one that is deleted."""
    for rows in (
        [(n, n, False) for n in range(6)],
        [(n, n - 3, False) for n in range(6, 10)],
        [(10, 0, True)],
    ):
        ids_, keys, dead = zip(*rows, strict=True)
        advance(call.table, 10)
        Appender(call.table).append(pa.table({"id": ids_, "k": keys, "dead": dead}), "p")


def delete_winners(call: Call) -> None:
    """By a column outside of the key: older rows of keys whose newest row goes stay hidden."""
    options = DeleteOptions(where="id > 7 and id < 10", mode="eager")
    run_delete(Work(call.table, call.run, call.engine), options)


def interleaved(call: Call) -> None:
    """Two appends whose ids overlap: what lies apart is left alone."""
    for first in (0, 1):
        rows = rows_from(0, 12).slice(first).take(list(range(0, 12 - first, 2)))
        advance(call.table, 10)
        Appender(call.table).append(rows, "p")


def merge_ranges(call: Call) -> None:
    """Parts are full at a size that settings do not allow, so that a merge has several outputs."""
    settings = call.table.settings
    small = settings.merge.model_copy(update={"target_size": 1000})
    table = replace(call.table, settings=settings.model_copy(update={"merge": small}))
    merge(replace(call, table=table))


def is_clustered(call: Call) -> None:
    """Outputs that do not overlap."""
    live = read_snapshot(call.table.store, call.table.paths).live.values()
    assert len({marker.c for marker in live}) == 1
    bounds = [marker.stats()["id"] for marker in live]
    spans = sorted((int(str(low)), int(str(high))) for low, high, _ in bounds)
    assert len(spans) > 1
    assert all(one[1] < other[0] for one, other in pairwise(spans))


def dropped(call: Call) -> None:
    """A lazy delete, and then a partition goes."""
    fill(call.table, 3)
    options = DeleteOptions(where="id > 10", mode="lazy")
    run_delete(Work(call.table, call.run, call.engine), options)
    run_drop(Work(call.table, call.run), DropOptions(partitions=("day=0",)))


def restore(call: Call) -> None:
    run_restore(Work(call.table, call.run), RestoreOptions(to=0))


def evolve(call: Call) -> None:
    evolution = Evolution(rename={"name": "title"}, widen={"small": "BIGINT"}, drop=("rest",))
    run_schema_fix(Work(call.table, call.run, call.engine), SchemaFixOptions(evolution=evolution))


def of_many_columns(call: Call) -> None:
    """Two appends: one column gets another name, one becomes wider, one goes."""
    for first in (0, 6):
        rows = rows_from(first)
        small = pa.array([n + 1 for n in rows["id"].to_pylist()], pa.int32())
        rest = pa.array(["x"] * len(small))
        append(call.table, rows.append_column("small", small).append_column("rest", rest))


def has_evolved(call: Call) -> None:
    """No value is lost."""
    schema = read_snapshot(call.table.store, call.table.paths).schema
    assert schema == {"id": "BIGINT", "day": "BIGINT", "title": "VARCHAR", "small": "BIGINT"}
    for row in visible_rows(call.table):
        assert (row["title"], row["small"]) == (f"n{row['id']}", row["id"] + 1)


AGED = {"partition_by": ["day(ts)"], "sort_by": ["id"], "ttl": {"keep": "3d"}}
FREE = {"partition": ".*", "sort_by": ["id"]}
AGED_TOGETHER = {**FREE, "ttl": {"keep": "3d", "column": "ts", "rows": True}}
SMALL = {**FREE, "merge": {"min_inputs": 2}}
KEYED = {**SMALL, "sort_by": ["k"], "primary_key": ["k"], "deleted": "dead"}
CLUSTERED = {**SMALL, "cluster_by": ["id"]}
REPLACED = {**FREE, "merge": {"min_inputs": 2, "sql": "from source_files where id % 5 > 0"}}
ELEVEN = ids(range(11))
UPSERTED = ids({1, 2, 6, 7, 8, 9})
"""See ``upserts``."""
REPLACED_IDS = ids(range(3), {3, 9}, range(14, 18))
NOT_LOST = "is whole: it is readable"
IMPORTED = "imported into this table before"

SCENARIOS = [
    Scenario("append", two_appends, append_more, TWELVE, EIGHTEEN, repeats=False),
    Scenario(
        "merge", two_appends, merge, TWELVE, TWELVE, idle=True, op="merge", transactions=(1, 2)
    ),
    Scenario(
        "merge with sql",
        two_free_appends,
        merge,
        TWELVE,
        TWELVE - {0, 5, 10},
        settings=REPLACED,
        idle=True,
        op="merge",
        transactions=(1,),
    ),
    Scenario(
        "analyze",
        without_bounds,
        analyze,
        TWELVE,
        TWELVE,
        settings={**FREE, "statistics": ["day"]},
        op="analyze",
        transactions=(1,),
        idle=True,
        settled=has_bounds,
    ),
    Scenario("drop", two_appends, drop, TWELVE, ids(range(1, 12, 2)), op="drop", transactions=(1,)),
    Scenario(
        "drop, approved",
        listed,
        drop_approved,
        TWELVE,
        ids(range(1, 12, 2)),
        op="drop",
        transactions=(1,),
    ),
    Scenario(
        "ttl",
        aged,
        ttl,
        TWELVE,
        ids(range(0, 12, 2)),
        settings=AGED,
        idle=True,
        op="ttl",
        transactions=(1,),
    ),
    Scenario(
        "legal hold",
        two_appends,
        hold,
        TWELVE,
        TWELVE,
        op="properties",
        transactions=(1,),
        refused="there is a legal hold 'case-17' already",
        settled=is_held,
    ),
    Scenario(
        "ttl of rows",
        aged_together,
        ttl,
        TWELVE,
        ids(range(0, 12, 2)),
        settings=AGED_TOGETHER,
        hides=True,
        idle=True,
        op="ttl",
        transactions=(1,),
    ),
    Scenario(
        "rewrite, filter",
        with_a_third_partition,
        rewrite,
        TWELVE | {20},
        TWELVE - {5, 6},
        whole=False,
        op="rewrite",
        transactions=(3,),
    ),
    Scenario(
        "rewrite, prepared and committed",
        two_free_appends,
        prepare_then_commit,
        TWELVE,
        TWELVE - {5, 6},
        settings=FREE,
        op="rewrite",
        transactions=(1,),
        later=sweep_thrice,
    ),
    Scenario(
        "rewrite, discard of what was prepared",
        with_a_prepared_rewrite,
        discard_what_waits,
        TWELVE,
        TWELVE,
        settings=FREE,
        deletes=True,
        later=sweep_thrice,
    ),
    Scenario(
        "rewrite, query",
        with_a_third_partition,
        query,
        TWELVE | {20},
        TWELVE - {5},
        whole=False,
        op="rewrite",
        transactions=(2,),
    ),
    Scenario(
        "update",
        with_a_third_partition,
        update,
        TWELVE | {20},
        (TWELVE | {20, 105, 106}) - {5, 6},
        op="update",
        transactions=(1,),
    ),
    Scenario(
        "repartition",
        of_another_layout,
        repartition,
        TWELVE,
        TWELVE,
        whole=False,
        op="repartition",
        transactions=(2,),
        idle=True,
        settled=by_day,
    ),
    Scenario("delete, eager", three_appends, delete_eagerly, EIGHTEEN, ELEVEN, op="delete"),
    Scenario(
        "delete, lazy", three_appends, delete_lazily, EIGHTEEN, ELEVEN, hides=True, op="delete"
    ),
    Scenario(
        "replace, eager",
        staged,
        replace_eagerly,
        EIGHTEEN,
        REPLACED_IDS,
        settings=FREE,
        op="replace",
    ),
    Scenario(
        "replace, lazy",
        staged,
        replace_lazily,
        EIGHTEEN,
        REPLACED_IDS,
        settings=FREE,
        hides=True,
        op="replace",
    ),
    Scenario(
        "replace, nothing",
        three_appends,
        empty_lazily,
        EIGHTEEN,
        EIGHTEEN - ids(range(3, 14, 2)),
        hides=True,
        op="replace",
    ),
    Scenario(
        "erase",
        two_free_appends,
        erase,
        TWELVE,
        TWELVE - {3, 5},
        settings=FREE,
        hides=True,
        op="erase",
        later=certified,
    ),
    Scenario(
        "certificate",
        erased,
        certify,
        TWELVE - {3, 5},
        TWELVE - {3, 5},
        settings=FREE,
        op="erase",
        transactions=(1,),
        settled=complete,
    ),
    Scenario(
        "merge, primary key",
        upserts,
        merge,
        UPSERTED,
        UPSERTED,
        settings=KEYED,
        hides=True,
        idle=True,
        op="merge",
        transactions=(1,),
    ),
    Scenario(
        "delete, primary key",
        upserts,
        delete_winners,
        UPSERTED,
        UPSERTED - {8, 9},
        settings=KEYED,
        hides=True,
        op="delete",
        transactions=(1,),
    ),
    Scenario(
        "merge, clustered",
        interleaved,
        merge_ranges,
        TWELVE,
        TWELVE,
        settings=CLUSTERED,
        idle=True,
        op="merge",
        transactions=(1,),
        settled=is_clustered,
    ),
    Scenario("restore", dropped, restore, ids(range(1, 10, 2)), EIGHTEEN, hides=True, op="restore"),
    Scenario(
        "evolve",
        of_many_columns,
        evolve,
        TWELVE,
        TWELVE,
        op="evolve",
        transactions=(1,),
        refused="has no column",
        settled=has_evolved,
    ),
    Scenario(
        "clean-up",
        worn,
        cleanup,
        ALL,
        ALL,
        op="cleanup",
        transactions=(1,),
        idle=True,
        deletes=True,
    ),
    Scenario("orphan sweep", worn, sweep, ALL, ALL, idle=True, deletes=True),
    Scenario(
        "rebuild", lost, rebuild, ids(), ALL, op="rebuild", transactions=(1, 2), refused=NOT_LOST
    ),
    Scenario("import", folder, import_, TWELVE, ALL, settings=FREE, refused=IMPORTED),
    Scenario(
        "import that splits files", spanning_files, import_and_split, TWELVE, ALL, refused=IMPORTED
    ),
    Scenario(
        "downgrade",
        with_deletes,
        downgrade,
        TWELVE - {0},
        TWELVE - {0},
        hides=True,
        settled=is_v1,
        later=leave_nothing,
    ),
    Scenario(
        "downgrade, left-overs",
        downgraded,
        downgrade,
        TWELVE - {0},
        TWELVE - {0},
        settled=is_v1,
        idle=True,
        deletes=True,
        later=leave_nothing,
    ),
    *MIRRORS,
]
"""Whatever writes."""

READS = [Scenario("verify", two_appends, verify, TWELVE, TWELVE)]
