"""A repartition moves rows to the table's layout: each is seen once, before and after."""

from __future__ import annotations

import datetime
import io
import re
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from firnline.appends.append import Appender
from firnline.clock import SystemClock
from firnline.errors import PropertiesDifferError, UsageError
from firnline.kernel.local import LocalEngine
from firnline.log.txn_file import RunIdentity
from firnline.operations.delete.run import run_delete
from firnline.operations.drop.run import run_drop
from firnline.operations.merge.run import run_merge
from firnline.operations.operation import Work
from firnline.operations.options import (
    DeleteOptions,
    DropOptions,
    MergeOptions,
    RebuildOptions,
    RepartitionOptions,
    RestoreOptions,
    VerifyOptions,
)
from firnline.operations.properties.run import run_apply
from firnline.operations.rebuild.run import run_rebuild
from firnline.operations.repartition.run import (
    RepartitionFailedError,
    RepartitionReport,
    preview,
    run_repartition,
)
from firnline.operations.restore.run import run_restore
from firnline.operations.verify.run import run_verify
from firnline.parquet.partition import partition_batches
from firnline.state.history import history
from firnline.table import Table
from tests.support.commit_costs import CHECK
from tests.support.effort import examples, sample
from tests.support.log_tables import put_append, snapshot
from tests.support.reading import visible_rows
from tests.support.world import Crashed, Fault, FaultyStore, World, make_world

RUN = RunIdentity(run_id="r")
START = datetime.datetime(2026, 1, 30)  # noqa: DTZ001 - a column without a zone
KINDS = pa.schema([("ts", pa.timestamp("us")), ("id", pa.int64()), ("name", pa.string())])


def batch(*ids: int) -> pa.Table:
    """Row ``id`` is of the day with this number."""
    rows = [{"ts": START + datetime.timedelta(days=n), "id": n, "name": f"n{n}"} for n in ids]
    return pa.Table.from_pylist(rows, KINDS)


def filled(*appends: tuple[int, ...], layout: str = "day(ts)", **settings: Any) -> World:
    world = make_world(**{"partition_by": [layout], "sort_by": ["id"], **settings})
    for ids in appends:
        append(world, *ids)
    return world


def append(world: World, *ids: int, table: Table | None = None) -> None:
    world.clock.advance(10)
    Appender(table or world.table).append(batch(*ids))


def by(world: World, *layout: str, **settings: Any) -> Table:
    """The table with settings of another layout."""
    given = world.settings.model_dump(mode="json", exclude_unset=True)
    changed = type(world.settings).model_validate({**given, "partition_by": layout, **settings})
    return replace(world.table, settings=changed)


def applied(world: World, *layout: str, **settings: Any) -> Table:
    """The table after its layout was changed."""
    table = by(world, *layout, **settings)
    world.clock.advance(10)
    run_apply(table, RUN)
    return table


def engine_of(world: World, scratch: Path) -> LocalEngine:
    return LocalEngine(lambda: world.store, scratch, world.ids, SystemClock())


def move(world: World, table: Table, scratch: Path, **options: Any) -> RepartitionReport:
    world.clock.advance(10)
    engine = engine_of(world, scratch)
    return run_repartition(Work(table, RUN, lambda: engine), RepartitionOptions(**options))


def move_by(world: World, table: Table, store: FaultyStore, scratch: Path) -> None:
    """Run with a store that kernels use, too."""
    world.clock.advance(10)
    engine = LocalEngine(lambda: store, scratch, world.ids, SystemClock())
    run_repartition(Work(table, RUN, lambda: engine), RepartitionOptions())


def never() -> NoReturn:
    raise AssertionError("an engine was started for nothing")


def places(world: World) -> dict[str, list[int]]:
    """Visible ids by partition, by the part's own rows."""
    found: dict[str, list[int]] = {}
    for name, markers in snapshot(world).partitions.items():
        for marker in markers:
            data = io.BytesIO(world.store.objects[marker.p][0])
            ids = pq.read_table(data, partitioning=None).column("id").to_pylist()
            found.setdefault(name, []).extend(ids)
    return {name: sorted(ids) for name, ids in found.items()}


def seen(world: World) -> list[int]:
    return sorted(row["id"] for row in visible_rows(world.table))


