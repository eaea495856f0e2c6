"""Rebuild where transactions are lost: what was erased stays gone, and of the rest it asks."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from firnline.appends.append import Appender
from firnline.clock import SystemClock
from firnline.errors import FindingsError, LogCorruptError
from firnline.kernel.local import LocalEngine
from firnline.log.txn_file import RunIdentity
from firnline.operations.erase.run import run_erase
from firnline.operations.operation import Work
from firnline.operations.options import EraseOptions, RebuildOptions, VerifyOptions
from firnline.operations.rebuild.run import RebuildReport, preview, run_rebuild
from firnline.operations.run_records import record_completed
from firnline.operations.verify.run import run_verify
from tests.support import histories
from tests.support.histories import (
    RUN,
    append,
    delete_lazily,
    drop,
    filled,
    lose_log,
    merge,
    rows_from,
    state,
)
from tests.support.log_tables import do_merge, put_append, v1_live
from tests.support.reading import part_rows, stored_ids, visible_ids
from tests.support.world import World, make_world

RUN_OF_AIRFLOW = RunIdentity(dag_id="d", run_id="r")


def rebuild(world: World, **options: object) -> RebuildReport:
    world.clock.advance(1)
    return run_rebuild(Work(world.table, RUN), RebuildOptions(**options))  # type: ignore[arg-type] # by name


def lose(world: World, folder: str, *numbers: int) -> None:
    """Objects of a folder are gone; of ``_txn`` only those of the numbers, if any are given."""
    keys = [key for key in world.store.objects if f"/{folder}/" in key]
    wanted = {world.table.paths.txn(number) for number in numbers}
    for key in keys:
        if not numbers or key in wanted:
            del world.store.objects[key]


def lose_history(world: World) -> None:
    """Log and transactions are gone."""
    lose_log(world)
    lose(world, "_txn")


def engine_of(world: World, scratch: Path) -> LocalEngine:
    return LocalEngine(lambda: world.store, scratch, world.ids, SystemClock())


def erase(world: World, scratch: Path, *ids: int) -> str:
    """Erase rows by id; returns the id of the certificate."""
    world.clock.advance(10)
    options = EraseOptions(columns=("id",), keys=tuple((n,) for n in ids))
    found = run_erase(
        Work(world.table, RUN, lambda: engine_of(world, scratch)), options
    ).certificate
    assert found is not None
    return found


# --- asked before anything comes back -------------------------------------------------------------


REMOVALS: list[Callable[[World], None]] = [
    lambda world: delete_lazily(world, 6),
    lambda world: drop(world, "day=0"),
]


@pytest.mark.long
@pytest.mark.parametrize("remove", REMOVALS)
def test_what_lost_transactions_removed_comes_back_only_if_somebody_says_so(
    remove: Callable[[World], None],
) -> None:
    world = filled(2)
    remove(world)
    lose_history(world)
    before = dict(world.store.objects)
    with pytest.raises(FindingsError, match="may come back, in up to 4 parts") as caught:
        rebuild(world)
    assert "--revive" in caught.value.next_step
    assert world.store.objects == before
    assert preview(world.table, RebuildOptions()).lost
    rebuild(world, revive=True)
    assert visible_ids(world.table) == Counter(range(12))


def test_a_history_of_which_only_the_newest_is_lost_is_missed_if_anything_came_after_it() -> None:
    world = filled(2)
    drop(world, "day=0")
    delete_lazily(world, 6)
    append(world, 12)
    lose_log(world)
    lose(world, "_txn", 2)
    with pytest.raises(
        FindingsError, match="names transaction 2, and the newest that is left is 1"
    ):
        rebuild(world)


def test_a_transaction_that_the_newest_does_not_carry_is_missed() -> None:
    world = make_world()
    big = put_append(world, *(f"d={day}" for day in range(200)))
    do_merge(world, big[:1])
    do_merge(world, put_append(world))  # it leaves the large log file of the first one standing
    lose_log(world)
    lose(world, "_txn", 1)
    before = dict(world.store.objects)
    with pytest.raises(FindingsError, match="transaction 1 is gone, and transaction 2 does not"):
        rebuild(world)
    assert world.store.objects == before


@pytest.mark.long
def test_transactions_that_later_ones_carry_are_missed_by_nobody(tmp_path: Path) -> None:
    world = filled()
    for first in (24, 48):
        merge(world, tmp_path)
        for more in range(4):
            append(world, first + 6 * more)
    merge(world, tmp_path)
    right, carried = visible_ids(world.table), state(world)
    newest = carried.seq
    assert newest == 3
    stands_on = {n for c in carried.contents.values() if c.x for n in c.x.standing or ()}
    lose_log(world)
    lose(world, "_txn", *({1, 2} - stands_on))
    rebuild(world)
    assert visible_ids(world.table) == right


@pytest.mark.long
def test_a_table_of_appends_alone_is_rebuilt_without_a_question() -> None:
    world = filled(2)
    lose_log(world)
    rebuild(world)
    assert visible_ids(world.table) == Counter(range(12))


# --- erases ---------------------------------------------------------------------------------------


@pytest.mark.long
def test_erased_rows_stay_gone_whatever_is_revived_and_included(tmp_path: Path) -> None:
    world = filled(2)
    erase(world, tmp_path, 3, 8)
    right = visible_ids(world.table)
    live = set(state(world).live)
    lose_history(world)
    with pytest.raises(FindingsError, match=r"certificate .* names transaction 1"):
        rebuild(world, include=("*",))
    report = rebuild(world, include=("*",), revive=True)
    assert visible_ids(world.table) == stored_ids(world.table) == right
    assert set(state(world).live) == live
    reasons = {item["reason"] for item in report.plan["left_out"]}  # type: ignore[attr-defined]
    assert any("was replaced by erase" in reason for reason in reasons)


@pytest.mark.long
def test_a_log_that_still_has_the_erased_part_alive_does_not_bring_it_back(tmp_path: Path) -> None:
    world = filled()
    merge(world, tmp_path)
    (older,) = [k for k in world.store.objects if "_m_0" in k]
    kept = world.store.objects[older]
    erase(world, tmp_path, 3)
    right = visible_ids(world.table)
    lose_history(world)
    world.store.objects[older] = kept
    rebuild(world, include=("*",), revive=True, force=True)
    assert visible_ids(world.table) == right


@pytest.mark.long
def test_a_part_that_landed_beside_the_lost_erase_is_asked_about(tmp_path: Path) -> None:
    world = filled(2)
    append(world, 500)  # the erase excludes it by its statistics, and its certificate says so
    beside = Appender(world.table)
    origin, _ = beside.knowing()
    beside.knowing = lambda: (origin, beside.columns.read(origin.q))  # type: ignore[method-assign]
    erase(world, tmp_path, 3)
    beside.append(rows_from(700))
    lose_history(world)
    plan = preview(world.table, RebuildOptions(revive=True))
    asked = [j.key for j in plan.undecided if "whose record is lost" in j.reason]
    rows = [row["id"] for key in asked for row in part_rows(world.table, key)]
    assert sorted(rows) == list(range(700, 706))


def test_an_erase_that_died_before_its_certificate_is_asked_about(tmp_path: Path) -> None:
    world = filled(2)
    uuid = erase(world, tmp_path, 3)
    del world.store.objects[world.table.paths.certificate(uuid)]
    lose_history(world)
    asked = preview(world.table, RebuildOptions(revive=True)).undecided
    assert [j for j in asked if f"was to be replaced by erase {uuid}" in j.reason]


@pytest.mark.long
def test_a_certificate_that_does_not_read_stops_it(tmp_path: Path) -> None:
    world = filled(2)
    uuid = erase(world, tmp_path, 3)
    lose_history(world)
    world.store.objects[world.table.paths.certificate(uuid)] = (b"{", 1)
    with pytest.raises(LogCorruptError, match="may name parts that were erased"):
        rebuild(world, revive=True)


# --- numbers --------------------------------------------------------------------------------------


def numbered(world: World, kind: str, seq: int) -> None:
    """An object that names a transaction, and nothing else does."""
    paths, objects = world.table.paths, world.store.objects
    if kind == "checkpoint":
        objects[paths.checkpoint(seq, world.ids.uuid7(1))] = (b"", 1)
    elif kind == "iceberg":
        objects[paths.iceberg_shown(seq, 1_700_000_000_000)] = (b"{}", 1)
    elif kind == "run":
        record_completed(world.table, RUN_OF_AIRFLOW, "", (1, seq), 0)
    else:
        assert kind == "delta"
        state_of = {
            "seq": seq, "t": 1, "at": 1, "files": 1, "table": "x", "created": 1, "columns": "x",
        }  # fmt: skip
        position = msgspec.json.encode({"commitInfo": {"firnline": state_of}}) + b"\n"
        objects[paths.delta_version(0)] = (position, 1)


@pytest.mark.long
@pytest.mark.parametrize("kind", ["checkpoint", "iceberg", "run", "delta"])
def test_no_number_is_given_again_that_any_object_names(kind: str) -> None:
    world = filled(2)
    lose_log(world)
    numbered(world, kind, 7)
    with pytest.raises(FindingsError, match="names transaction 7, and none is left"):
        rebuild(world)
    assert rebuild(world, revive=True).transactions == (8,)


@pytest.mark.long
def test_a_certificate_certifies_no_other_transaction_afterwards(tmp_path: Path) -> None:
    world = filled(2)
    erase(world, tmp_path, 3)
    live = {key.rpartition("/")[2] for key in state(world).live}
    lose_history(world)
    report = rebuild(world, include=tuple(live), exclude=("*",) if not live else (), revive=True)
    assert report.transactions == (2,)
    kinds = run_verify(Work(world.table), VerifyOptions()).kinds
    assert "certificate-changed" not in kinds


# --- several outputs of one run -------------------------------------------------------------------


@pytest.mark.long
def test_outputs_of_two_runs_on_the_same_inputs_are_not_both_taken_without_a_word(
    tmp_path: Path,
) -> None:
    world = filled()
    histories.dies_at(world, "put t/_txn/", "before", lambda store: merge(world, tmp_path, store))
    merge(world, tmp_path)
    lose_history(world)
    with pytest.raises(FindingsError, match="outputs of two runs"):
        rebuild(world, include=("*",), revive=True)
    assert re.search("more than the", str(preview(world.table, RebuildOptions(include=("*",)))))


def test_an_output_whose_inputs_are_live_by_an_old_log_file_replaces_them(tmp_path: Path) -> None:
    world = filled()
    kept = lose_log(world)
    world.store.objects.update(kept)
    merge(world, tmp_path)
    append(world, 24)  # it came after the merge, and says so
    right = visible_ids(world.table)
    lose_log(world)
    lose(world, "_txn", 1)
    world.store.objects.update(kept)
    with pytest.raises(FindingsError, match="names transaction 1"):
        rebuild(world, force=True)
    asked = preview(world.table, RebuildOptions(force=True, revive=True)).undecided
    include = tuple(j.key for j in asked)
    rebuild(world, force=True, revive=True, include=include)
    assert visible_ids(world.table) == right
    assert v1_live(world) == set(state(world).live), "whoever reads the old log files, too"


def test_the_plan_as_json_says_what_is_lost() -> None:
    world = filled(1)
    lose_history(world)
    plan = preview(world.table, RebuildOptions()).to_json()
    assert "not even a birth record" in plan["history_lost"]
    assert plan["doubtful"] == 2
    assert msgspec.json.encode(plan)
