"""Downgrade: a v1 client reads the same rows, and nothing but v1 is left."""

from __future__ import annotations

import io
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import pyarrow.parquet as pq
import pytest

from firnline.appends.append import Appender
from firnline.clock import SystemClock
from firnline.commit.base import take_base
from firnline.errors import RunFailedError, SnapshotUnstableError, UsageError
from firnline.kernel.engine import Engine
from firnline.kernel.local import LocalEngine
from firnline.log.taken_in import TakenIn
from firnline.operations.downgrade.run import DowngradeReport, preview, run_downgrade
from firnline.operations.operation import Work
from firnline.operations.options import DowngradeOptions, VerifyOptions
from firnline.operations.properties.run import run_apply
from firnline.operations.verify.run import run_verify
from firnline.properties import record as birth
from firnline.state.history import history
from firnline.state.snapshot import read_snapshot
from firnline.store.base import Deleted
from tests.support import histories
from tests.support.declared import under
from tests.support.downgrades import downgraded
from tests.support.histories import RUN, append, filled, ids_of, merge, state
from tests.support.log_tables import v1_live
from tests.support.v1_client import V1Client
from tests.support.world import Asleep, FaultyStore, MemoryStore, World

DAY_MS = 86_400_000


def engine_of(world: World, scratch: Path) -> Callable[[], Engine]:
    return lambda: LocalEngine(lambda: world.store, scratch, world.ids, SystemClock())


def downgrade(world: World, scratch: Path, **options: Any) -> DowngradeReport:
    world.clock.advance(1)
    return run_downgrade(
        Work(world.table, RUN, engine_of(world, scratch)), DowngradeOptions(**options)
    )


def v1_rows(world: World) -> Counter[int]:
    """Ids of the rows that a v1 client sees."""
    found: Counter[int] = Counter()
    for path in v1_live(world):
        data = world.store.objects[path][0]
        found.update(pq.read_table(io.BytesIO(data), partitioning=None).column("id").to_pylist())
    return found


def unfolded(world: World) -> list[str]:
    snapshot = state(world)
    return [key for key in snapshot.listing if key not in snapshot.log_tombstones]


def lines(world: World, key: str) -> list[Any]:
    return [json.loads(line) for line in world.store.objects[key][0].split(b"\n")]


@pytest.mark.long
def test_a_table_becomes_one_log_file_of_nothing_but_v1(tmp_path: Path) -> None:
    world = filled()
    merge(world, tmp_path)
    append(world, 24)
    report = downgrade(world, tmp_path)
    assert report.transactions == (2,)
    (key,) = unfolded(world)
    header, schema, *rest = lines(world, key)
    assert header.keys() == {"v", "t", "sch", "tmb", "f"}
    assert schema == {"id": "BIGINT", "day": "BIGINT", "name": "VARCHAR"}
    stones, markers = rest[: header["f"] - 2], rest[header["f"] - 2 :]
    assert all(tombstone.keys() == {"p", "t"} for tombstone in stones)
    assert all(marker.keys() <= {"p", "b", "t", "tmb"} for marker in markers)
    assert not world.store.objects[key][0].endswith(b"\n")
    assert v1_rows(world) == ids_of(world) == dict.fromkeys(range(30), 1)
    assert run_verify(Work(world.table), VerifyOptions(deep=True)).healthy


def test_its_header_says_whose_appends_were_left_since_no_log_of_v1_will(tmp_path: Path) -> None:
    world = filled()
    append(world, 24, by=Appender(world.table, writer="billing"))
    merge(world, tmp_path)
    append(world, 30, by=Appender(world.table, writer="web"))
    downgrade(world, tmp_path)
    newest = history(world.table)[0]
    assert (newest.op, newest.appends) == (
        "downgrade",
        (TakenIn(writer="web", appends=1, parts=2, rows=6),),
    )


@pytest.mark.long
def test_pending_deletes_are_applied_where_they_hide_a_row(tmp_path: Path) -> None:
    world = filled()
    histories.delete_lazily(world, 8)
    assert v1_rows(world) == dict.fromkeys(range(24), 1), "v1 clients know no deletes"
    world.clock.advance(world.settings.append.ttl)
    plan = preview(world.table, DowngradeOptions())
    assert len(plan.groups) == 4  # ids 0 to 11 in two partitions; the others by statistics
    report = downgrade(world, tmp_path)
    assert (report.parts_rewritten, report.rows_deleted) == (4, 8)
    assert v1_rows(world) == dict.fromkeys(range(8, 24), 1)
    assert read_snapshot(world.store, world.table.paths).deletes == {}
    left = {k for k in world.store.objects if "/_data/" in k} - set(state(world).parts)
    assert left == set(), "no output without a marker"