@pytest.mark.long
def test_days_become_months_a_transaction_for_each_day(tmp_path: Path) -> None:
    world = filled((0, 1, 2), (1, 2, 3))
    table = applied(world, "month(ts)")
    report = move(world, table, tmp_path)
    assert places(world) == {"ts_month=2026-01": [0, 1, 1], "ts_month=2026-02": [2, 2, 3]}
    assert [
        (m.partition, m.targets, m.parts_in, m.parts_out, m.rows) for m in report.partitions
    ] == [
        ("ts_day=2026-01-30", 1, 1, 1, 1),
        ("ts_day=2026-01-31", 1, 2, 1, 2),
        ("ts_day=2026-02-01", 1, 2, 1, 2),
        ("ts_day=2026-02-02", 1, 1, 1, 1),
    ]
    assert (report.partition_count, report.parts_left, len(report.transactions)) == (4, 0, 4)
    header = history(world.table)[0]
    assert (header.op, header.partitions) == (
        "repartition",
        ("ts_day=2026-02-02", "ts_month=2026-02"),
    )


@pytest.mark.long
def test_a_month_becomes_days_in_one_transaction(tmp_path: Path) -> None:
    world = filled((0, 1, 2, 3), (1, 2), layout="month(ts)")
    table = applied(world, "day(ts)")
    report = move(world, table, tmp_path)
    assert {name[-5:]: ids for name, ids in places(world).items()} == {
        "01-30": [0],
        "01-31": [1, 1],
        "02-01": [2, 2],
        "02-02": [3],
    }
    assert [(m.targets, m.parts_in, m.parts_out) for m in report.partitions] == [(2, 2, 2)] * 2
    assert seen(world) == [0, 1, 1, 2, 2, 3]


def test_what_was_moved_is_not_moved_again(tmp_path: Path) -> None:
    world = filled((0, 1), (2,))
    table = applied(world, "month(ts)")
    first = move(world, table, tmp_path, partitions=("*-01-*",))
    assert len(first.transactions) == 2
    assert len(move(world, table, tmp_path).transactions) == 1
    before = dict(world.store.objects)
    again = run_repartition(Work(table, RUN, never), RepartitionOptions())
    assert (again.partition_count, again.transactions) == (0, ())
    assert preview(table, RepartitionOptions()).to_json()["in_place"] == 2
    assert world.store.objects == before


def test_a_dry_run_says_what_would_be_read_and_changes_nothing() -> None:
    world = filled((0, 1), (1,))
    table = applied(world, "month(ts)")
    before = dict(world.store.objects)
    data = preview(table, RepartitionOptions()).to_json()
    assert [(p["partition"], p["parts"]) for p in data["partitions"]] == [
        ("ts_day=2026-01-30", 1),
        ("ts_day=2026-01-31", 2),
    ]
    assert (data["layout"], data["parts_in"], data["in_place"]) == (["month(ts)"], 3, 0)
    run_repartition(Work(table, RUN, never), RepartitionOptions(dry_run=True))
    assert world.store.objects == before


def test_the_requests_are_those_that_are_documented(tmp_path: Path) -> None:
    world = filled((0, 1), (1, 2))
    table = applied(world, "month(ts)")
    used = FaultyStore(world.store)
    move_by(world, replace(table, store=used), used, tmp_path)
    kinds = Counter(re.sub(r"(_\w+)/.*", r"\1", call) for call in used.calls)
    reads = kinds.pop("get many")
    assert kinds == {
        # The log, at the beginning and once more at the end.
        "list t/_log": 2,
        "list t/_txn": 2 + 3 * CHECK,
        "put t/_probe": 2,
        "get t/_probe": 1,
        "delete": 1,
        "get t/_data": 4,
        "put t/_data": 3,
        "put t/_txn": 3,
        "put t/_log": 3,
    }
    assert reads == 5, "log files that no transaction has folded"


@pytest.mark.long
def test_pending_deletes_are_applied_and_do_not_come_back(tmp_path: Path) -> None:
    world = filled((0, 1, 2), (1, 2, 3), deletes="lazy")
    run_delete(Work(world.table, RUN, never), DeleteOptions(where="id = 1"))
    run_delete(
        Work(world.table, RUN, never),
        DeleteOptions(where="id = 2", partitions=("ts_day=2026-02-01",)),
    )
    table = applied(world, "month(ts)")
    report = move(world, table, tmp_path)
    assert seen(world) == [0, 3]
    assert places(world) == {"ts_month=2026-01": [0], "ts_month=2026-02": [3]}
    assert report.counts.rows_deleted == 4


@pytest.mark.long
def test_a_delete_that_commits_meanwhile_hides_rows_in_their_new_place(tmp_path: Path) -> None:
    world = filled((0, 1, 2), deletes="lazy")
    table = applied(world, "month(ts)")
    during(
        world,
        table,
        tmp_path,
        lambda: run_delete(Work(world.table, RUN, never), DeleteOptions(where="id = 1")),
    )
    assert seen(world) == [0, 2]


