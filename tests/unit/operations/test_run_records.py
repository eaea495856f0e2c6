from __future__ import annotations

from dataclasses import replace

import pytest

from firnline.errors import LogCorruptError
from firnline.log.txn_file import RunIdentity
from firnline.operations.run_records import completed, record_completed
from firnline.state.history import by_whom
from tests.support.world import Fault, FaultyStore, World, make_world

RUN = RunIdentity(dag_id="rewrite_partitions__t", run_id="backfill__2024-03-01T00:00:00+00:00")


@pytest.fixture
def world() -> World:
    return make_world()


def test_a_run_completes_any_number_of_times_and_its_records_stay(world: World) -> None:
    assert completed(world.table, RUN) == ()
    first = record_completed(world.table, RUN, "", (12, 13), 0)
    second = record_completed(world.table, RUN, "true", (), 1)
    assert completed(world.table, RUN) == (first, second)
    assert [(r.again, r.transactions) for r in (first, second)] == [("", (12, 13)), ("true", ())]


def test_runs_are_told_apart_by_dag_and_id(world: World) -> None:
    record_completed(world.table, RUN, "", (1,), 0)
    others = [("rewrite_partitions__t", "other"), ("replace__t", RUN.run_id)]
    for dag_id, run_id in others:
        assert completed(world.table, RunIdentity(dag_id=dag_id, run_id=run_id)) == ()


def test_a_record_costs_one_put_and_a_look_one_list_and_a_get_for_each(world: World) -> None:
    record_completed(world.table, RUN, "", (1,), 0)
    record_completed(world.table, RUN, "true", (2,), 1)
    counted = world.store.counters
    assert (counted.put, counted.get, counted.list) == (2, 0, 0)
    completed(world.table, RUN)
    completed(world.table, RunIdentity(dag_id="replace__t", run_id="never"))
    assert (counted.put, counted.get, counted.list) == (2, 2, 2)


def test_two_tries_that_end_at_once_leave_one_record(world: World) -> None:
    first = record_completed(world.table, RUN, "", (1,), 0)
    assert record_completed(world.table, RUN, "", (1,), 0) == first
    assert completed(world.table, RUN) == (first,)


def test_a_run_that_was_told_another_word_keeps_its_own_record(world: World) -> None:
    record_completed(world.table, RUN, "", (1,), 0)
    record_completed(world.table, RUN, "true", (2,), 0)
    assert [record.again for record in completed(world.table, RUN)] == ["", "true"]


def test_a_record_whose_answer_was_lost_is_found(world: World) -> None:

    table = replace(world.table, store=FaultyStore(world.store, Fault(0, "lost")))
    record = record_completed(table, RUN, "", (1,), 0)
    assert completed(world.table, RUN) == (record,)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"{}", "does not read: .*; restore the object from a backup, or delete it"),
        (
            b'{"version": 2, "id": "x", "t": 1, "run": {}}',
            "format version 2, this firnline reads version 1; upgrade firnline",
        ),
    ],
)
def test_a_record_that_cannot_be_read_is_no_licence_to_do_it_again(
    world: World, data: bytes, said: str
) -> None:
    key = world.table.paths.run_record(RUN.key, 1)
    world.store.put_new(key, data)
    with pytest.raises(LogCorruptError, match=said):
        completed(world.table, RUN)


def test_a_task_of_a_dag_of_somebody_else_has_records_of_its_own(world: World) -> None:
    first, second = (RunIdentity(dag_id="etl", run_id="r", task_id=name) for name in "ab")
    assert not first.is_run_of(second)
    record_completed(world.table, first, "", (1,), 0)
    assert len(completed(world.table, first)) == 1
    assert completed(world.table, second) == ()
    assert completed(world.table, RunIdentity(dag_id="etl", run_id="r")) == ()
    assert by_whom(first) == "etl r a"
