"""A client of log version 1 merges what it read before a transaction of ours, and writes after it.

Nothing fences such a merge: what we can do is to find it, show nothing that is wrong, and undo it.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from firnline.appends.append import Appender
from firnline.clock import SystemClock
from firnline.errors import DoubledRowsError, FindingsError, NothingToDoError, SnapshotExpiredError
from firnline.kernel.local import LocalEngine
from firnline.log.txn_file import RunIdentity
from firnline.operations.cleanup.run import run_cleanup
from firnline.operations.delete.run import run_delete
from firnline.operations.drop.run import run_drop
from firnline.operations.erase.completion import complete_certificate
from firnline.operations.erase.run import run_erase
from firnline.operations.merge.run import run_merge
from firnline.operations.operation import Work
from firnline.operations.options import (
    CleanupOptions,
    DeleteOptions,
    DropOptions,
    EraseOptions,
    MergeOptions,
    RebuildOptions,
    VerifyOptions,
)
from firnline.operations.rebuild.run import preview, run_rebuild
from firnline.operations.verify.run import run_verify
from firnline.state.snapshot import Snapshot, read_snapshot
from tests.support.cleanups import GRACE
from tests.support.log_tables import v1_live
from tests.support.reading import visible_ids
from tests.support.v1_client import V1Client
from tests.support.world import World, make_world

RUN = RunIdentity(run_id="r")
DAY = 86_400_000
ROWS = 30
"""Of each append."""
Act = Callable[[World, Path], object]


def table_of(*appends: str) -> tuple[World, V1Client]:
    """Appends of ``ROWS`` ids each, to the partitions named."""
    world = make_world(merge={"min_inputs": 2})
    for number, partition in enumerate(appends or ("d=1", "d=1", "d=1")):
        appended(world, range(number * ROWS, (number + 1) * ROWS), partition)
    return world, V1Client(world)


def appended(world: World, ids: range, partition: str = "d=1") -> None:
    world.clock.advance(10)
    Appender(world.table).append(pa.table({"id": pa.array(ids, pa.int64())}), partition=partition)


def engine_of(world: World, scratch: Path) -> Callable[[], LocalEngine]:
    return lambda: LocalEngine(lambda: world.store, scratch, world.ids, SystemClock())


def merge(world: World, scratch: Path) -> None:
    run_merge(Work(world.table, RUN, engine_of(world, scratch)), MergeOptions())


def delete(world: World, scratch: Path) -> None:
    options = DeleteOptions(where="id < 5", mode="eager")
    run_delete(Work(world.table, RUN, engine_of(world, scratch)), options)


def drop(world: World, _: Path) -> None:
    run_drop(Work(world.table, RUN), DropOptions(partitions=("d=1",)))


def erase(world: World, scratch: Path) -> object:
    options = EraseOptions(columns=("id",), keys=(("7",),))
    return run_erase(Work(world.table, RUN, engine_of(world, scratch)), options).certificate


def ids_of(world: World) -> list[int]:
    return sorted(visible_ids(world.table).elements())


def rebuild(world: World, **options: object) -> None:
    world.clock.advance(10)
    run_rebuild(Work(world.table, RUN), RebuildOptions(**options))  # type: ignore[arg-type] # by name


def raced(
    world: World,
    client: V1Client,
    act: Act,
    scratch: Path,
    most: int | None = None,
    *,
    sources_only: bool = False,
) -> str:
    """Their merge begins, we act, and their merge ends; return its part."""
    begun = client.begin("d=1", most, sources_only=sources_only)
    world.clock.advance(10)
    act(world, scratch)
    world.clock.advance(10)
    return client.finish("d=1", begun)


CASES = [
    pytest.param(merge, range(90), id="merge"),
    pytest.param(delete, range(5, 90), id="delete"),
    pytest.param(drop, (), id="drop"),
    pytest.param(erase, [i for i in range(90) if i != 7], id="erase"),
]


@pytest.mark.parametrize("sources_only", [False, True])
@pytest.mark.parametrize("most", [None, 2])
@pytest.mark.parametrize(("act", "right"), CASES)
def test_rows_that_their_merge_would_double_or_bring_back_are_refused_and_taken_back(
    act: Act, right: list[int], most: int | None, sources_only: bool, tmp_path: Path
) -> None:
    world, client = table_of()
    part = raced(world, client, act, tmp_path, most, sources_only=sources_only)
    with pytest.raises(DoubledRowsError, match=part) as refused:
        ids_of(world)
    assert "firnline rebuild" in refused.value.next_step
    rebuild(world)
    assert ids_of(world) == list(right)
    assert (
        v1_live(world) == client.live() == set(read_snapshot(world.store, world.table.paths).live)
    )
    world.clock.advance(GRACE + DAY)
    run_cleanup(Work(world.table, RUN), CleanupOptions())
    assert part not in world.store.objects
    assert ids_of(world) == list(right)
    assert run_verify(Work(world.table), VerifyOptions(deep=True)).severities.get("error", 0) == 0


def test_what_only_their_merge_replaced_is_there_again_with_its_deletes(tmp_path: Path) -> None:
    world, client = table_of("d=1", "d=1", "d=2")

    def lazily(where: str) -> None:
        options = DeleteOptions(where=where, mode="lazy")
        run_delete(Work(world.table, RUN, engine_of(world, tmp_path)), options)

    def one_part(world: World, scratch: Path) -> None:
        options = DeleteOptions(where="id < 5", mode="eager")
        run_delete(Work(world.table, RUN, engine_of(world, scratch)), options)

    lazily("id = 40")
    world.clock.advance(10)
    raced(world, client, one_part, tmp_path)
    rebuild(world)
    assert ids_of(world) == [i for i in range(5, 90) if i != 40]


def test_a_transaction_that_commits_without_having_seen_their_merge_finds_it_next_time(
    tmp_path: Path,
) -> None:
    """Their log file lands between our base and our commit, and is dated before it."""
    world, client = table_of()
    begun = client.begin("d=1", 2)

    class Late(LocalEngine):
        def run(self, tasks: object) -> object:  # type: ignore[override] # passed on
            client.finish("d=1", begun)
            return super().run(tasks)  # type: ignore[arg-type] # as it came

    def late() -> LocalEngine:
        return Late(lambda: world.store, tmp_path, world.ids, SystemClock())

    world.clock.advance(10)
    run_merge(Work(world.table, RUN, late), MergeOptions())
    with pytest.raises(DoubledRowsError):
        ids_of(world)
    rebuild(world)
    assert ids_of(world) == list(range(90))


def test_a_merge_of_the_very_millisecond_of_a_transaction_is_found(tmp_path: Path) -> None:
    world, client = table_of()
    begun = client.begin("d=1")
    merge(world, tmp_path)
    (t,) = (item.name.t for item in snapshot_of(world).listing.values() if item.name.seq)
    world.clock.now = t - 5  # it takes 5 ms
    client.finish("d=1", begun)
    world.clock.now = t + 100
    with pytest.raises(DoubledRowsError):
        ids_of(world)
    rebuild(world)
    assert ids_of(world) == list(range(90))


def snapshot_of(world: World) -> Snapshot:
    return read_snapshot(world.store, world.table.paths, tolerant=True)


def test_what_they_merge_out_of_it_is_wrong_too(tmp_path: Path) -> None:
    world, client = table_of()
    raced(world, client, delete, tmp_path, 2)
    appended(world, range(90, 95))
    world.clock.advance(10)
    again = client.merge_rows("d=1")
    with pytest.raises(DoubledRowsError, match=again):
        ids_of(world)
    rebuild(world)
    assert ids_of(world) == list(range(5, 95))


def test_two_merges_of_theirs_of_the_same_parts_are_found_too() -> None:
    world, client = table_of()
    first, second = client.begin("d=1", 2), client.begin("d=1")
    client.finish("d=1", first)
    world.clock.advance(10)
    client.finish("d=1", second)
    with pytest.raises(DoubledRowsError):
        ids_of(world)
    rebuild(world)
    assert ids_of(world) == list(range(90))


def test_nothing_commits_before_it_is_taken_back_and_appends_go_on(tmp_path: Path) -> None:
    world, client = table_of()
    raced(world, client, drop, tmp_path)
    for act in (
        merge,
        delete,
        lambda world, _: run_cleanup(Work(world.table, RUN), CleanupOptions()),
    ):
        with pytest.raises(DoubledRowsError):
            act(world, tmp_path)
    appended(world, range(90, 95))
    rebuild(world)
    assert ids_of(world) == list(range(90, 95))


def test_verify_reports_it_until_it_is_taken_back(tmp_path: Path) -> None:
    world, client = table_of()
    part = raced(world, client, drop, tmp_path)
    report = run_verify(Work(world.table), VerifyOptions())
    (found,) = [f for f in report.findings if f.kind == "v1-merged-dead-part"]
    assert (found.severity, found.object) == ("error", part)
    assert "firnline rebuild" in found.next_step
    rebuild(world)
    assert "v1-merged-dead-part" not in run_verify(Work(world.table), VerifyOptions()).kinds


def test_a_certificate_does_not_complete_before_it_is_taken_back(tmp_path: Path) -> None:
    world, client = table_of()
    begun = client.begin("d=1")
    certificate = erase(world, tmp_path)
    world.clock.advance(10)
    part = client.finish("d=1", begun)
    world.clock.advance(3 * DAY)
    with pytest.raises(DoubledRowsError):
        complete_certificate(world.table, certificate, RUN)  # type: ignore[arg-type]
    rebuild(world)
    assert complete_certificate(world.table, certificate, RUN).status == "waiting"  # type: ignore[arg-type]
    world.clock.advance(3 * DAY)
    run_cleanup(Work(world.table, RUN), CleanupOptions())
    assert complete_certificate(world.table, certificate, RUN).status == "complete"  # type: ignore[arg-type]
    assert part not in world.store.objects
    assert 7 not in ids_of(world)


def test_states_in_which_rows_were_there_twice_cannot_be_read(tmp_path: Path) -> None:
    world, client = table_of()
    before = world.clock.now
    raced(world, client, delete, tmp_path)
    wrong = world.clock.now
    rebuild(world)
    state = read_snapshot(world.store, world.table.paths)
    with pytest.raises(SnapshotExpiredError, match="twice"):
        state.at(wrong)
    assert len(state.at(before).live) == 3
    merge(world, tmp_path)
    with pytest.raises(SnapshotExpiredError, match="twice"):
        read_snapshot(world.store, world.table.paths).at(wrong)


def test_a_dry_run_copies_nothing_and_says_what_it_would_do(tmp_path: Path) -> None:
    world, client = table_of("d=1", "d=1", "d=2")

    def one_part(world: World, scratch: Path) -> None:
        delete(world, scratch)

    part = raced(world, client, one_part, tmp_path)
    objects = set(world.store.objects)
    plan = preview(world.table, RebuildOptions()).to_json()
    assert [j["key"] for j in plan["left_out"]] == [part]
    assert len(plan["copied"]) == 1
    assert (plan["parts"], plan["rows"]) == (3, 85)
    assert set(world.store.objects) == objects


def test_where_their_clean_up_has_deleted_an_input_somebody_has_to_decide(tmp_path: Path) -> None:
    world, client = table_of("d=1", "d=1", "d=2")
    begun = client.begin("d=1")
    delete(world, tmp_path)
    world.clock.advance(10)
    part = client.finish("d=1", begun)
    del world.store.objects[begun.picked[1]]
    with pytest.raises(FindingsError, match="whose object is gone"):
        rebuild(world)
    rebuild(world, exclude=(part,))
    assert ids_of(world) == [*range(5, 30), *range(60, 90)]


def test_a_part_that_is_included_stays_with_the_rows_of_both(tmp_path: Path) -> None:
    world, client = table_of("d=1", "d=1", "d=2")
    begun = client.begin("d=1")
    delete(world, tmp_path)
    world.clock.advance(10)
    part = client.finish("d=1", begun)
    rebuild(world, include=(part,))
    assert ids_of(world) == sorted([*range(5, 30), *range(90)])


def test_a_merge_of_theirs_beside_nothing_of_ours_is_right() -> None:
    world, client = table_of()
    client.merge_rows("d=1")
    assert ids_of(world) == list(range(90))
    with pytest.raises(NothingToDoError):
        rebuild(world)
