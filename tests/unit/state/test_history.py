from __future__ import annotations

from dataclasses import replace

from firnline.log.txn_file import RunIdentity, TxnHeader
from firnline.state.history import by_whom, history
from tests.support.histories import append, drop, filled
from tests.support.world import FaultyStore, World


def dropped(*partitions: str) -> World:
    world = filled(2)
    for partition in partitions:
        drop(world, partition)
    return world


def by_number(headers: list[TxnHeader]) -> dict[int, TxnHeader]:
    return {header.seq: header for header in headers}


def test_known_headers_are_not_read_again_but_the_newest_of_them() -> None:
    world = dropped("day=0", "day=1")
    known = by_number(history(world.table))
    append(world, 50)
    drop(world, "day=0")
    used = FaultyStore(world.store)
    found = history(replace(world.table, store=used), known=known)
    assert [header.seq for header in found] == [3, 2, 1]
    assert found == history(world.table)
    first = world.table.paths.txn(1)
    assert not [call for call in used.calls if first in call]


def test_headers_of_a_table_that_was_made_anew_are_not_taken_for_its_own() -> None:
    known = by_number(history(dropped("day=0", "day=1").table))
    for world in (dropped("day=1"), dropped("day=1", "day=0"), filled(1)):
        assert history(world.table, known=known) == history(world.table)


def test_no_more_than_the_newest_are_returned() -> None:
    world = dropped("day=0", "day=1")
    known = by_number(history(world.table))
    assert [header.seq for header in history(world.table, 1, known)] == [2]
    assert [header.seq for header in history(world.table, 1)] == [2]


def test_a_transaction_is_by_a_dag_run_or_by_a_person() -> None:
    dag = RunIdentity(dag_id="merge__e", run_id="scheduled__x", try_number=2, user="airflow")
    assert by_whom(dag) == "merge__e scheduled__x (try 2)"
    asked = RunIdentity(dag_id="erase__e", run_id="r", user="ana", approved_by="bo")
    assert by_whom(asked) == "erase__e r, approved by bo"
    assert by_whom(RunIdentity(run_id="cli-1", user="ana", host="laptop")) == "ana@laptop"
    assert by_whom(RunIdentity(run_id="cli-1")) == "cli-1"
    assert by_whom(RunIdentity()) == "?"