@pytest.mark.long
def test_a_part_without_a_hidden_row_is_not_rewritten(tmp_path: Path) -> None:
    world = filled(sort_by=[])  # no statistics of id
    histories.delete_lazily(world, 1)
    world.clock.advance(world.settings.append.ttl)
    report = downgrade(world, tmp_path)
    assert (report.parts_rewritten, report.rows_deleted) == (1, 1)
    assert v1_rows(world) == dict.fromkeys(range(1, 24), 1)


def test_a_young_delete_has_to_wait_for_appends_under_way(tmp_path: Path) -> None:
    world = filled()
    histories.delete_lazily(world, 8)
    with pytest.raises(UsageError, match=r"younger than append\.ttl"):
        downgrade(world, tmp_path)


def test_a_second_run_waits_and_then_deletes_what_is_left_over(tmp_path: Path) -> None:
    world = filled()
    merge(world, tmp_path)
    first = downgrade(world, tmp_path)
    assert first.waits_until is not None
    before = dict(world.store.objects)
    second = downgrade(world, tmp_path)
    assert (second.transactions, second.waits_until) == ((), first.waits_until)
    assert world.store.objects == before
    world.clock.now = first.waits_until
    third = downgrade(world, tmp_path)
    assert third.objects_deleted == 8 + 1 + 5
    assert {k.split("/")[1] for k in world.store.objects} == {"_log", "_data", "_txn"}
    kept = [world.table.paths.birth, world.table.paths.txn(2)]
    assert [k for k in world.store.objects if "/_txn/" in k] == kept
    assert len([k for k in world.store.objects if "/_log/" in k]) == 1
    assert v1_rows(world) == dict.fromkeys(range(24), 1)
    fourth = downgrade(world, tmp_path)
    assert (fourth.objects_deleted, fourth.waits_until) == (0, None)
    assert fourth.requests["delete"] == fourth.requests["put"] == 0
    assert preview(world.table, DowngradeOptions()).nothing_to_do
    assert run_verify(Work(world.table), VerifyOptions(deep=True)).healthy


def test_v1_clients_go_on_with_it_and_so_does_firnline(tmp_path: Path) -> None:
    world = filled()
    merge(world, tmp_path)
    report = downgrade(world, tmp_path)
    assert report.waits_until is not None
    world.clock.now = report.waits_until
    downgrade(world, tmp_path)
    client = V1Client(world)
    assert client.live() == state(world).live.keys()
    made = client.append("day=0")
    merged = client.merge("day=0")
    assert client.live() == state(world).live.keys()
    del world.store.objects[made]
    assert merged is not None
    world.store.objects[merged] = (histories.parquet_bytes(histories.rows_from(100)), 0)
    append(world, 200)
    assert client.live() == state(world).live.keys()


def test_an_append_after_a_downgrade_needs_another(tmp_path: Path) -> None:
    world = filled()
    downgrade(world, tmp_path)
    append(world, 24)
    assert not preview(world.table, DowngradeOptions()).is_v1
    downgrade(world, tmp_path)
    assert preview(world.table, DowngradeOptions()).is_v1
    assert v1_rows(world) == dict.fromkeys(range(30), 1)


def test_a_table_of_v1_clients_is_left_alone(tmp_path: Path) -> None:
    world = histories.table_world(partition_by=[])
    client = V1Client(world)
    client.append("d=1")
    client.append("d=1")
    client.merge("d=1")
    before = dict(world.store.objects)
    report = downgrade(world, tmp_path)
    assert (report.transactions, world.store.objects) == ((), before)


def test_a_dry_run_changes_nothing(tmp_path: Path) -> None:
    world = filled()
    before = dict(world.store.objects)
    report = downgrade(world, tmp_path, dry_run=True)
    assert (report.plan["logs"], report.plan["is_v1"], report.transactions) == (4, False, ())
    assert world.store.objects == before


def test_a_part_that_does_not_read_stops_it_before_anything_is_folded(tmp_path: Path) -> None:
    world = filled()
    histories.delete_lazily(world, 1)
    world.clock.advance(world.settings.append.ttl)
    broken = preview(world.table, DowngradeOptions()).groups[0].parts[0].p
    data = world.store.objects[broken][0]
    world.store.objects[broken] = (b"\0" * len(data), world.clock.now)
    with pytest.raises(RunFailedError, match="1 part of table t could not be rewritten"):
        downgrade(world, tmp_path)
    assert state(world).seq == 1