@pytest.mark.long
def test_a_delete_of_the_former_partition_meanwhile_is_honoured_too(tmp_path: Path) -> None:
    world = filled((0, 1, 2), deletes="lazy")
    table = applied(world, "month(ts)")
    limited = DeleteOptions(where="id = 1", partitions=("ts_day=2026-01-31",))
    report = during(
        world, table, tmp_path, lambda: run_delete(Work(world.table, RUN, never), limited)
    )
    assert report.replans == 1
    assert seen(world) == [0, 2]
    assert places(world) == {"ts_month=2026-01": [0], "ts_month=2026-02": [2]}


def during(
    world: World, table: Table, scratch: Path, act: Callable[[], object]
) -> RepartitionReport:
    """Run with something that another process does after the kernels, before the first commit."""
    done: list[bool] = []

    class Between(LocalEngine):
        def run(self, tasks: Any) -> Any:
            for result in super().run(tasks):
                if result is not None and not done:
                    done.append(True)
                    act()
                yield result

    engine = Between(lambda: world.store, scratch, world.ids, SystemClock())
    world.clock.advance(10)
    return run_repartition(Work(table, RUN, lambda: engine), RepartitionOptions())


@pytest.mark.long
def test_rows_of_a_writer_with_the_old_layout_stay_for_the_next_run_and_are_reported(
    tmp_path: Path,
) -> None:
    world = filled((0, 1), (1,))
    table = applied(world, "month(ts)")

    report = during(
        world, table, tmp_path, lambda: put_append(world, "ts_day=2026-01-31", schema={})
    )
    assert (report.partitions_left, report.parts_left, report.failures) == (1, 1, ())
    found = snapshot(world).partitions
    assert {name: len(parts) for name, parts in found.items()} == {
        "ts_day=2026-01-31": 1,
        "ts_month=2026-01": 2,
    }


@pytest.mark.long
def test_a_merge_of_a_source_meanwhile_is_planned_again_and_no_row_is_lost(tmp_path: Path) -> None:
    world = filled((1,), (1,), (2,), merge={"min_inputs": 2})
    table = applied(world, "month(ts)", merge={"min_inputs": 2})
    other = tmp_path / "other"
    report = during(
        world,
        table,
        tmp_path / "own",
        lambda: run_merge(Work(table, RUN, lambda: engine_of(world, other)), MergeOptions()),
    )
    assert report.replans == 1
    assert seen(world) == [1, 1, 2]
    assert report.parts_left == 0
    orphans = {k for k in world.store.objects if "/_data/" in k} - set(snapshot(world).parts)
    assert not orphans


@pytest.mark.long
def test_a_partition_that_was_dropped_meanwhile_stays_dropped(tmp_path: Path) -> None:
    world = filled((1,), (2,))
    table = applied(world, "month(ts)")
    gone = DropOptions(partitions=("ts_day=2026-01-31",))
    during(world, table, tmp_path, lambda: run_drop(Work(world.table, RUN), gone))
    assert seen(world) == [2]


def test_a_part_that_cannot_be_read_leaves_its_partition_and_moves_the_others(
    tmp_path: Path,
) -> None:
    world = filled((1, 2))
    table = applied(world, "month(ts)")
    (bad,) = snapshot(world).partitions["ts_day=2026-01-31"]
    world.store.objects[bad.p] = (b"no parquet", world.clock.now)
    with pytest.raises(RepartitionFailedError, match="1 of 2 were") as raised:
        move(world, table, tmp_path)
    report = raised.value.report
    assert [f.partition for f in report.failures] == ["ts_day=2026-01-31"]
    assert (report.partitions_left, len(report.transactions)) == (1, 1)
    assert bad.p in snapshot(world).live


def test_settings_that_name_another_layout_than_the_table_are_refused() -> None:
    world = filled((0,))
    with pytest.raises(PropertiesDifferError, match=r"month\(ts\).*properties apply"):
        preview(by(world, "month(ts)"), RepartitionOptions())


def test_a_table_without_layout_or_with_a_key_or_without_the_column_is_refused() -> None:
    free = make_world()
    append(free, 1)
    with pytest.raises(UsageError, match="has no partition_by"):
        preview(free.table, RepartitionOptions())
    keyed = filled((1,), primary_key=["id"])
    with pytest.raises(UsageError, match="rows of one key that lie in two partitions"):
        preview(keyed.table, RepartitionOptions())
    without = make_world(partition_by=["day(other)"])
    put_append(without, "ts_day=2026-01-30")
    with pytest.raises(UsageError, match=r"no column 'other'.*columns are ts, v"):
        preview(without.table, RepartitionOptions())


