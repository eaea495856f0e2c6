"""A table of another client of log format version 1 is read and maintained as it is."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from firnline.appends.append import Appender
from firnline.clock import SystemClock
from firnline.errors import FirnlineError
from firnline.kernel.local import LocalEngine
from firnline.log.txn_file import RunIdentity
from firnline.operations.common_options import Mode
from firnline.operations.delete.run import run_delete
from firnline.operations.merge.run import run_merge
from firnline.operations.operation import Work
from firnline.operations.options import DeleteOptions, MergeOptions, RebuildOptions
from firnline.operations.rebuild.run import run_rebuild
from firnline.state.snapshot import read_snapshot
from tests.support.cleanups import GRACE
from tests.support.effort import examples
from tests.support.engines import CountingEngine
from tests.support.log_tables import do_merge, put_append, snapshot
from tests.support.reading import visible_ids
from tests.support.v1_client import V1Client
from tests.support.world import World, make_world

RUN = RunIdentity(run_id="r")


def agree(world: World, client: V1Client) -> None:
    """Both clients, and our reader that leaves folded log files out, see the same live parts."""
    ours = set(snapshot(world).live)
    assert client.live() == ours
    assert set(read_snapshot(world.store, world.table.paths).live) == ours
    assert ours <= world.store.objects.keys()


def merge(world: World) -> None:
    run_merge(Work(world.table, RUN, lambda: CountingEngine(world)), MergeOptions())


def test_a_foreign_table_is_read() -> None:
    world = make_world()
    client = V1Client(world)
    parts = {client.append("d=1"), client.append("d=2")}
    state = snapshot(world)
    assert set(state.live) == parts
    assert state.schema == {"ts": "TIMESTAMP", "v": "INTEGER"}
    assert state.seq == 0


def test_a_foreign_table_is_merged_and_stays_readable_for_its_client() -> None:
    world = make_world()
    client = V1Client(world)
    for _ in range(6):
        client.append("d=1")
    merge(world)
    assert len(snapshot(world).live) == 1
    agree(world, client)
    client.append("d=1")
    agree(world, client)


def test_a_foreign_merge_is_understood() -> None:
    world = make_world()
    client = V1Client(world)
    for _ in range(3):
        client.append("d=1")
    new = client.merge("d=1")
    assert set(snapshot(world).live) == {new}
    agree(world, client)


def test_a_foreign_fold_of_our_log_does_not_bring_back_parts() -> None:
    world = make_world()
    client = V1Client(world)
    keys = put_append(world) + put_append(world)
    do_merge(world, keys)
    put_append(world)
    world.clock.advance(10)
    client.merge("d=1")
    agree(world, client)
    do_merge(world, list(snapshot(world).live))
    agree(world, client)


def test_log_files_that_a_foreign_client_folded_are_still_read() -> None:
    """Whether its fold carries everything is not ours to know."""
    world = make_world()
    client = V1Client(world)
    for _ in range(3):
        client.append("d=1")
    client.merge("d=1")
    assert read_snapshot(world.store, world.table.paths).skipped == frozenset()


@pytest.mark.parametrize("host", ["my_m_host", "m_x", "a.b-c", "ünïcode"])
def test_any_host_name_of_a_foreign_client_is_fine(host: str) -> None:
    world = make_world()
    client = V1Client(world, host=host)
    for _ in range(4):
        client.append("d=1")
    merge(world)
    assert len(snapshot(world).live) == 1


STEPS = st.sampled_from(["v1 append", "append", "v1 merge", "merge", "merge two"])


@given(st.lists(st.tuples(STEPS, st.sampled_from(["d=1", "d=2"])), max_size=25))
@examples(40, 1000)
def test_both_clients_agree_after_any_sequence_of_their_work(steps: list[tuple[str, str]]) -> None:
    world = make_world(merge={"min_inputs": 2})
    client = V1Client(world)
    for step, partition in steps:
        world.clock.advance(3)
        if step == "v1 append":
            client.append(partition)
        elif step == "append":
            put_append(world, partition)
        elif step == "v1 merge":
            client.merge(partition)
        elif step == "merge":
            merge(world)
        else:
            parts = snapshot(world).partitions.get(partition, [])[:2]
            if parts:
                do_merge(world, [m.p for m in parts])
        agree(world, client)


# --- what docs/v1-clients.md says ----------------------------------------------------------------


def ids_of(world: World) -> list[int]:
    return sorted(visible_ids(world.table).elements())


def appended(world: World, *ids: int) -> None:
    world.clock.advance(10)
    Appender(world.table).append(pa.table({"id": pa.array(ids, pa.int64())}), partition="d=1")


def delete_one(world: World, scratch: Path, mode: Mode) -> None:
    world.clock.advance(10)

    def engine() -> LocalEngine:
        return LocalEngine(lambda: world.store, scratch, world.ids, SystemClock())

    run_delete(Work(world.table, RUN, engine), DeleteOptions(where="id = 1", mode=mode))
    world.clock.advance(10)


@pytest.mark.parametrize(("mode", "after"), [("lazy", [1, 2, 3]), ("eager", [2, 3])])
def test_rows_of_a_pending_delete_come_back_with_a_foreign_merge(
    tmp_path: Path, mode: Mode, after: list[int]
) -> None:
    world = make_world()
    client = V1Client(world)
    appended(world, 1, 2)
    appended(world, 3)
    delete_one(world, tmp_path, mode)
    assert ids_of(world) == [2, 3]
    client.merge_rows("d=1")
    assert ids_of(world) == after


def test_rows_of_a_lazy_delete_are_there_for_a_foreign_client(tmp_path: Path) -> None:
    world = make_world()
    appended(world, 1, 2)
    delete_one(world, tmp_path, "lazy")
    assert V1Client(world).live() == set(snapshot(world).live), "of that part it sees every row"
    assert ids_of(world) == [2]


def test_a_foreign_append_counts_as_written_after_the_transactions_before_it(
    tmp_path: Path,
) -> None:
    world = make_world()
    client = V1Client(world)
    appended(world, 1, 2)
    delete_one(world, tmp_path, "lazy")
    client.append_rows("d=1", pa.table({"id": pa.array([1], pa.int64())}), {"id": "BIGINT"})
    assert ids_of(world) == [1, 2], "the delete does not hide what came after it"


def test_a_foreign_clean_up_makes_the_log_lost_and_a_plain_rebuild_mends_it() -> None:
    world = make_world()
    client = V1Client(world)
    do_merge(world, put_append(world) + put_append(world))
    put_append(world)
    ours = {item.name.key for item in snapshot(world).listing.values() if item.name.seq}
    world.clock.advance(10)
    client.merge("d=1")
    live = client.live()
    world.clock.advance(GRACE)
    client.clean_up(GRACE - 1)
    assert ours
    assert ours.isdisjoint(world.store.objects)
    assert client.live() == live, "its own view is whole"
    with pytest.raises(FirnlineError, match="lost") as refused:
        read_snapshot(world.store, world.table.paths)
    assert "firnline rebuild" in refused.value.next_step
    run_rebuild(Work(world.table, RUN), RebuildOptions())
    assert set(read_snapshot(world.store, world.table.paths).live) == live
    agree(world, client)
