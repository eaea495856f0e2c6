"""An update gives rows new values where a condition is true: all of them, or none."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from firnline.appends.append import Appender
from firnline.clock import SystemClock
from firnline.errors import CommitConflictError, UsageError
from firnline.kernel.local import LocalEngine
from firnline.kernel.query import process as query_process
from firnline.kernel.task import KernelResult, KernelTask
from firnline.log.txn_file import RunIdentity
from firnline.operations.delete.run import run_delete
from firnline.operations.merge.run import run_merge
from firnline.operations.operation import Work
from firnline.operations.options import CommitOptions, DeleteOptions, MergeOptions, UpdateOptions
from firnline.operations.prepared.run import commit_prepared
from firnline.operations.rewrite.prepare import PrepareReport
from firnline.operations.update.run import (
    UpdateFailedError,
    UpdateReport,
    preview,
    run_either,
    run_update,
)
from firnline.state.history import history
from tests.support.log_tables import snapshot
from tests.support.reading import visible_rows
from tests.support.world import World, make_world
from tests.unit.operations.rewrite.test_run import filled, numbers, orphans

RUN = RunIdentity(dag_id="update_where", run_id="manual-1")


def engine_of(world: World, scratch: Path) -> LocalEngine:
    return LocalEngine(lambda: world.store, scratch, world.ids, SystemClock())


def update(world: World, scratch: Path, *new: str, **options: Any) -> UpdateReport:
    engine = engine_of(world, scratch)
    return run_update(Work(world.table, RUN, lambda: engine), UpdateOptions(set=new, **options))


def rows(world: World) -> list[tuple[int | None, str | None]]:
    found = []
    for key in snapshot(world).live:
        table = pq.read_table(io.BytesIO(world.store.objects[key][0]), partitioning=None)
        found += [(row["n"], row["s"]) for row in table.to_pylist()]
    return sorted(found, key=str)


def test_rows_of_all_partitions_change_in_one_transaction_and_other_parts_stay(
    tmp_path: Path,
) -> None:
    # By statistics the second part holds no such row; the third is read and found to hold none.
    world = filled(numbers(1, 1, 5, None), numbers(1, 7, 8), numbers(1, 3, 6), numbers(2, 4, 5))
    stay = [m.p for m in snapshot(world).partitions["d=1"][1:]]
    report = update(world, tmp_path, "s = s || '!'", where="n = 4 or n = 5")
    assert rows(world) == [
        (1, "s1"), (3, "s3"), (4, "s4!"), (5, "s5!"), (5, "s5!"), (6, "s6"), (7, "s7"), (8, "s8"),
        (None, None),
    ]  # fmt: skip
    assert all(key in snapshot(world).live for key in stay)
    assert (report.rows_changed, report.partitions, report.transaction) == (3, ("d=1", "d=2"), 1)
    assert (report.parts_read, report.parts_rewritten, report.parts_excluded) == (3, 2, 1)
    (header,) = history(world.table)
    assert (header.op, header.partitions) == ("update", ("d=1", "d=2"))
    counts = header.counts
    assert (counts.rows_in, counts.rows_out, counts.rows_changed) == (5, 5, 3)


@pytest.mark.long
def test_every_expression_sees_the_row_as_it_was(tmp_path: Path) -> None:
    world = filled(numbers(1, 1, 2))
    update(world, tmp_path, "n = n + 10", "s = s || n", where="n > 1")
    assert rows(world) == [(1, "s1"), (12, "s22")]


@pytest.mark.long
def test_new_values_have_the_type_of_the_column_and_a_null_is_one(tmp_path: Path) -> None:
    world = filled(numbers(1, 1, 2, 3))
    update(world, tmp_path, "n = '7'", "S = null -- a comment", where="n = 2")
    assert rows(world) == [(1, "s1"), (3, "s3"), (7, None)]


@pytest.mark.long
def test_true_is_every_row(tmp_path: Path) -> None:
    world = filled(numbers(1, 1, None), numbers(2, 3))
    assert update(world, tmp_path, "s = 'x'", where="TRUE ").rows_changed == 3
    assert rows(world) == [(1, "x"), (3, "x"), (None, "x")]


@pytest.mark.long
def test_a_row_for_which_the_condition_is_null_stays_as_it_is(tmp_path: Path) -> None:
    world = filled(numbers(1, 1, None))
    update(world, tmp_path, "s = 'x'", where="n > 0")
    assert rows(world) == [(1, "x"), (None, None)]


@pytest.mark.long
def test_nothing_is_committed_where_no_row_matches(tmp_path: Path) -> None:
    world = filled(numbers(1, 1, 5))
    before = dict(world.store.objects)
    report = update(world, tmp_path, "s = 'x'", where="n = 3")
    assert (report.rows_changed, report.transaction, report.parts_read) == (0, None, 1)
    assert world.store.objects == before


@pytest.mark.long
def test_hidden_rows_stay_hidden_and_are_not_counted(tmp_path: Path) -> None:
    world = filled(numbers(1, 1, 2, 3))
    hide = DeleteOptions(where="n = 2", mode="lazy")
    run_delete(Work(world.table, RUN, lambda: engine_of(world, tmp_path)), hide)
    report = update(world, tmp_path, "n = n + 10", where="n >= 2")
    assert (rows(world), report.rows_changed) == ([(1, "s1"), (13, "s3")], 1)


def beside(world: World, scratch: Path, rival: Any) -> LocalEngine:
    """Return an engine beside which ``rival`` runs once, before its results are seen."""
    done = list[bool]()

    class Engine(LocalEngine):
        def run(self, tasks: Sequence[KernelTask]) -> Iterator[KernelResult | None]:
            results = list(super().run(tasks))
            if not done:
                done.append(True)
                rival()
            yield from results

    return Engine(lambda: world.store, scratch, world.ids, SystemClock())


def test_rows_that_are_deleted_meanwhile_do_not_come_back(tmp_path: Path) -> None:
    world = filled(numbers(1, 1, 2, 3))
    plain = engine_of(world, tmp_path)

    def delete() -> None:
        hide = DeleteOptions(where="n = 2", mode="lazy")
        run_delete(Work(world.table, RUN, lambda: plain), hide)

    engine = beside(world, tmp_path, delete)
    options = UpdateOptions(set=("n = n + 10",), where="n >= 2")
    report = run_update(Work(world.table, RUN, lambda: engine), options)
    assert (rows(world), report.replans) == ([(1, "s1"), (13, "s3")], 1)
    assert orphans(world) == set()


def test_a_delete_meanwhile_does_not_hide_what_only_new_values_match(tmp_path: Path) -> None:
    world = filled(numbers(1, 1, 2, 3))
    plain = engine_of(world, tmp_path)

    def delete() -> None:
        hide = DeleteOptions(where="n = 12", mode="lazy")
        run_delete(Work(world.table, RUN, lambda: plain), hide)

    engine = beside(world, tmp_path, delete)
    options = UpdateOptions(set=("n = n + 10",), where="n >= 2")
    report = run_update(Work(world.table, RUN, lambda: engine), options)
    assert sorted(row["n"] for row in visible_rows(world.table)) == [1, 12, 13]
    assert (report.rows_changed, report.replans) == (2, 1)


@pytest.mark.long
def test_a_merge_meanwhile_makes_it_plan_again_and_nothing_is_changed_twice(
    tmp_path: Path,
) -> None:
    world = filled(numbers(1, 1), numbers(1, 2))
    plain = engine_of(world, tmp_path)

    def merge() -> None:
        run_merge(Work(world.table, RUN, lambda: plain), MergeOptions(full=True))

    engine = beside(world, tmp_path, merge)
    options = UpdateOptions(set=("n = n + 10",), where="n >= 1")
    report = run_update(Work(world.table, RUN, lambda: engine), options)
    assert (rows(world), report.replans) == ([(11, "s1"), (12, "s2")], 1)
    assert orphans(world) == set()


def test_a_retry_does_not_compute_from_what_an_earlier_try_has_committed(tmp_path: Path) -> None:
    world = filled(numbers(1, 1))
    options = UpdateOptions(set=("n = n + 10",), where="n > 0", first_try=1)

    def try_of(number: int, engine: LocalEngine) -> UpdateReport:
        run = msgspec.structs.replace(RUN, try_number=number)
        return run_update(Work(world.table, run, lambda: engine), options)

    plain = engine_of(world, tmp_path)
    # The first try was given up, and commits while the second one works.
    second = try_of(2, beside(world, tmp_path, lambda: try_of(1, plain)))
    assert (rows(world), second.transaction, second.earlier) == ([(11, "s1")], 1, True)
    assert second.rows_changed == 1
    third = try_of(3, plain)
    assert (rows(world), third.transaction, third.earlier) == ([(11, "s1")], 1, True)
    assert orphans(world) == set()


def test_a_first_try_that_slept_until_its_retry_had_committed_does_nothing(tmp_path: Path) -> None:
    world = filled(numbers(1, 1))
    options = UpdateOptions(set=("n = n + 10",), where="n > 0", first_try=1)
    reports = [
        run_update(
            Work(
                world.table,
                msgspec.structs.replace(RUN, try_number=number),
                lambda: engine_of(world, tmp_path),
            ),
            options,
        )
        for number in (2, 1)
    ]
    assert rows(world) == [(11, "s1")]
    assert [(each.transaction, each.earlier) for each in reports] == [(1, False), (1, True)]


@pytest.mark.long
def test_a_part_that_does_not_read_leaves_every_partition_as_it_was(tmp_path: Path) -> None:
    world = filled(numbers(1, 1), numbers(2, 1))
    bad = snapshot(world).partitions["d=2"][0].p
    world.store.objects[bad] = (b"broken", world.clock.now)
    with pytest.raises(UpdateFailedError) as caught:
        update(world, tmp_path, "s = 'x'", where="n = 1")
    assert bad in str(caught.value)
    assert (list(history(world.table)), orphans(world)) == ([], set())


@pytest.mark.long
def test_a_value_that_the_column_cannot_hold_changes_nothing(tmp_path: Path) -> None:
    world = filled(numbers(1, 1, 2))
    with pytest.raises(UpdateFailedError, match="a new value cannot be computed: Could not conv"):
        update(world, tmp_path, "n = s", where="n = 2")
    assert (list(history(world.table)), orphans(world)) == ([], set())


@pytest.mark.long
def test_of_a_key_the_row_that_readers_see_is_changed(tmp_path: Path) -> None:
    world = filled(numbers(1, 1, 2), numbers(1, 2), primary_key=["d", "n"])
    report = update(world, tmp_path, "s = 'x'", where="s = 's2'")
    assert (rows(world), report.rows_changed) == ([(1, "s1"), (2, "x")], 1)


@pytest.mark.long
@pytest.mark.parametrize(
    ("new", "where", "error"),
    [
        ((), "n = 1", "sets at least one column"),
        (("s",), "n = 1", "sets no column"),
        (("s =",), "n = 1", "sets no column"),
        (("x = 1",), "n = 1", "has no column 'x'; correct --set; the columns are d, n, s"),
        (("s = 'a'", "S = 'b'"), "n = 1", "column 's' is set twice"),
        (("d = 2",), "n = 1", "column 'd' of table t is in partition_by"),
        (("s = (select max(n) from _rows)",), "n = 1", "it has a subquery"),
        (("n = row_number() over ()",), "n = 1", "it has a window function"),
        (("n = sum(n)",), "n = 1", "it calls sum, which is an aggregate"),
        (("s = 'a', n = 2",), "n = 1", "it is more than one expression"),
        (("s = 'a' /*",), "n = 1", "unterminated /.* comment"),
        (("a b = 1",), "n = 1", "sets no column; .* stands in double quotes"),
        (("s.a = 1",), "n = 1", "a field is set with all of its column: --set 's = …'"),
        (("n = unnest([1, 2])",), "n = 1", "makes several rows of one"),
        (("n = 1) from _rows --",), "n = 1", "cannot be computed"),
        (("n = q",), "n = 1", 'Referenced column "q" not found'),
        (("n = getenv('HOME')",), "n = 1", "cannot be computed"),
        (("s = 'x'",), "q = 1", "q"),
    ],
)
def test_wrong_options_are_refused_before_anything_is_read(
    new: tuple[str, ...], where: str, error: str
) -> None:
    world = filled(numbers(1, 1))
    with pytest.raises(UsageError, match=error):
        preview(world.table, UpdateOptions(set=new, where=where))


@pytest.mark.long
def test_a_condition_of_thousands_of_values_is_one_like_others(tmp_path: Path) -> None:
    world = filled(numbers(1, 1, 2, 1))
    keys = ", ".join(map(str, range(2, 20_000)))
    assert update(world, tmp_path, "s = 'x'", where=f"n in ({keys})").counts.rows_changed == 1


@pytest.mark.long
def test_a_condition_that_is_too_much_is_named_and_not_the_new_values(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(query_process, "_CHECK_MEMORY", 2**25)
    world = filled(numbers(1, 1))
    keys = ", ".join(map(str, range(20_000)))
    told = r"the update with its condition .* shorten --where or"
    with pytest.raises(UsageError, match=told):
        preview(world.table, UpdateOptions(set=("s = 'x'",), where=f"n in ({keys})"))


@pytest.mark.long
@pytest.mark.parametrize("column", ["n", "v", "gone"])
def test_a_column_that_decides_which_row_of_a_key_is_visible_is_not_set(column: str) -> None:
    world = make_world(primary_key=["n"], version="v", deleted="gone")
    row = {"n": 1, "v": 1, "gone": False, "s": "a"}
    Appender(world.table).append(pa.Table.from_pylist([row]))
    with pytest.raises(UsageError, match="which row of a key readers see"):
        preview(world.table, UpdateOptions(set=(f"{column} = null",), where="s = 'a'"))


@pytest.mark.long
def test_a_key_tombstone_is_no_row_to_change(tmp_path: Path) -> None:
    world = make_world(primary_key=["n"], deleted="gone")
    kinds = pa.schema([("n", pa.int64()), ("gone", pa.bool_()), ("s", pa.string())])
    appender = Appender(world.table)
    for n, gone in ((1, False), (2, False), (2, True)):
        world.clock.advance(10)
        appender.append(pa.Table.from_pylist([{"n": n, "gone": gone, "s": "a"}], kinds))
    report = update(world, tmp_path, "s = 'x'", where="s = 'a'")
    assert ((1, "x") in rows(world), report.rows_changed) == (True, 1)
    assert (2, "x") not in rows(world)


@pytest.mark.long
def test_what_is_prepared_is_committed_as_it_was_shown(tmp_path: Path) -> None:
    world = filled(numbers(1, 1, 2), numbers(2, 1))
    options = UpdateOptions(
        set=("s = 'x'",),
        where="n = 1",
        prepare=True,
        keys=("d", "n"),
        assertions=("select count(*) = 2 from after where s = 'x'",),
    )
    report = run_either(Work(world.table, RUN, lambda: engine_of(world, tmp_path)), options)
    assert isinstance(report, PrepareReport)
    assert (report.evidence.changed, report.evidence.removed, report.evidence.added) == (2, 0, 0)
    assert list(history(world.table)) == []
    commit_prepared(world.table, CommitOptions(id=str(report.id)).id, RUN)
    assert rows(world) == [(1, "x"), (1, "x"), (2, "s2")]
    assert [header.op for header in history(world.table)] == ["update"]


def test_evidence_is_refused_where_nobody_looks_before_the_commit() -> None:
    world = filled(numbers(1, 1))
    options = UpdateOptions(set=("s = 'x'",), where="n = 1", assertions=("select true",))
    with pytest.raises(UsageError, match="prepared"):
        preview(world.table, options)


@pytest.mark.long
def test_rivals_without_end_are_given_up_on(tmp_path: Path) -> None:
    world = filled(numbers(1, 1, 2, 3))
    plain = engine_of(world, tmp_path)

    class Engine(LocalEngine):
        def run(self, tasks: Sequence[KernelTask]) -> Iterator[KernelResult | None]:
            results = list(super().run(tasks))
            merge = MergeOptions(full=True)
            Appender(world.table).append(pa.table({"d": [1], "n": [9], "s": ["s9"]}))
            run_merge(Work(world.table, RUN, lambda: plain), merge)
            yield from results

    engine = Engine(lambda: world.store, tmp_path, world.ids, SystemClock())
    options = UpdateOptions(set=("s = 'x'",), where="n >= 1")
    with pytest.raises(CommitConflictError, match="times"):
        run_update(Work(world.table, RUN, lambda: engine), options)
    assert orphans(world) == set()
