"""What decides about correctness or layout is said by the table, whoever works on it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from firnline.appends.append import Appender
from firnline.clock import SystemClock
from firnline.commit import checkpoint
from firnline.commit.base import take_base
from firnline.commit.transaction import Change, commit
from firnline.errors import (
    AppendExpiredError,
    CommitConflictError,
    PropertiesDifferError,
    UsageError,
)
from firnline.kernel.local import LocalEngine
from firnline.log.txn_file import Counts, RunIdentity
from firnline.operations.delete.run import run_delete
from firnline.operations.downgrade.run import run_downgrade
from firnline.operations.merge.run import run_merge
from firnline.operations.operation import Work
from firnline.operations.options import (
    DeleteOptions,
    DowngradeOptions,
    MergeOptions,
    RebuildOptions,
    RestoreOptions,
    SweepOptions,
    VerifyOptions,
)
from firnline.operations.properties.run import reconcile, run_apply, show
from firnline.operations.rebuild.run import run_rebuild
from firnline.operations.restore.run import run_restore
from firnline.operations.sweep.run import run_sweep
from firnline.operations.verify.run import run_verify
from firnline.properties.in_force import current, disagree, from_settings
from firnline.read.scan import scan
from firnline.state.snapshot import read_snapshot
from firnline.table import Table
from tests.support.beside import Beside
from tests.support.declared import append, begin_at_once, rows, said, told_nothing, under, world_of
from tests.support.downgrades import folded
from tests.support.histories import clean_up, lose_log
from tests.support.log_tables import do_merge, do_nothing, put_append
from tests.support.v1_client import V1Client
from tests.support.world import World

RUN = RunIdentity(run_id="r")
MINUTE, HOUR, DAY = 60_000, 3_600_000, 86_400_000
KEYED: dict[str, Any] = {"primary_key": ["id"], "version": "v"}


def merge(table: Table, scratch: Path) -> None:
    table.clock.sleep(0.01)
    engine = LocalEngine(lambda: table.store, scratch, table.ids, SystemClock())
    run_merge(Work(table, RUN, lambda: engine), MergeOptions())


def seen(table: Table) -> list[int]:
    found = scan(table, columns=["id"]).to_arrow().column("id").to_pylist()
    return sorted(found)


def never() -> Any:
    raise AssertionError("an engine was started for nothing")


# --- whoever deletes goes by the table ------------------------------------------------------------


def test_the_fence_waits_for_appends_that_began_by_longer_times() -> None:
    world = world_of(append={"ttl": "7d"}, orphan_grace="8d")
    append(world.table, 1)
    run_apply(under(world, append={"ttl": "1h"}, orphan_grace="8d"), RUN)
    nothing = Change("analyze", (), (), Counts())
    for days, fence in ((2, 0), (6, 0), (1, 1)):
        world.clock.advance(days * DAY)
        commit(under(world), take_base(under(world)), nothing, RUN)
        assert take_base(under(world)).snapshot.fence.seq >= fence
        assert bool(take_base(under(world)).snapshot.fence.seq) == bool(fence)


@pytest.mark.long
def test_a_sweep_by_default_settings_waits_for_the_appends_of_the_table() -> None:
    world = world_of(append={"ttl": "7d"}, orphan_grace="8d")
    append(world.table, 1)

    def slowly() -> Iterator[pa.RecordBatch]:
        yield from rows(*range(2, 300)).to_batches()
        world.clock.advance(4 * DAY)
        report = run_sweep(Work(under(world), RUN), SweepOptions())
        assert report.deleted == 0
        yield from rows(300).to_batches()

    settings = world.settings.append.model_copy(update={"part_bytes": 1, "buffer": 1})
    eager = replace(world.table, settings=world.settings.model_copy(update={"append": settings}))
    assert len(Appender(eager).append(slowly()).parts) > 1
    assert seen(under(world)) == list(range(1, 301))


def test_the_first_append_of_a_table_is_refused_where_another_gave_it_a_shorter_ttl() -> None:
    world = world_of(append={"ttl": "20h"}, orphan_grace="8d")

    def slowly() -> Iterator[pa.RecordBatch]:
        yield from rows(1).to_batches()
        append(under(world, append={"ttl": "1h"}), 2)
        world.clock.advance(2 * HOUR)

    with pytest.raises(AppendExpiredError):
        Appender(world.table).append(slowly())
    assert seen(under(world)) == [2]
    assert said(world).append_ttl == HOUR


def test_the_first_append_of_a_table_does_not_outlive_what_any_sweep_leaves_alone() -> None:
    world = world_of(append={"ttl": "7d"}, orphan_grace="8d")

    def slowly() -> Iterator[pa.RecordBatch]:
        yield from rows(1).to_batches()
        world.clock.advance(DAY)

    with pytest.raises(AppendExpiredError):
        Appender(world.table).append(slowly())


def test_rows_of_an_acknowledged_delete_do_not_come_back_by_an_append_with_other_settings(
    tmp_path: Path,
) -> None:
    world = world_of(append={"ttl": "1m"}, commit_ttl="1m", cleanup={"grace": "1s"}, sort_by=["id"])
    append(world.table, 1)
    for _ in range(2):  # the first fence of a table waits a day
        do_nothing(world)
        world.clock.advance(25 * HOUR)

    def slowly() -> Iterator[pa.RecordBatch]:
        yield from rows(2).to_batches()
        run_delete(Work(world.table, RUN, never), DeleteOptions(where="id = 2", mode="lazy"))
        world.clock.advance(2 * MINUTE)
        append(world.table, 3)
        merge(world.table, tmp_path)
        assert not read_snapshot(world.store, world.table.paths).deletes

    with pytest.raises(AppendExpiredError):
        Appender(under(world, append={"ttl": "6h"})).append(slowly())
    assert seen(under(world)) == [1, 3]


def test_a_keyed_table_keeps_the_newest_row_of_a_key_whoever_merges(tmp_path: Path) -> None:
    world = world_of(**KEYED)
    append(world.table, 1, v=2)
    append(world.table, 1, v=1)
    merge(under(world), tmp_path)
    found = scan(under(world)).to_arrow().to_pylist()
    assert found == [{"id": 1, "v": 2}]
    assert run_verify(Work(world.table), VerifyOptions(deep=True)).healthy


OTHER_KEYS: list[dict[str, Any]] = [
    {"primary_key": []}, {"primary_key": ["v"]}, {"primary_key": ["id"], "version": None},
]  # fmt: skip


@pytest.mark.long
@pytest.mark.parametrize("other", OTHER_KEYS)
def test_a_process_that_names_another_key_is_refused(other: dict[str, Any], tmp_path: Path) -> None:
    world = world_of(**KEYED)
    append(world.table, 1, v=2)
    append(world.table, 1, v=1)
    before = dict(world.store.objects)
    table = under(world, **other)
    with pytest.raises(PropertiesDifferError, match="firnline properties apply"):
        append(table, 2)
    with pytest.raises(PropertiesDifferError):
        merge(table, tmp_path)
    with pytest.raises(PropertiesDifferError):
        run_delete(Work(table, RUN, never), DeleteOptions(where="id = 1"))
    with pytest.raises(PropertiesDifferError):
        scan(table)
    assert scan(table, dedup=False).to_arrow().num_rows == 2
    assert world.store.objects == before
    assert run_verify(Work(table), VerifyOptions()).kinds["settings-differ"] >= 1
    assert not run_verify(Work(table), VerifyOptions()).healthy


def test_of_two_appends_that_begin_a_table_with_two_keys_one_is_refused() -> None:
    world = world_of(primary_key=["id"])

    def slowly() -> Iterator[pa.RecordBatch]:
        yield from rows(1).to_batches()
        append(under(world, primary_key=["v"]), 2)

    with pytest.raises(PropertiesDifferError, match="meanwhile"):
        Appender(world.table).append(slowly())
    assert seen(under(world)) == [2]
    assert said(world).primary_key == ("v",)


@pytest.mark.long
@pytest.mark.parametrize("first", ["2h", "3h"])
def test_the_birth_record_decides_where_first_appends_say_different_things(
    first: str, tmp_path: Path
) -> None:
    world = world_of(append={"ttl": "2h"})
    records = begin_at_once(world, first, "3h" if first == "2h" else "2h")
    world.store.objects[world.table.paths.birth] = records["2h"]
    assert len(read_snapshot(world.store, world.table.paths).properties) == 2
    assert said(world).append_ttl == 2 * HOUR
    append(under(world), 3)
    merge(under(world), tmp_path)
    assert said(world).append_ttl == 2 * HOUR
    in_log = read_snapshot(world.store, world.table.paths).properties
    assert not disagree(in_log), "the first transaction has said it in the log"


def test_without_a_birth_record_the_first_append_that_was_written_decides() -> None:
    """Both have died before they wrote one, or were not let."""
    world = world_of(append={"ttl": "2h"})
    begin_at_once(world, "2h", "3h")
    assert len(read_snapshot(world.store, world.table.paths).properties) == 2
    assert said(world).append_ttl == 2 * HOUR


def test_no_append_writes_a_birth_record_of_a_table_with_transactions_or_without_fencing() -> None:
    world = world_of()
    do_merge(world, put_append(world, schema={"id": "BIGINT", "v": "BIGINT"}))
    pooled = world_of(locking="pool-only")
    for each in (world, pooled):
        append(each.table, 1)
        assert each.table.paths.birth not in each.store.objects


@pytest.mark.parametrize(("born", "beside"), [("2h", "3h"), ("3h", "2h")])
def test_it_decides_too_what_a_rebuild_takes_over(born: str, beside: str) -> None:
    world = world_of(append={"ttl": born})
    births = begin_at_once(world, born, beside)
    world.store.objects[world.table.paths.birth] = births[born]
    assert len(read_snapshot(world.store, world.table.paths).properties) == 2
    run_rebuild(Work(under(world), RUN), RebuildOptions(force=True))
    assert said(world).append_ttl == int(born[0]) * HOUR
    assert len(read_snapshot(world.store, world.table.paths).properties) == 1


# --- a change while others are under way ----------------------------------------------------------


@pytest.mark.long
def test_clean_up_goes_by_the_longest_grace_that_anybody_may_have_begun_by(tmp_path: Path) -> None:
    world = world_of(cleanup={"grace": "2d"}, append={"ttl": "1h"})
    append(world.table, 1)
    append(world.table, 2)
    merge(world.table, tmp_path)
    dead = [p for p, m in read_snapshot(world.store, world.table.paths).parts.items() if m.tmb]
    short = under(world, cleanup={"grace": "1h"})
    assert run_apply(short, RUN).transaction == 2
    assert said(world).grace == HOUR
    world.clock.advance(DAY)
    clean = replace(world, settings=short.settings, table=short)
    clean_up(clean)
    assert set(dead) <= world.store.objects.keys()
    world.clock.advance(DAY)
    clean_up(clean)
    assert not set(dead) & world.store.objects.keys()


@pytest.mark.long
def test_an_append_that_began_by_the_longer_ttl_lands_and_its_deleted_rows_stay_hidden(
    tmp_path: Path,
) -> None:
    world = world_of(append={"ttl": "6h"}, cleanup={"grace": "1s"}, sort_by=["id"])
    append(world.table, 1)
    short = under(world, append={"ttl": "1m"})

    def slowly() -> Iterator[pa.RecordBatch]:
        yield from rows(2).to_batches()
        run_apply(short, RUN)
        run_delete(Work(short, RUN, never), DeleteOptions(where="id = 2", mode="lazy"))
        for n in range(3, 6):
            world.clock.advance(HOUR)
            append(short, n)
            merge(short, tmp_path)

    Appender(world.table).append(slowly())
    assert seen(under(world)) == [1, 3, 4, 5]
    last = 5
    # Sizes decide when a log file is folded, and what carries the record counts from then on.
    while read_snapshot(world.store, world.table.paths).deletes and last < 12:
        last += 1
        world.clock.advance(7 * HOUR)
        append(short, last)
        merge(short, tmp_path)
        clean_up(replace(world, table=short))
    assert not read_snapshot(world.store, world.table.paths).deletes
    assert seen(under(world)) == [1, *range(3, last + 1)]


@pytest.mark.long
def test_a_sweep_waits_for_appends_that_began_by_a_longer_ttl() -> None:
    world = world_of(append={"ttl": "7d"}, orphan_grace="8d")
    append(world.table, 1)
    short = under(world, append={"ttl": "1h"}, commit_ttl="1h", orphan_grace="1d")

    def slowly() -> Iterator[pa.RecordBatch]:
        yield from rows(*range(2, 300)).to_batches()
        run_apply(short, RUN)
        world.clock.advance(4 * DAY)
        assert run_sweep(Work(short, RUN), SweepOptions()).deleted == 0
        yield from rows(300).to_batches()

    settings = world.settings.append.model_copy(update={"part_bytes": 1, "buffer": 1})
    eager = replace(world.table, settings=world.settings.model_copy(update={"append": settings}))
    Appender(eager).append(slowly())
    assert seen(under(world)) == list(range(1, 301))


@pytest.mark.long
def test_what_was_planned_by_another_key_is_not_committed() -> None:
    world = world_of(primary_key=["id"])
    append(world.table, 1, v=1)
    base = take_base(world.table)
    run_apply(under(world, primary_key=["v"]), RUN)
    change = Change("merge", (), (), Counts())
    with pytest.raises(CommitConflictError, match="primary_key"):
        commit(under(world), replace(base, table=under(world)), change, RUN)


def test_what_was_planned_before_the_table_had_a_key_is_not_committed_under_one() -> None:
    """Else a record that names another column would hide the newest row of a key, and no other."""
    world = told_nothing()

    def rival() -> None:
        keyed = under(world, primary_key=["id"])
        commit(keyed, take_base(keyed), Change("merge", (), (), Counts()), RUN)

    store = Beside(world.store, what="put t/_txn", act=rival)
    slow = replace(under(world), store=store)
    with pytest.raises(UsageError, match="only name columns of its primary key"):
        run_delete(Work(slow, RUN, never), DeleteOptions(where="v = 2", mode="lazy"))
    assert store.met
    assert scan(under(world)).to_arrow().to_pylist() == [{"id": 1, "v": 2}]


def test_of_two_first_transactions_that_say_the_same_of_the_table_both_commit() -> None:
    world = told_nothing()
    base = take_base(world.table)
    assert base.properties is None
    for _ in range(2):
        commit(world.table, base, Change("merge", (), (), Counts()), RUN)
    state = read_snapshot(world.store, world.table.paths)
    assert (state.seq, len(state.properties)) == (2, 1), "the second says no more than the first"


def test_superseded_properties_go_once_nobody_can_be_under_way_by_them(tmp_path: Path) -> None:
    world = world_of(append={"ttl": "6h"}, cleanup={"grace": "1h"})
    append(world.table, 1)
    run_apply(under(world, append={"ttl": "1h"}), RUN)
    assert [r.seq for r in read_snapshot(world.store, world.table.paths).properties] == [0, 1]
    world.clock.advance(7 * HOUR + MINUTE)
    append(under(world), 2)
    merge(under(world), tmp_path)
    clean_up(world)
    world.clock.advance(DAY)
    append(under(world), 3)
    merge(under(world), tmp_path)
    clean_up(world)
    assert [r.seq for r in read_snapshot(world.store, world.table.paths).properties] == [1]


# --- what carries them ----------------------------------------------------------------------------


def changed_and_merged(scratch: Path) -> World:
    """Properties that are not those of any settings left, folded and cleaned."""
    world = world_of(append={"ttl": "2h"}, cleanup={"grace": "1h"}, **KEYED)
    append(world.table, 1, v=1)
    run_apply(under(world, append={"ttl": "3h"}), RUN)
    append(under(world), 2, v=1)
    merge(under(world), scratch)
    world.clock.advance(6 * HOUR)
    clean_up(replace(world, table=under(world)))
    return world


@pytest.mark.long
def test_folds_and_clean_ups_carry_them(tmp_path: Path) -> None:
    world = changed_and_merged(tmp_path)
    found = said(world)
    assert (found.append_ttl, found.grace, found.primary_key) == (3 * HOUR, HOUR, ("id",))


@pytest.mark.long
def test_a_checkpoint_carries_them(tmp_path: Path) -> None:
    world = changed_and_merged(tmp_path)
    by_log = read_snapshot(world.store, world.table.paths)
    checkpoint.write(world.table, by_log)
    by_checkpoint = read_snapshot(world.store, world.table.paths, checkpoint_above=0)
    assert by_checkpoint.covered
    assert by_checkpoint.properties == by_log.properties


def test_a_rebuild_finds_them_in_what_is_left(tmp_path: Path) -> None:
    world = changed_and_merged(tmp_path)
    before = said(world)
    lose_log(world)
    run_rebuild(Work(under(world), RUN), RebuildOptions())
    assert said(world) == before


def test_a_rebuild_waits_too_for_who_began_by_older_ones() -> None:
    world = world_of(append={"ttl": "3h"})
    append(world.table, 1)
    run_apply(under(world, append={"ttl": "1h"}), RUN)
    lose_log(world)
    run_rebuild(Work(under(world), RUN), RebuildOptions())
    kept = read_snapshot(world.store, world.table.paths).properties
    assert sorted(r.values.append_ttl for r in kept) == [HOUR, 3 * HOUR]


def test_a_rebuild_of_a_table_without_transactions_finds_them_in_the_birth_record() -> None:
    world = world_of(append={"ttl": "2h"}, **KEYED)
    append(world.table, 1, v=1)
    before = said(world)
    lose_log(world)
    run_rebuild(Work(under(world), RUN), RebuildOptions())
    assert said(world) == before


@pytest.mark.long
def test_a_restore_to_before_a_change_leaves_them_in_force(tmp_path: Path) -> None:
    world = changed_and_merged(tmp_path)
    append(under(world), 3)
    merge(under(world), tmp_path)
    before = said(world)
    run_restore(Work(under(world), RUN), RestoreOptions(to=3))
    assert said(world) == before


@pytest.mark.long
def test_a_client_of_version_1_that_folds_the_log_does_not_lose_them(tmp_path: Path) -> None:
    world = changed_and_merged(tmp_path)
    before = said(world)
    append(under(world), 3)
    append(under(world), 4)
    V1Client(world).merge_rows("")
    assert said(world) == before
    append(under(world), 5)
    merge(under(world), tmp_path)
    assert said(world) == before


def test_a_downgrade_leaves_them_for_when_firnline_comes_back(tmp_path: Path) -> None:
    world = world_of(append={"ttl": "2h"}, cleanup={"grace": "1h"})
    append(world.table, 1)
    run_apply(under(world, append={"ttl": "3h"}), RUN)
    before = said(world)
    run_downgrade(Work(under(world), RUN, never), DowngradeOptions())
    assert said(world) == before
    world.clock.advance(2 * DAY)
    run_downgrade(Work(under(world), RUN, never), DowngradeOptions())
    kept = [world.table.paths.birth, world.table.paths.txn(2)]
    assert [k for k in world.store.objects if "/_txn/" in k] == kept
    assert said(world) == before
    folded(world)
    assert said(world) == before


def test_a_table_written_before_gets_them_from_the_settings_at_its_first_commit(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    world = world_of(append={"ttl": "2h"})
    client = V1Client(world)
    client.append("d=1")
    client.append("d=1")
    view = show(world.table)
    assert not view.said
    assert take_base(world.table).properties is None
    commit(world.table, take_base(world.table), Change("merge", (), (), Counts()), RUN)
    assert "gets its properties from the settings" in caplog.text
    assert said(world) == from_settings(world.settings)


# --- the command ----------------------------------------------------------------------------------


def test_the_view_shows_both_and_the_difference() -> None:
    world = world_of(append={"ttl": "2h"}, sort_by=["id"])
    append(world.table, 1)
    view = show(under(world, append={"ttl": "3h"}))
    shown = {p.name: (p.table, p.settings, p.differs) for p in view.properties}
    assert shown["append.ttl"] == ("2h", "3h", True)
    assert shown["sort_by"] == ("id", None, False)
    assert shown["primary_key"] == ("-", None, False)
    assert (view.said, view.seq, view.since) == (True, 0, 0)


def test_a_dry_run_shows_what_would_change_and_writes_nothing() -> None:
    world = world_of(append={"ttl": "2h"})
    append(world.table, 1)
    before = dict(world.store.objects)
    report = run_apply(under(world, append={"ttl": "3h"}), RUN, dry_run=True)
    assert [(p.name, p.table, p.settings) for p in report.changes] == [("append.ttl", "2h", "3h")]
    assert (report.transaction, world.store.objects) == (None, before)


def test_a_second_apply_has_nothing_to_do() -> None:
    world = world_of()
    append(world.table, 1)
    table = under(world, sort_by=["v"])
    assert run_apply(table, RUN).transaction == 1
    assert run_apply(table, RUN).transaction is None
    assert "v" in said(world).statistics


def test_a_scheduled_run_applies_what_is_harmless() -> None:
    world = world_of()
    append(world.table, 1)
    table = under(world, sort_by=["v"], deletes="lazy")
    done = reconcile(table, RUN, dry_run=False)
    assert done is not None
    assert {p.name for p in done.changes} >= {"sort_by", "deletes"}
    assert said(world).sort_by == ("v",)
    assert reconcile(table, RUN, dry_run=False) is None


def test_a_scheduled_run_begins_mirrors_and_a_person_ends_them() -> None:
    world = world_of(mirror=["iceberg"])
    append(world.table, 1)
    assert said(world).mirrors == ("iceberg",)
    other = under(world, mirror=["delta"])
    done = reconcile(other, RUN, dry_run=False)
    assert done is not None
    assert [(p.name, p.table, p.settings) for p in done.changes] == [
        ("mirror", "iceberg", "iceberg, delta")
    ]
    assert said(world).mirrors == ("iceberg", "delta"), "clean-up waits for the readers of both"
    again = reconcile(other, RUN, dry_run=False)
    assert again is not None
    assert (again.changes, again.transaction) == ((), None)
    run_apply(other, RUN)
    assert said(world).mirrors == ("delta",)


def test_a_scheduled_run_refuses_other_differences_and_names_the_command() -> None:
    world = world_of()
    append(world.table, 1)
    table = under(world, cleanup={"grace": "2h"}, sort_by=["v"])
    with pytest.raises(PropertiesDifferError, match="`firnline properties apply t`"):
        reconcile(table, RUN, dry_run=False)
    assert said(world).sort_by == ()


def test_a_dry_run_of_a_scheduled_run_applies_nothing() -> None:
    world = world_of()
    append(world.table, 1)
    assert reconcile(under(world, sort_by=["v"]), RUN, dry_run=True) is None
    assert said(world).sort_by == ()


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"primary_key": ["id"], "partition_by": ["v"]}, "two partitions"),
        ({"primary_key": ["nothing"]}, "no column 'nothing'"),
    ],
)
def test_what_would_make_rows_that_are_there_mean_something_else_is_refused(
    settings: dict[str, Any], why: str
) -> None:
    world = world_of()
    append(world.table, 1)
    before = dict(world.store.objects)
    with pytest.raises(UsageError, match=why):
        run_apply(under(world, **settings), RUN)
    assert world.store.objects == before


def test_two_applies_at_once_end_as_one_of_them_said() -> None:
    world = world_of()
    append(world.table, 1)
    one, two = under(world, append={"ttl": "2h"}), under(world, append={"ttl": "3h"})
    base = take_base(one)
    run_apply(two, RUN)
    from firnline.operations.properties.run import change_to, plan_changes

    with pytest.raises(CommitConflictError, match="changed meanwhile"):
        commit(one, base, change_to(base, plan_changes(one, base).after, ""), RUN)
    assert current(read_snapshot(world.store, world.table.paths).properties) == said(world)
    assert said(world).append_ttl == 3 * HOUR
