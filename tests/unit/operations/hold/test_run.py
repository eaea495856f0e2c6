"""Legal holds: rows that nothing removes, whoever asks and whenever it began."""

from __future__ import annotations

import datetime
import shlex
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pytest

from firnline.appends.append import Appender
from firnline.clock import SystemClock
from firnline.commit.base import take_base
from firnline.commit.transaction import Change, commit
from firnline.errors import CommitConflictError, FirnlineError, UsageError
from firnline.kernel.local import LocalEngine
from firnline.log.records import Delete
from firnline.log.txn_file import Counts, RunIdentity
from firnline.operations.cleanup.run import run_cleanup
from firnline.operations.delete.run import run_delete
from firnline.operations.downgrade.run import run_downgrade
from firnline.operations.drop.run import run_drop
from firnline.operations.drop.ttl import run_ttl
from firnline.operations.drop_table.run import run_drop_table
from firnline.operations.erase.run import run_erase
from firnline.operations.hold.pages import hold_report_page
from firnline.operations.hold.plan import plan_hold
from firnline.operations.hold.run import list_holds, run_end, run_hold
from firnline.operations.merge.run import run_merge
from firnline.operations.operation import Work
from firnline.operations.options import (
    CleanupOptions,
    DeleteOptions,
    DowngradeOptions,
    DropOptions,
    DropTableOptions,
    EndHoldOptions,
    EraseOptions,
    Evolution,
    HoldOptions,
    LazyOptions,
    MergeOptions,
    RebuildOptions,
    ReplaceOptions,
    RestoreOptions,
    RewriteOptions,
    TtlOptions,
    UpdateOptions,
)
from firnline.operations.properties.run import change_to, run_apply
from firnline.operations.rebuild.run import run_rebuild
from firnline.operations.registry import DELETE, END_HOLD, HOLD, TTL
from firnline.operations.replace.run import run_replace
from firnline.operations.restore.run import run_restore
from firnline.operations.rewrite.run import run_rewrite
from firnline.operations.schema.lazy import run_lazily
from firnline.operations.update.run import run_update
from firnline.state.history import history
from firnline.state.holds import Held
from firnline.state.snapshot import read_snapshot
from tests.support.log_tables import snapshot
from tests.support.reading import visible_rows
from tests.support.world import SetClock, World, make_world

RUN = RunIdentity(run_id="r", user="ana")
NOW = datetime.datetime(2023, 11, 14, 22, 13, 20, tzinfo=datetime.UTC)
DAY = 86_400_000
COLUMNS = pa.schema([("d", pa.int64()), ("c", pa.int64()), ("ts", pa.timestamp("us", "UTC"))])
HELD_D1 = {(1, 5), (1, 6)}


def append(world: World, d: int, *customers: int, days: float = 30) -> None:
    """One part of partition ``d`` with a row of each customer, so many days old."""
    world.clock.advance(10)
    at = NOW - datetime.timedelta(days=days)
    rows = [{"d": d, "c": c, "ts": at} for c in customers]
    Appender(world.table).append(pa.Table.from_pylist(rows, COLUMNS))


def world_of(**settings: Any) -> World:
    """Customers 5 and 6 in partition 1, 7 in partition 2, all of it 30 days old."""
    ttl = {"keep": "10d", "column": "ts", "max_removed_fraction": 1}
    given: dict[str, Any] = {"partition_by": ["d"], "sort_by": ["c"], "statistics": ["c"]}
    world = make_world(**{**given, "ttl": ttl, "merge": {"min_inputs": 2}, **settings})
    append(world, 1, 5, 6)
    append(world, 2, 7)
    return world


def hold(world: World, name: str = "case-17", **options: Any) -> Any:
    world.clock.advance(10)
    asked = options or {"where": "c = 5"}
    return run_hold(
        Work(world.table, RUN), HoldOptions(name=name, why="Miller v. Acme", by="ana", **asked)
    )