def test_another_number_of_buckets_moves_only_the_rows_that_belong_elsewhere(
    tmp_path: Path,
) -> None:
    world = filled(tuple(range(40)), layout="bucket(2, id)")
    table = applied(world, "bucket(4, id)")
    assert preview(table, RepartitionOptions()).nothing_to_do
    report = move(world, table, tmp_path, every=True)
    expected = {
        name: sorted(rows.column("id").to_pylist())
        for name, rows in partition_batches(batch(*range(40)), table.settings.partition_by)
    }
    assert places(world) == expected
    assert len(report.transactions) == 2
    before = dict(world.store.objects)
    again = move(world, table, tmp_path, every=True)
    assert (again.transactions, again.partition_count) == ((), 4)
    assert {k for k in world.store.objects if "_data" in k} == {k for k in before if "_data" in k}


@pytest.mark.long
def test_parts_say_where_they_come_from_and_verify_finds_nothing(tmp_path: Path) -> None:
    world = filled((0, 1), (1, 2))
    table = applied(world, "month(ts)")
    sources = {m.p for m in snapshot(world).live.values()}
    move(world, table, tmp_path)
    named = set()
    for key in snapshot(world).live:
        pairs = pq.read_metadata(io.BytesIO(world.store.objects[key][0])).metadata
        named |= set(pairs[b"firnline.replaces"].decode()[2:-2].split('","'))
        assert pairs[b"firnline.partition"].decode() in key
    assert {f"t/_data{name}" for name in named} == sources
    report = run_verify(Work(table), VerifyOptions(deep=True))
    assert not report.findings


@pytest.mark.long
def test_a_restore_brings_all_partitions_back_or_none(tmp_path: Path) -> None:
    world = filled((0, 1), (1, 2))
    table = applied(world, "month(ts)")
    before, to = places(world), snapshot(world).seq
    move(world, table, tmp_path)
    half = RestoreOptions(to=to, partitions=("ts_day=*",))
    with pytest.raises(UsageError, match=r"repartition.*not all are restored"):
        run_restore(Work(table, RUN, tell=lambda _: None), half)
    run_restore(Work(table, RUN, tell=lambda _: None), RestoreOptions(to=to))
    assert places(world) == before


@pytest.mark.long
@pytest.mark.parametrize("kind", ["before", "after"])
def test_whenever_it_dies_every_row_is_seen_once_and_the_next_run_goes_on(
    kind: str, tmp_path: Path
) -> None:
    def begin() -> tuple[World, Table]:
        world = filled((0, 1, 2), (1, 2, 3), layout="month(ts)")
        return world, applied(world, "day(ts)")

    ids = [0, 1, 1, 2, 2, 3]
    world, table = begin()
    whole = FaultyStore(world.store)
    move_by(world, replace(table, store=whole), whole, tmp_path)
    assert len(whole.calls) > 20
    for at in sample(range(len(whole.calls)), 4, kind):
        world, table = begin()
        store = FaultyStore(world.store, Fault(at, kind))
        with suppress(Crashed, RepartitionFailedError):
            move_by(world, replace(table, store=store), store, tmp_path)
        assert seen(world) == ids, f"call {at}: {store.calls[-1]}"
        move(world, table, tmp_path)
        assert {name[:6] for name in places(world)} == {"ts_day"}
        assert seen(world) == ids


@pytest.mark.long
@examples(6, 200)
@given(
    appends=st.lists(st.lists(st.integers(0, 70), min_size=1, max_size=12), min_size=1, max_size=4),
    layouts=st.permutations(["day(ts)", "month(ts)", "year(ts)", "bucket(3, id)", "name"]),
    target=st.integers(1, 2),
)
def test_every_row_is_where_an_append_would_put_it(
    appends: list[list[int]],
    layouts: list[str],
    target: int,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    world = filled(*map(tuple, appends), layout=layouts[0])
    table = applied(world, *layouts[1 : 1 + target])
    move(world, table, tmp_path_factory.mktemp("scratch"))
    every = batch(*(n for ids in appends for n in ids))
    expected = {
        name: sorted(rows.column("id").to_pylist())
        for name, rows in partition_batches(every, table.settings.partition_by)
    }
    assert places(world) == expected


@pytest.mark.long
def test_a_rebuild_knows_what_was_moved_from_the_footers(tmp_path: Path) -> None:
    world = filled((0, 1), (1, 2))
    table = applied(world, "month(ts)")
    move(world, table, tmp_path)
    rows = seen(world)
    for key in [k for k in world.store.objects if "/_log/" in k]:
        del world.store.objects[key]
    run_rebuild(Work(table, RUN), RebuildOptions())
    assert seen(world) == rows
    assert set(places(world)) == {"ts_month=2026-01", "ts_month=2026-02"}