@dataclass
class _Once:
    """An engine of which a rival takes a part away, once."""

    world: World
    inner: LocalEngine
    done: bool = False
    application_id: str = ""

    def run(self, tasks: Any) -> Any:
        if not self.done:
            self.done = True
            histories.drop(self.world, "day=0")
        return self.inner.run(tasks)


def test_a_rival_that_takes_parts_away_is_planned_around(tmp_path: Path) -> None:
    world = filled()
    histories.delete_lazily(world, 8)
    world.clock.advance(world.settings.append.ttl)
    inner = LocalEngine(lambda: world.store, tmp_path, world.ids, SystemClock())
    engine = _Once(world, inner)
    run_downgrade(Work(world.table, RUN, lambda: engine), DowngradeOptions())
    assert v1_rows(world) == dict.fromkeys(range(9, 24, 2), 1)


# --- requests that land late ----------------------------------------------------------------------


class _Kept(MemoryStore):
    """Keeps the DELETEs that it was sent, as a network that carries one out once more does."""

    sent: ClassVar[list[str]] = []

    def delete_many(self, keys: Iterable[str]) -> Iterator[Deleted]:
        keys = list(keys)
        self.sent.extend(keys)
        return super().delete_many(keys)


@pytest.mark.parametrize("changed", [False, True])
def test_no_delete_that_lands_late_takes_the_birth_record_away(
    changed: bool, tmp_path: Path
) -> None:
    world = filled(append={"ttl": "2h"})
    merge(world, tmp_path)
    if changed:
        run_apply(under(world, append={"ttl": "3h"}), RUN)
    before = take_base(world.table).properties
    store = _Kept(world.clock)
    store.objects = world.store.objects
    asking = replace(world, table=replace(world.table, store=store))
    downgraded(asking, engine_of(world, tmp_path))
    assert store.sent
    list(store.delete_many(list(store.sent)))
    assert take_base(world.table).properties == before
    assert before is not None
    assert before.append_ttl == (3 if changed else 2) * 3_600_000


def test_the_birth_record_states_the_last_number_and_is_written_once(tmp_path: Path) -> None:
    world = filled()
    merge(world, tmp_path)
    due = downgrade(world, tmp_path).waits_until
    assert due is not None
    world.clock.advance(due - world.clock.now)

    def dies(store: FaultyStore) -> None:
        downgrade(replace(world, table=replace(world.table, store=store)), tmp_path)

    assert histories.dies_at(world, "delete", "before", dies)
    key = world.table.paths.birth
    stated = birth.decode(key, world.store.objects[key][0])
    assert (stated.seq, stated.log) == (2, unfolded(world)[0])
    before = world.store.objects[key]
    assert downgrade(world, tmp_path).requests["put"] == 0
    assert world.store.objects[key] == before


def test_a_table_without_a_birth_record_gets_one(tmp_path: Path) -> None:
    world = filled()
    merge(world, tmp_path)
    del world.store.objects[world.table.paths.birth]
    before = take_base(world.table).properties
    downgraded(world, engine_of(world, tmp_path))
    assert take_base(world.table).properties == before


BIRTH = "t/_txn/" + 20 * "0"


@pytest.mark.long
@pytest.mark.parametrize(
    ("at", "skip"),
    [("list t/_txn/", 1), (f"get {BIRTH}.", 0), (f"put {BIRTH}.", 0), ("delete", 0)],
)
def test_a_run_that_sleeps_before_it_deletes_stops_after_one_request_and_says_so(
    at: str, skip: int, tmp_path: Path
) -> None:
    """Firnline may be back by then, with transactions of the same numbers."""
    world = filled(append={"ttl": "2h"})
    merge(world, tmp_path)
    run_apply(under(world, append={"ttl": "3h"}), RUN)
    due = downgrade(world, tmp_path).waits_until
    assert due is not None
    world.clock.advance(due - world.clock.now)
    store = Asleep(world.store, at=at, skip=skip, meanwhile=lambda: world.clock.advance(DAY_MS))
    with pytest.raises(SnapshotUnstableError, match="stood still for longer than half the grace"):
        downgrade(replace(world, table=replace(world.table, store=store)), tmp_path)
    assert store.slept == 1
    assert store.calls.count("delete") == (at == "delete")
    assert len([k for k in world.store.objects if "/_txn/" in k]) > 1
    downgrade(world, tmp_path)
    assert len([k for k in world.store.objects if "/_log/" in k]) == 1