def end(world: World, name: str = "case-17") -> Any:
    return run_end(Work(world.table, RUN), EndHoldOptions(name=name, why="settled"))


def work(world: World, scratch: Path) -> Work:
    engine = LocalEngine(lambda: world.store, scratch, world.ids, SystemClock())
    return Work(world.table, RUN, lambda: engine)


def seen(world: World) -> set[tuple[int, int]]:
    return {(row["d"], row["c"]) for row in visible_rows(world.table)}


# --- put, list and end ----------------------------------------------------------------------------


def test_a_hold_is_a_property_of_the_table_and_stands_in_its_history() -> None:
    world = world_of()
    report = hold(world)
    (listed,) = list_holds(world.table).holds
    assert (listed.name, listed.by, listed.why) == ("case-17", "ana", "Miller v. Acme")
    assert msgspec.json.decode(listed.where) == {"op": "=", "column": "c", "value": 5}
    assert (listed.live.parts, listed.live.rows, listed.dead.parts) == (1, 2, 0)
    assert report.hold == listed
    (header,) = history(world.table)
    assert (header.op, header.why) == ("properties", "hold case-17: Miller v. Acme")
    end(world)
    assert list_holds(world.table).holds == ()
    assert history(world.table)[0].why == "end of hold case-17: settled"


def test_several_holds_end_one_by_one() -> None:
    world = world_of()
    hold(world, "a", where="c = 5")
    hold(world, "b", partitions=("d=2",))
    assert [one.name for one in list_holds(world.table).holds] == ["a", "b"]
    end(world, "a")
    assert [one.name for one in list_holds(world.table).holds] == ["b"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"name": " ", "where": "c = 1"}, "has a name of 1 to 1,000 characters"),
        ({"why": None}, r"has a reason \(why\) of 1 to"),
        ({"where": None}, "names rows by a condition, partitions, or both"),
        ({"where": "nope = 1"}, "nope"),
        ({"partitions": ("d=9",)}, "d=9"),
        ({"name": "taken"}, "there is a legal hold 'taken' already"),
    ],
)
def test_what_is_no_hold_is_refused(options: dict[str, Any], said: str) -> None:
    world = world_of()
    hold(world, "taken")
    given = {"name": "n", "why": "w", "where": "c = 5", "by": "ana", **options}
    with pytest.raises(UsageError, match=said):
        run_hold(Work(world.table, RUN), HoldOptions(**given))


def test_the_end_of_a_hold_that_is_not_there_or_has_no_reason_is_refused() -> None:
    world = world_of()
    with pytest.raises(UsageError, match="'case-17', nor any other: no hold is in force") as none:
        end(world)
    assert none.value.next_step == "there is nothing to end"
    hold(world)
    with pytest.raises(UsageError, match="there is no legal hold 'case-18'") as other:
        end(world, "case-18")
    assert other.value.next_step == "name one of those in force: case-17"
    with pytest.raises(UsageError, match="the end of a legal hold has a reason"):
        run_end(Work(world.table, RUN), EndHoldOptions(name="case-17"))


def test_a_hold_outlives_other_changes_of_the_properties() -> None:
    world = world_of()
    hold(world)
    order = make_world(sort_by=["ts"]).settings.sort_by
    settings = world.settings.model_copy(update={"sort_by": order})
    report = run_apply(replace(world.table, settings=settings, wanted=None), RUN)
    assert [change.name for change in report.changes] == ["sort_by"]
    assert [one.name for one in list_holds(world.table).holds] == ["case-17"]


def test_a_hold_outlives_a_lost_log() -> None:
    world = world_of()
    hold(world)
    for key in [key for key in world.store.objects if "/_log/" in key]:
        del world.store.objects[key]
    world.clock.advance(3 * DAY)
    run_rebuild(Work(world.table, RUN), RebuildOptions(force=True))
    assert [one.name for one in list_holds(world.table).holds] == ["case-17"]
    with pytest.raises(UsageError, match="legal hold 'case-17'"):
        _drop(world, Path())


