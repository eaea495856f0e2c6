"""A prepared change is committed exactly as it was shown, or not at all."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from firnline.appends.append import Appender
from firnline.clock import SystemClock
from firnline.errors import (
    AssertionFailedError,
    CommitExpiredError,
    PreparedChangeError,
    UsageError,
)
from firnline.kernel.local import LocalEngine
from firnline.log.txn_file import RunIdentity
from firnline.operations.delete.run import run_delete
from firnline.operations.erase.run import run_erase
from firnline.operations.health.detail import detail_of
from firnline.operations.health.reading import read, unchanged
from firnline.operations.merge.run import run_merge
from firnline.operations.operation import Work
from firnline.operations.options import (
    DeleteOptions,
    EraseOptions,
    MergeOptions,
    RebuildOptions,
    RestoreOptions,
    RewriteOptions,
    SweepOptions,
    VerifyOptions,
)
from firnline.operations.prepared import objects
from firnline.operations.prepared.pages import commit_page
from firnline.operations.prepared.run import commit_prepared, discard_prepared, preview_commit
from firnline.operations.prepared.waiting import waiting
from firnline.operations.rebuild.run import run_rebuild
from firnline.operations.restore.run import run_restore
from firnline.operations.rewrite.prepare import PrepareReport, run_prepare
from firnline.operations.rewrite.run import RewriteRefusedError, preview
from firnline.operations.sweep.run import run_sweep
from firnline.operations.verify.run import run_verify
from firnline.state.history import history
from firnline.table import Table
from tests.support.log_tables import snapshot
from tests.support.world import Asleep, World
from tests.unit.operations.rewrite.test_run import filled, numbers, orphans, rows

RUN = RunIdentity(dag_id="rewrite_partitions__t", run_id="manual-1", user="ann")
OTHER = RunIdentity(dag_id="rewrite_partitions__t", run_id="manual-2")
UPPER = "select * replace (upper(s) as s) from _rows"
HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS


def engine(world: World, scratch: Path) -> LocalEngine:
    return LocalEngine(lambda: world.store, scratch, world.ids, SystemClock())


def prepare(world: World, scratch: Path, run: RunIdentity = RUN, **options: Any) -> PrepareReport:
    wanted = RewriteOptions(prepare=True, **options)
    return run_prepare(Work(world.table, run, lambda: engine(world, scratch)), wanted)


def prepared(world: World, scratch: Path, **options: Any) -> str:
    made = prepare(world, scratch, **{"where": "n != 2", **options}).id
    assert made is not None
    return made


def left_over(world: World) -> list[str]:
    return [key for key in world.store.objects if "/_prepared/" in key]


@pytest.mark.long
def test_what_is_prepared_is_invisible_and_its_commit_brings_exactly_those_parts(
    tmp_path: Path,
) -> None:
    world = filled(numbers(1, 1, 2, 3), numbers(2, 2, 4))
    change = prepared(world, tmp_path)
    assert rows(world) == [(1, 1), (1, 2), (1, 3), (2, 2), (2, 4)]
    written = orphans(world)
    assert len(written) == 2
    report = commit_prepared(world.table, change, RUN)
    assert rows(world) == [(1, 1), (1, 3), (2, 4)]
    assert {m.p for m in snapshot(world).live.values()} == written
    (header,) = history(world.table)
    assert (header.op, header.partitions) == ("rewrite", ("d=1", "d=2"))
    assert header.why == f"as prepared: {change}"
    assert (report.transaction, report.counts.rows_removed) == (1, 2)


def test_a_commit_that_is_repeated_says_which_transaction_it_was(tmp_path: Path) -> None:
    world = filled(numbers(1, 1, 2, 3))
    change = prepared(world, tmp_path)
    first = commit_prepared(world.table, change, RUN)
    again = commit_prepared(world.table, change, RUN)
    assert (again.earlier, again.transaction) == (True, first.transaction)
    assert again.undone_by is None
    assert len(history(world.table)) == 1
    restored = run_restore(Work(world.table, RUN), RestoreOptions(to=0)).transaction
    assert commit_prepared(world.table, change, RUN).undone_by == restored


@pytest.mark.long
def test_the_plan_of_a_commit_says_that_it_is_committed_and_refuses_what_the_commit_would(
    tmp_path: Path,
) -> None:
    world = filled(numbers(1, 1, 2, 3))
    change = prepared(world, tmp_path)
    assert preview_commit(world.table, change).nothing_to_do is False
    commit_prepared(world.table, change, RUN)
    plan = preview_commit(world.table, change)
    assert (plan.nothing_to_do, plan.committed, plan.partitions) == (True, 1, ("d=1",))
    said = list(commit_page(plan.to_json()).lines())
    name = world.table.settings.name
    assert said == [f"{change} is committed to {name} already, as transaction 1."]
    other = prepared(world, tmp_path, where="n != 3")
    discard_prepared(world.table, other, RUN, "by hand")
    discarded = r"it was discarded \(by hand\)"
    with pytest.raises(PreparedChangeError, match=discarded):
        preview_commit(world.table, other)
    with pytest.raises(PreparedChangeError, match=discarded):
        commit_prepared(world.table, other, RUN)


@pytest.mark.long
@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (
            {"assertions": ("select garbage from",)},
            "the assertion `select garbage from` is refused",
        ),
        ({"assertions": ("select 1",)}, "returns INTEGER, not one BOOLEAN"),
        ({"assertions": ("select null",)}, "the assertion `select null` is null, or an error"),
        ({"assertions": ("select error('x')",)}, "is null, or an error, for any rows"),
        ({"keys": ("nope",)}, "has no column 'nope' to match rows by"),
    ],
)
def test_a_plan_refuses_the_evidence_that_the_run_would_refuse(
    tmp_path: Path, asked: dict[str, Any], said: str
) -> None:
    world = filled(numbers(1, 1, 2, 3))
    for call in (
        lambda: prepare(world, tmp_path, where="n != 2", **asked),
        lambda: preview(world.table, RewriteOptions(where="n != 2", prepare=True, **asked)),
    ):
        with pytest.raises(UsageError) as refused:
            call()
        assert said in str(refused.value)


@pytest.mark.long
def test_the_evidence_counts_rows_that_go_come_and_change_by_key(tmp_path: Path) -> None:
    world = filled(numbers(1, 1, 2, 3), primary_key=["d", "n"])
    query = (
        "select d, n + case when n = 3 then 10 else 0 end as n, "
        "case when n = 1 then 'one' else s end as s from _rows"
    )
    report = prepare(world, tmp_path, sql=query, samples=5)
    shown = report.evidence
    assert shown.keys == ("d", "n")
    assert (shown.removed, shown.added, shown.changed) == (1, 1, 1)
    assert shown.columns == {"s": 1}
    assert [(s.kind, s.before, s.after) for s in shown.samples] == [
        ("changed", {"d": "1", "n": "1", "s": "s1"}, {"d": "1", "n": "1", "s": "one"}),
        ("removed", {"d": "1", "n": "3", "s": "s3"}, {}),
        ("added", {}, {"d": "1", "n": "13", "s": "s3"}),
    ]


def test_the_history_has_the_rows_that_the_evidence_counted_as_changed(tmp_path: Path) -> None:
    world = filled(numbers(1, 1, 2))
    change = prepare(world, tmp_path, sql=UPPER, keys=("n",)).id
    assert change is not None
    commit_prepared(world.table, change, RUN)
    (header,) = history(world.table)
    assert (header.op, header.counts.rows_changed) == ("rewrite", 2)


@pytest.mark.long
def test_without_a_key_a_changed_row_is_one_removed_and_one_added(tmp_path: Path) -> None:
    world = filled(numbers(1, 1, 2))
    shown = prepare(world, tmp_path, sql=UPPER).evidence
    assert (shown.removed, shown.added, shown.changed, shown.samples) == (2, 2, 0, ())
    again = prepare(world, tmp_path, sql=UPPER, keys=("N",)).evidence
    assert (again.removed, again.added, again.changed) == (0, 0, 2)
    assert (again.keys, again.columns) == (("n",), {"s": 2})


@pytest.mark.long
def test_equal_rows_cancel_out_as_often_as_they_occur(tmp_path: Path) -> None:
    world = filled(numbers(1, 1, 1, 1, 2, None), numbers(1, 1))
    shown = prepare(world, tmp_path, sql="select distinct * from _rows").evidence
    assert (shown.rows_before, shown.rows_after) == (6, 3)
    assert (shown.removed, shown.added) == (3, 0)


@pytest.mark.long
def test_an_assertion_that_does_not_hold_leaves_nothing_behind(tmp_path: Path) -> None:
    world = filled(numbers(1, 1, 2, 3, 4))
    before = set(world.store.objects)
    with pytest.raises(AssertionFailedError, match=r"`select count\(\*\) = 9 from after` is false"):
        prepare(world, tmp_path, where="n != 2", assertions=("select count(*) = 9 from after",))
    with pytest.raises(UsageError, match="the assertion `delete from after` is refused"):
        prepare(world, tmp_path, where="n != 2", assertions=("delete from after",))
    assert set(world.store.objects) == before


@pytest.mark.long
def test_assertions_see_all_rows_of_the_partitions_before_and_after(tmp_path: Path) -> None:
    world = filled(numbers(1, 1, 2), numbers(1, 5, 6), numbers(2, 7))
    assertions = (
        "select count(*) = 4 from before",
        "select list(n order by n) = [1, 5, 6] from after",
        "with gone as (from before except all from after) select count(*) = 1 from gone",
    )
    shown = prepare(world, tmp_path, where="n != 2", assertions=assertions).evidence
    assert shown.assertions == assertions


def append(world: World, *values: int, d: int = 1) -> None:
    kinds = pa.schema([("d", pa.int64()), ("n", pa.int64()), ("s", pa.string())])
    world.clock.advance(10)
    Appender(world.table).append(pa.Table.from_pylist(numbers(d, *values), kinds))


@pytest.mark.long
def test_appended_rows_stand_beside_a_change_of_a_table_without_a_key(tmp_path: Path) -> None:
    world = filled(numbers(1, 1, 2, 3))
    change = prepared(world, tmp_path)
    append(world, 2, 9)
    commit_prepared(world.table, change, RUN)
    assert rows(world) == [(1, 1), (1, 2), (1, 3), (1, 9)]


def delete(world: World, scratch: Path, where: str, mode: Any) -> None:
    options = DeleteOptions(where=where, mode=mode)
    run_delete(Work(world.table, RUN, lambda: engine(world, scratch)), options)


def merge(world: World, scratch: Path) -> None:
    run_merge(Work(world.table, RUN, lambda: engine(world, scratch)), MergeOptions(full=True))


@pytest.mark.long
@pytest.mark.parametrize("what", ["merge", "lazy delete", "eager delete", "nothing deleted", "key"])
def test_a_partition_that_has_changed_refuses_the_commit_and_nothing_comes_back(
    tmp_path: Path, what: str
) -> None:
    settings = {"primary_key": ["n"]} if what == "key" else {}
    world = filled(numbers(1, 1, 2), numbers(1, 3, 4), **settings)
    change = prepared(world, tmp_path)
    if what == "merge":
        merge(world, tmp_path)
    elif what == "key":
        append(world, 9)
    elif what == "nothing deleted":
        delete(world, tmp_path, "n = 17 or s = 'x'", "eager")
    else:
        delete(world, tmp_path, "n = 3", what.partition(" ")[0])
    seen, transactions = rows(world), len(history(world.table))
    with pytest.raises(PreparedChangeError, match=f"{change} is not committed"):
        commit_prepared(world.table, change, RUN)
    assert (rows(world), len(history(world.table))) == (seen, transactions)
    discard_prepared(world.table, change, RUN)
    assert not orphans(world)


@pytest.mark.long
def test_other_partitions_may_change_meanwhile(tmp_path: Path) -> None:
    world = filled(numbers(1, 1, 2), numbers(2, 1), numbers(2, 3))
    change = prepared(world, tmp_path, partitions=("d=1",))
    run_merge(
        Work(world.table, RUN, lambda: engine(world, tmp_path)),
        MergeOptions(full=True, partitions=("d=2",)),
    )
    commit_prepared(world.table, change, RUN)
    assert rows(world) == [(1, 1), (2, 1), (2, 3)]


@pytest.mark.long
@pytest.mark.parametrize(
    ("found", "said"), [(None, "is gone"), (b"short", "has 5 bytes instead of")], ids=str
)
def test_a_commit_whose_part_an_older_sweep_has_deleted_is_one_sentence_and_changes_nothing(
    tmp_path: Path, found: bytes | None, said: str
) -> None:
    world = filled(numbers(1, 1, 2, 3), numbers(2, 2, 4))
    change = prepared(world, tmp_path)
    first = min(orphans(world))
    _, modified = world.store.objects.pop(first)
    if found is not None:
        world.store.objects[first] = (found, modified)
    before = dict(world.store.objects)
    with pytest.raises(PreparedChangeError) as error:
        commit_prepared(world.table, change, RUN)
    told = str(error.value)
    assert told.startswith(f"prepared change {change} is not committed: its part {first} {said}")
    assert f"discard it (`firnline rewrite t --discard {change}`) and prepare it again" in told
    assert "a sweep by an older firnline may have deleted the part" in told
    assert "\n" not in told
    assert world.store.objects == before
    assert rows(world) == [(1, 1), (1, 2), (1, 3), (2, 2), (2, 4)]
    assert discard_prepared(world.table, change, RUN).parts == 2
    assert not orphans(world)


def test_a_discard_deletes_the_parts_at_once_and_nobody_commits_them_any_more(
    tmp_path: Path,
) -> None:
    world = filled(numbers(1, 1, 2, 3))
    change = prepared(world, tmp_path)
    report = discard_prepared(world.table, change, RUN, "rejected by bob")
    assert (report.parts, orphans(world)) == (1, set())
    with pytest.raises(PreparedChangeError, match="rejected by bob"):
        commit_prepared(world.table, change, RUN)
    with pytest.raises(PreparedChangeError, match="has no prepared change"):
        discard_prepared(world.table, change, RUN)


@pytest.mark.long
def test_a_committed_change_cannot_be_discarded(tmp_path: Path) -> None:
    world = filled(numbers(1, 1, 2, 3))
    change = prepared(world, tmp_path)
    key = world.table.paths.prepared(change)
    kept = world.store.objects[key]
    commit_prepared(world.table, change, RUN)
    world.store.objects[key] = kept  # it died before it removed its statement
    with pytest.raises(PreparedChangeError, match="its commit has begun"):
        discard_prepared(world.table, change, RUN)
    assert rows(world) == [(1, 1), (1, 3)]
    # Not even without the decision.
    del world.store.objects[world.table.paths.prepared(change, "decision")]
    with pytest.raises(PreparedChangeError, match="is committed"):
        discard_prepared(world.table, change, RUN)
    assert rows(world) == [(1, 1), (1, 3)]


@pytest.mark.long
def test_what_waits_is_listed_and_a_retry_of_the_run_finds_it_again(tmp_path: Path) -> None:
    world = filled(numbers(1, 1, 2, 3))
    first = prepare(world, tmp_path, where="n != 2")
    again = prepare(world, tmp_path, where="n != 2")
    assert (again.id, again.earlier) == (first.id, True)
    other = prepare(world, tmp_path, where="n != 3")
    assert [change.id for change in waiting(world.table).prepared] == [other.id]
    assert len(orphans(world)) == 1


@pytest.mark.long
def test_too_many_removed_rows_are_refused_without_force(tmp_path: Path) -> None:
    world = filled(numbers(1, 1, 2, 3))
    with pytest.raises(RewriteRefusedError, match="would lose too many"):
        prepare(world, tmp_path, where="n = 2")
    assert not orphans(world)
    assert prepare(world, tmp_path, where="n = 2", force=True).evidence.removed == 2


@pytest.mark.long
def test_a_partition_without_rows_afterwards_is_prepared_without_a_part(tmp_path: Path) -> None:
    world = filled(numbers(1, 1, 2), numbers(2, 9))
    report = prepare(world, tmp_path, where="n > 5", force=True)
    assert (report.evidence.removed, report.bytes) == (2, 0)
    assert report.id is not None
    commit_prepared(world.table, report.id, RUN)
    assert rows(world) == [(2, 9)]
    assert commit_prepared(world.table, report.id, RUN).earlier


def test_nothing_is_prepared_where_nothing_changes(tmp_path: Path) -> None:
    world = filled(numbers(1, 1, 2))
    before = dict(world.store.objects)
    assert prepare(world, tmp_path, where="n < 7").id is None
    assert world.store.objects == before


def sweep(world: World) -> None:
    run_sweep(Work(world.table, RUN), SweepOptions(dry_run=False))


@pytest.mark.long
def test_a_sweep_leaves_prepared_parts_alone_while_somebody_may_decide(tmp_path: Path) -> None:
    world = filled(numbers(1, 1, 2, 3))
    change = prepared(world, tmp_path, keep=20 * DAY_MS)
    world.clock.advance(19 * DAY_MS)
    sweep(world)
    commit_prepared(world.table, change, RUN)
    assert rows(world) == [(1, 1), (1, 3)]


@pytest.mark.long
def test_a_sweep_discards_what_nobody_decided_on_in_time_and_nothing_is_left(
    tmp_path: Path,
) -> None:
    world = filled(numbers(1, 1, 2, 3))
    change = prepared(world, tmp_path, keep=2 * DAY_MS)
    world.clock.advance(40 * DAY_MS)
    sweep(world)
    assert not orphans(world)
    with pytest.raises(PreparedChangeError, match="nobody decided in time"):
        commit_prepared(world.table, change, RUN)
    world.clock.advance(40 * DAY_MS)
    sweep(world)
    assert not left_over(world)


@pytest.mark.long
def test_a_commit_that_died_before_its_transaction_is_closed_before_its_parts_go(
    tmp_path: Path,
) -> None:
    world = filled(numbers(1, 1, 2, 3))
    change = prepared(world, tmp_path)
    objects.decide(world.table, change, "commit", RUN)
    world.clock.advance(40 * DAY_MS)
    sweep(world)
    # Somebody who read it before it was closed may still commit.
    assert len(orphans(world)) == 1
    with pytest.raises(PreparedChangeError, match="its time is over"):
        commit_prepared(world.table, change, RUN)
    sweep(world)
    assert len(orphans(world)) == 1
    world.clock.advance(40 * DAY_MS)
    sweep(world)
    assert len(orphans(world)) == 1, "nothing was committed since: whoever read it may sleep"
    world.clock.advance(40 * DAY_MS)
    sweep(world)
    assert not orphans(world)
    world.clock.advance(40 * DAY_MS)
    sweep(world)
    assert not left_over(world)


@pytest.mark.long
def test_an_erase_takes_prepared_parts_with_it_and_the_rows_do_not_come_back(
    tmp_path: Path,
) -> None:
    world = filled(numbers(1, 1, 2, 3), numbers(2, 7, 9))
    change = prepared(world, tmp_path, partitions=("d=1",))
    other = prepared(world, tmp_path, where="n != 9", partitions=("d=2",), run=OTHER)
    options = EraseOptions(columns=("n",), keys=((3,),))
    run_erase(Work(world.table, RUN, lambda: engine(world, tmp_path)), options)
    with pytest.raises(PreparedChangeError, match="rows of it were erased"):
        commit_prepared(world.table, change, RUN)
    commit_prepared(world.table, other, RUN)
    assert rows(world) == [(1, 1), (1, 2), (2, 7)]


def test_a_check_counts_prepared_parts_and_finds_no_fault(tmp_path: Path) -> None:
    world = filled(numbers(1, 1, 2, 3))
    prepared(world, tmp_path, keep=90 * DAY_MS)
    world.clock.advance(40 * DAY_MS)
    report = run_verify(Work(world.table), VerifyOptions())
    assert (report.checked.prepared, report.checked.orphans, report.findings) == (1, 0, ())


@pytest.mark.long
def test_a_rebuild_never_brings_in_what_is_only_prepared(tmp_path: Path) -> None:
    world = filled(numbers(1, 1, 2, 3))
    prepared(world, tmp_path)
    for key in [key for key in world.store.objects if "/_log/" in key or "/_txn/" in key]:
        del world.store.objects[key]
    before = {key for key in world.store.objects if "/_data/" in key}
    report = run_rebuild(Work(world.table, RUN), RebuildOptions(include=("*",), revive=True))
    assert report.plan["parts"] == 1
    assert len(before) == 2
    assert rows(world) == [(1, 1), (1, 2), (1, 3)]


@pytest.mark.long
def test_a_statement_that_came_with_a_copied_table_deletes_nothing_of_the_original(
    tmp_path: Path,
) -> None:
    world = filled(numbers(1, 1, 2, 3))
    change = prepared(world, tmp_path)
    key = world.table.paths.prepared(change)
    data, modified = world.store.objects[key]
    world.store.objects[key] = (data.replace(b'"t/_data/', b'"other/_data/'), modified)
    others = "other/_data/d=1/live.parquet"
    world.store.objects[others] = (b"", modified)
    with pytest.raises(PreparedChangeError, match="of another place"):
        commit_prepared(world.table, change, RUN)
    with pytest.raises(PreparedChangeError, match="of another place"):
        discard_prepared(world.table, change, RUN)
    world.clock.advance(40 * DAY_MS)
    sweep(world)
    assert not left_over(world)
    world.clock.advance(40 * DAY_MS)
    sweep(world)
    assert orphans(world) == {others}


@pytest.mark.long
def test_the_page_shows_what_waits_without_its_sample_rows(tmp_path: Path) -> None:
    world = filled(numbers(1, 1, 2, 3))
    seen = read(world.table).seen
    assert unchanged(world.table, seen)
    change = prepared(world, tmp_path, samples=2)
    assert not unchanged(world.table, seen)
    (shown,) = detail_of(read(world.table))["prepared"]
    assert (shown["id"], shown["asked"], shown["user"]) == (change, "n != 2", "ann")
    assert shown["is_query"] is False
    assert (shown["evidence"]["removed"], "samples" in shown["evidence"]) == (1, False)


# --- processes that sleep -------------------------------------------------------------------------


def asleep(world: World, at: str, meanwhile: Callable[[], None]) -> tuple[Table, Asleep]:
    """The table for a process that stops before its first such call."""
    store = Asleep(world.store, at=at, meanwhile=meanwhile)
    return replace(world.table, store=store), store


@pytest.mark.long
def test_a_statement_that_lands_late_ends_itself_since_a_sweep_may_have_its_parts(
    tmp_path: Path,
) -> None:
    world = filled(numbers(1, 1, 2, 3))
    before = rows(world)

    def sleeps() -> None:
        world.clock.advance(40 * DAY_MS)
        sweep(world)

    table, store = asleep(world, "put t/_prepared/", sleeps)
    wanted = RewriteOptions(prepare=True, where="n != 2")
    with pytest.raises(CommitExpiredError, match="longer than commit_ttl"):
        run_prepare(Work(table, RUN, lambda: engine(world, tmp_path)), wanted)
    assert store.slept == 1
    assert waiting(world.table).prepared == ()
    assert (rows(world), orphans(world)) == (before, set())


@pytest.mark.parametrize(("hours", "refused"), [(23, False), (24, True)])
def test_what_a_run_that_died_has_stated_too_late_is_not_committed(
    hours: int, refused: bool, tmp_path: Path
) -> None:
    """A sweep that began before it may be about to delete its parts, which are there still."""
    world = filled(numbers(1, 1, 2, 3))
    change = prepared(world, tmp_path)
    key = world.table.paths.prepared(change)
    data, made = world.store.objects[key]
    world.store.objects[key] = (data, made + hours * HOUR_MS)
    world.clock.advance(hours * HOUR_MS)
    if not refused:
        commit_prepared(world.table, change, RUN)
        return
    with pytest.raises(PreparedChangeError, match="it was stated 1d after its first part"):
        commit_prepared(world.table, change, RUN)
    discard_prepared(world.table, change, RUN)
    assert rows(world) == [(1, 1), (1, 2), (1, 3)]
    assert not orphans(world)


@pytest.mark.long
@pytest.mark.parametrize("stands", [False, True])
def test_a_commit_that_slept_before_it_decided_does_not_bring_what_was_discarded(
    stands: bool, tmp_path: Path
) -> None:
    """Long enough that the decision is tidied away, on a machine whose clock stood still or not."""
    world = filled(numbers(1, 1, 2, 3))
    change = prepared(world, tmp_path)

    def sleeps() -> None:
        elapsed = world.clock.elapsed
        discard_prepared(world.table, change, OTHER)
        world.clock.advance(40 * DAY_MS)
        sweep(world)
        assert not left_over(world)
        world.clock.elapsed = elapsed if stands else world.clock.elapsed

    table, store = asleep(world, f"put t/_prepared/{change}.decision", sleeps)
    with pytest.raises(PreparedChangeError, match="its time is over"):
        commit_prepared(table, change, RUN)
    assert store.slept == 1
    assert rows(world) == [(1, 1), (1, 2), (1, 3)]


@pytest.mark.long
def test_a_commit_that_is_overtaken_looks_for_a_closing_on_the_new_base(tmp_path: Path) -> None:
    world = filled(numbers(1, 1, 2, 3), numbers(2, 2, 4))
    change = prepared(world, tmp_path, partitions=("d=1",))

    def sleeps() -> None:
        elapsed = world.clock.elapsed
        objects.decide(world.table, change, "discard", OTHER, kind="closed")
        run_delete(
            Work(world.table, OTHER, lambda: engine(world, tmp_path)),
            DeleteOptions(where="d = 2 and n = 2"),
        )
        world.clock.elapsed = elapsed

    table, store = asleep(world, "put t/_txn/", sleeps)
    with pytest.raises(PreparedChangeError, match="its time is over"):
        commit_prepared(table, change, RUN)
    assert store.slept == 1