# --- what leaves the rows -------------------------------------------------------------------------


def test_a_ttl_leaves_parts_with_held_rows_and_says_so() -> None:
    world = world_of()
    hold(world)
    report = run_ttl(Work(world.table, RUN), TtlOptions())
    assert seen(world) == HELD_D1
    (left,) = report.undecided
    assert (left.partition, left.reason) == ("d=1", "is past, but under the legal hold case-17")
    end(world)
    run_ttl(Work(world.table, RUN), TtlOptions())
    assert seen(world) == set()


def test_a_ttl_of_rows_hides_all_but_the_held_ones() -> None:
    ttl = {"keep": "10d", "column": "ts", "rows": True, "max_removed_fraction": 1}
    world = world_of(ttl=ttl)
    hold(world)
    run_ttl(Work(world.table, RUN), TtlOptions())
    assert seen(world) == {(1, 5)}


def test_a_ttl_of_rows_right_after_the_end_of_a_hold_hides_what_it_kept() -> None:
    ttl = {"keep": "10d", "column": "ts", "rows": True, "max_removed_fraction": 1}
    world = make_world(partition_by=["d"], sort_by=["c"], statistics=["c", "ts"], ttl=ttl)
    for d, ages in ((1, {5: 30, 6: 30, 9: 1}), (2, {7: 30, 8: 1})):
        rows = [
            {"d": d, "c": c, "ts": NOW - datetime.timedelta(days=days)} for c, days in ages.items()
        ]
        Appender(world.table).append(pa.Table.from_pylist(rows, COLUMNS))
    young = {(1, 9), (2, 8)}
    hold(world)
    hold(world, "other", where="c = 7")
    run_ttl(Work(world.table, RUN), TtlOptions())
    assert seen(world) == {(1, 5), (2, 7), *young}
    assert run_ttl(Work(world.table, RUN), TtlOptions()).transaction is None
    end(world)
    again = run_ttl(Work(world.table, RUN), TtlOptions())
    assert again.hidden is not None
    assert again.hidden.parts == 1  # no row of c = 5 is in the other one
    assert seen(world) == {(2, 7), *young}
    assert run_ttl(Work(world.table, RUN), TtlOptions()).transaction is None
    hold(world, "later", where="c = 6")
    assert run_ttl(Work(world.table, RUN), TtlOptions()).transaction is None


@pytest.mark.parametrize("mode", ["lazy", "eager"])
def test_rows_of_which_a_null_leaves_open_whether_they_are_held_stay_in_a_delete(
    mode: Any, tmp_path: Path
) -> None:
    world = world_of()
    rows = [{"d": 1, "c": c, "ts": NOW} for c in (None, 8)]
    Appender(world.table).append(pa.Table.from_pylist(rows, COLUMNS))
    hold(world)
    run_delete(work(world, tmp_path), DeleteOptions(where="d > 0", mode=mode))
    assert {(row["d"], row["c"]) for row in visible_rows(world.table)} == {(1, 5), (1, None)}


def test_plan_and_report_of_a_ttl_of_rows_say_which_rows_of_holds_stay() -> None:
    ttl = {"keep": "10d", "column": "ts", "rows": True, "max_removed_fraction": 1}
    world = world_of(ttl=ttl)
    ages = {5: 30, None: 30, 9: 1}
    rows = [{"d": 1, "c": c, "ts": NOW - datetime.timedelta(days=n)} for c, n in ages.items()]
    Appender(world.table).append(pa.Table.from_pylist(rows, COLUMNS))
    hold(world)
    said = "Rows under legal holds stay: case-17. So do those of which a null leaves open"
    operation = TTL.load()
    figures = operation.plan(world.table, TtlOptions()).to_json()
    assert said in " ".join(operation.page_of_plan(world.table, figures).lines())
    report = run_ttl(Work(world.table, RUN), TtlOptions())
    assert said in " ".join(operation.report_page(report.to_json()).lines())
    assert seen(world) == {(1, 5), (1, None), (1, 9)}


@pytest.mark.parametrize("mode", ["lazy", "eager"])
def test_a_delete_takes_all_but_the_held_rows(mode: Any, tmp_path: Path) -> None:
    world = world_of()
    hold(world)
    run_delete(work(world, tmp_path), DeleteOptions(where="c > 0", mode=mode))
    assert seen(world) == {(1, 5)}
    append(world, 1, 5)
    run_merge(work(world, tmp_path), MergeOptions(full=True))
    assert [row["c"] for row in visible_rows(world.table)] == [5, 5]


def test_an_append_that_was_under_way_keeps_its_held_rows_in_a_delete(tmp_path: Path) -> None:
    world = world_of()
    hold(world)

    def slowly() -> Any:
        rows = [{"d": 1, "c": c, "ts": NOW} for c in (5, 8)]
        yield pa.RecordBatch.from_pylist(rows, COLUMNS)
        run_delete(work(world, tmp_path), DeleteOptions(where="c > 0", mode="lazy"))

    Appender(world.table).append(pa.RecordBatchReader.from_batches(COLUMNS, slowly()))
    assert [row["c"] for row in visible_rows(world.table)] == [5, 5]


def test_a_merge_moves_held_rows_and_clean_up_deletes_what_they_were_in(tmp_path: Path) -> None:
    world = world_of()
    hold(world)
    append(world, 1, 8)
    run_merge(work(world, tmp_path), MergeOptions())
    world.clock.advance(3 * DAY)
    dead = {key for key, m in snapshot(world).parts.items() if m.tmb is not None}
    run_cleanup(Work(world.table, RUN), CleanupOptions())
    assert len(dead) == 2
    assert dead.isdisjoint(world.store.objects)
    assert seen(world) == {*HELD_D1, (1, 8), (2, 7)}


def test_clean_up_keeps_what_was_dropped_before_the_hold_until_it_ends() -> None:
    world = world_of()
    run_drop(Work(world.table, RUN), DropOptions(partitions=("d=1", "d=2")))
    report = hold(world)
    assert (report.hold.live.parts, report.hold.dead.parts) == (0, 1)
    world.clock.advance(3 * DAY)
    cleaned = run_cleanup(Work(world.table, RUN), CleanupOptions())
    kept = [w for w in cleaned.waiting if "legal hold" in w.reason]
    assert [w.count for w in kept] == [1]
    parts = [key for key in world.store.objects if "/_data/" in key]
    assert len(parts) == 1
    assert "/d=1/" in parts[0]
    end(world)
    run_cleanup(Work(world.table, RUN), CleanupOptions())
    assert [key for key in world.store.objects if "/_data/" in key] == []


def test_parts_that_were_deleted_before_a_hold_are_not_said_to_be_kept(tmp_path: Path) -> None:
    """As the completion of a certificate deletes them, which moves no horizon."""
    world = world_of()
    append(world, 1, 5)
    dead = [key for key in snapshot(world).parts if "/d=1/" in key]
    run_drop(Work(world.table, RUN), DropOptions(partitions=("d=1",)))
    del world.store.objects[dead[0]]
    before = world.store.counters.list
    report = hold(world)
    assert report.hold.dead.parts == 1
    lists = world.store.counters.list
    assert report.requests["list"] == lists - before
    (listed,) = list_holds(world.table).holds
    assert listed == report.hold
    del world.store.objects[dead[1]]
    asked = HoldOptions(name="b", where="c = 5", why="w", by="ana")
    assert HOLD.load().plan(world.table, asked).hold.dead.parts == 0
    assert [one.dead.parts for one in list_holds(world.table).holds] == [0]
    assert end(world).hold.dead.parts == 0


@pytest.mark.parametrize(("dropped", "lists"), [((), 0), (("d=2",), 0), (("d=1",), 1)])
def test_a_list_of_holds_looks_for_objects_once_and_only_for_dead_parts_under_a_hold(
    dropped: tuple[str, ...], lists: int
) -> None:
    world = world_of()
    if dropped:
        run_drop(Work(world.table, RUN), DropOptions(partitions=dropped))
    hold(world, "a")
    hold(world, "b", where="c = 6")
    before = world.store.counters.list
    take_base(world.table)
    of_base = world.store.counters.list - before
    list_holds(world.table)
    assert world.store.counters.list - before - 2 * of_base == lists


def test_clean_up_keeps_what_was_dropped_before_the_hold_by_a_clock_that_is_ahead() -> None:
    world = world_of()
    ahead = replace(world.table, clock=SetClock(world.clock.now + DAY // 2))
    run_drop(Work(ahead, RUN), DropOptions(partitions=("d=1",)))
    report = hold(world, partitions=("d=*",), where="c = 5")
    assert report.hold.dead.parts == 1
    assert list_holds(world.table).holds == (report.hold,)
    world.clock.advance(3 * DAY)
    run_cleanup(Work(world.table, RUN), CleanupOptions())
    assert len([key for key in world.store.objects if "/_data/d=1/" in key]) == 1


def test_clean_up_keeps_what_was_dropped_while_the_hold_was_on_its_way() -> None:
    world = world_of()
    planned = plan_hold(
        take_base(world.table),
        HoldOptions(name="case-17", where="c = 5", why="Miller v. Acme", by="ana"),
        world.clock.now_ms(),
        "ana",
    )
    base = take_base(world.table)
    world.clock.advance(10)
    run_drop(Work(world.table, RUN), DropOptions(partitions=("d=1",)))
    commit(world.table, base, change_to(base, planned.after, "hold"), RUN)
    world.clock.advance(3 * DAY)
    run_cleanup(Work(world.table, RUN), CleanupOptions())
    assert len([key for key in world.store.objects if "/_data/d=1/" in key]) == 1


def test_the_plan_of_a_delete_names_the_holds_whose_rows_stay() -> None:
    world = world_of()
    hold(world)
    operation = DELETE.load()
    figures = operation.plan(world.table, DeleteOptions(where="c > 0", mode="lazy")).to_json()
    assert figures["holds"] == ["case-17"]
    page = operation.page_of_plan(world.table, figures)
    said = (
        "Rows under legal holds stay: case-17. So do those of which a null leaves open whether a "
        "hold covers them."
    )
    assert said in list(page.lines())
    report = run_delete(Work(world.table, RUN), DeleteOptions(where="c > 0", mode="lazy"))
    assert said in list(operation.report_page(report.to_json()).lines())


# --- what is refused ------------------------------------------------------------------------------


def _drop(world: World, _: Path) -> object:
    return run_drop(Work(world.table, RUN), DropOptions(partitions=("d=1",)))


def _erase(world: World, scratch: Path) -> object:
    return run_erase(work(world, scratch), EraseOptions(columns=("c",), keys=((5,), (6,))))


def _rewrite(world: World, scratch: Path) -> object:
    return run_rewrite(work(world, scratch), RewriteOptions(where="c <> 6", force=True))


def _query(world: World, scratch: Path) -> object:
    sql = "SELECT * FROM _rows"
    return run_rewrite(work(world, scratch), RewriteOptions(sql=sql, force=True))


def _update(world: World, scratch: Path) -> object:
    return run_update(work(world, scratch), UpdateOptions(set=("c = 9",), where="c = 6"))


def _replace(world: World, scratch: Path) -> object:
    options = ReplaceOptions(column="c", start=5, end=6, nothing=True)
    return run_replace(work(world, scratch), options)


def _restore(world: World, _: Path) -> object:
    return run_restore(Work(world.table, RUN), RestoreOptions(to=0, exact=True))


def _rename(world: World, _: Path) -> object:
    evolution = Evolution(rename={"c": "customer"})
    return run_lazily(Work(world.table, RUN), LazyOptions(evolution=evolution))


def _drop_column(world: World, _: Path) -> object:
    return run_lazily(Work(world.table, RUN), LazyOptions(evolution=Evolution(drop=("c",))))


def _drop_another_column(world: World, _: Path) -> object:
    others = [name for name in read_snapshot(world.store, world.table.paths).schema if name != "c"]
    evolution = Evolution(drop=(others[-1],))
    return run_lazily(Work(world.table, RUN), LazyOptions(evolution=evolution))


def _downgrade(world: World, scratch: Path) -> object:
    return run_downgrade(work(world, scratch), DowngradeOptions())


def _drop_table(world: World, _: Path) -> object:
    return run_drop_table(Work(world.table, RUN), DropTableOptions(name="t"))


REFUSED: dict[str, Callable[[World, Path], object]] = {
    "drop": _drop,
    "drop of the table": _drop_table,
    "erase": _erase,
    "rewrite": _rewrite,
    "rewrite by a query": _query,
    "update": _update,
    "replace": _replace,
    "rename": _rename,
    "drop of the column": _drop_column,
    "drop of another column": _drop_another_column,
    "downgrade": _downgrade,
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_may_take_held_rows_is_refused_and_changes_nothing(name: str, tmp_path: Path) -> None:
    world = world_of(statistics=["c"])
    hold(world)
    before = dict(world.store.objects)
    with pytest.raises(FirnlineError, match="legal hold 'case-17'"):
        REFUSED[name](world, tmp_path)
    after = {k: v for k, v in world.store.objects.items() if "/_probe/" not in k}
    assert {k: v for k, v in before.items() if "/_probe/" not in k} == after


def test_a_restore_that_would_take_held_rows_away_is_refused() -> None:
    world = world_of()
    hold(world, "other", where="c = 99")
    append(world, 1, 5)
    hold(world)
    with pytest.raises(UsageError, match="legal hold 'case-17'"):
        _restore(world, Path())
    assert len(visible_rows(world.table)) == 4


def test_what_touches_no_part_with_held_rows_goes_on(tmp_path: Path) -> None:
    world = world_of()
    hold(world)
    run_erase(work(world, tmp_path), EraseOptions(columns=("c",), keys=((7,),)))
    assert seen(world) == HELD_D1
    append(world, 2, 8, 9)
    options = RewriteOptions(where="c <> 8", partitions=("d=2",), force=True)
    run_rewrite(work(world, tmp_path), options)
    run_drop(Work(world.table, RUN), DropOptions(partitions=("d=2",)))
    assert seen(world) == HELD_D1


def test_an_erase_says_how_many_of_its_keys_are_held_and_not_which() -> None:
    world = world_of()
    hold(world)
    with pytest.raises(UsageError, match="1 key of 2 is under the legal hold") as raised:
        _erase(world, Path())
    assert "5" not in str(raised.value).replace("case-17", "")
    end(world)
    hold(world, "by day", partitions=("d=1",))
    with pytest.raises(UsageError, match="cannot be told from the keys"):
        _erase(world, Path())


def test_a_delete_beside_a_hold_of_partitions_names_others_exactly(tmp_path: Path) -> None:
    world = world_of()
    hold(world, partitions=("d=1",))
    for partitions in ((), ("d=*",), ("d=1",)):
        with pytest.raises(UsageError, match="a delete on partitions of the legal hold"):
            run_delete(work(world, tmp_path), DeleteOptions(where="c > 0", partitions=partitions))
    run_delete(work(world, tmp_path), DeleteOptions(where="c > 0", partitions=("d=2",)))
    assert seen(world) == HELD_D1


def test_a_delete_that_looks_for_the_newest_row_of_a_key_is_refused(tmp_path: Path) -> None:
    world = world_of(primary_key=["c"])
    hold(world, where="ts < '2023-01-01'")
    with pytest.raises(UsageError, match="beside a legal hold by 'ts', which is not") as refusal:
        run_delete(work(world, tmp_path), DeleteOptions(where="c = 6"))
    assert refusal.value.next_step.startswith("name the rows of the hold by c, or end the hold")
    with pytest.raises(
        UsageError, match="a delete by 'ts', which is not of the primary"
    ) as refusal:
        run_delete(work(world, tmp_path), DeleteOptions(where="ts > '2024-01-01'"))
    assert refusal.value.next_step.startswith("delete by c, or end the hold")


def test_the_printed_end_of_a_hold_runs_as_it_is_printed() -> None:
    world = world_of()
    report = hold(world, name="Miller v. Acme; case 17")
    page = hold_report_page(report.to_json())
    command = page.sentence.partition("`")[2].partition("`")[0]
    assert shlex.split(command) == ["firnline", "hold", "end", "t", "Miller v. Acme; case 17"]


def test_a_table_that_was_dropped_before_a_hold_is_not_deleted() -> None:
    world = world_of()
    _drop_table(world, Path())
    hold(world)
    world.clock.advance(9 * DAY)
    before = set(world.store.objects)
    with pytest.raises(UsageError, match="a drop of the table may take rows of the legal hold"):
        _drop_table(world, Path())
    assert set(world.store.objects) == before


# --- beside each other ----------------------------------------------------------------------------


def test_a_removal_that_was_planned_before_a_hold_is_planned_again() -> None:
    """Whichever commits first: the other one is on a state that has it."""
    world = world_of()
    base = take_base(world.table)
    keys = tuple(base.snapshot.live)
    hold(world)
    for knows in ((), None):
        change = Change(
            "drop", keys, (), Counts(parts_in=2, rows_in=3, rows_deleted=3), holds=knows
        )
        error = CommitConflictError if knows is not None else UsageError
        with pytest.raises(error, match="legal hold 'case-17'"):
            commit(world.table, base, change, RUN)
    assert seen(world) == {*HELD_D1, (2, 7)}


def test_a_record_that_hides_rows_is_not_committed_beside_a_hold_that_it_does_not_know() -> None:
    world = world_of()
    hold(world)
    record = Delete("", 0, 0, msgspec.Raw(b'{"op":"=","column":"c","value":9}'))
    change = Change("other", (), (), Counts(), deletes=(record,))
    with pytest.raises(UsageError, match="this other may take rows of the legal hold"):
        commit(world.table, take_base(world.table), change, RUN)


def test_a_hold_of_one_name_that_was_ended_and_put_for_other_rows_is_another_one() -> None:
    world = world_of()
    hold(world)
    known = take_base(world.table)
    planned = Held.of(known.snapshot).holds
    end(world)
    hold(world, where="c = 7")
    key = next(k for k in known.snapshot.live if "/d=2/" in k)
    counts = Counts(parts_in=1, rows_in=1, rows_deleted=1)
    with pytest.raises(CommitConflictError, match="was put while this drop ran"):
        commit(world.table, known, Change("drop", (key,), (), counts, holds=planned), RUN)


# --- what is shown --------------------------------------------------------------------------------


def test_the_pages_say_which_rows_who_and_why() -> None:
    world = world_of()
    report = hold(world)
    page = HOLD.load().report_page(report.to_json())
    text = "\n".join(page.lines())
    assert "c = 5" in text
    assert "at most 2 rows in 1 part" in text
    assert "`firnline hold end t case-17`" in text
    ended = "\n".join(END_HOLD.load().report_page(end(world).to_json()).lines())
    assert "The hold on t has ended" in ended
    assert snapshot(world).live
