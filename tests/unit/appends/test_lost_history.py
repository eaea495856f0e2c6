"""An append to a table whose ``_txn/`` has lost objects: seen, or refused; never hidden."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from firnline.appends.append import Appender
from firnline.appends.service import Appender as Service
from firnline.clock import SystemClock
from firnline.commit.base import take_base
from firnline.errors import LogLostError, PropertiesDifferError
from firnline.kernel.local import LocalEngine
from firnline.operations.downgrade.run import run_downgrade
from firnline.operations.operation import Work
from firnline.operations.options import DowngradeOptions, VerifyOptions
from firnline.operations.properties.run import run_apply
from firnline.operations.verify.run import run_verify
from firnline.properties.record import Properties
from firnline.state.snapshot import read_snapshot
from tests.support.declared import append, said, under, world_of
from tests.support.histories import RUN, clean_up, delete_lazily, merge, rows_from, table_world
from tests.support.reading import visible_ids
from tests.support.world import World

COLUMNS = {"id": "BIGINT", "day": "BIGINT", "name": "VARCHAR"}


def lose(world: World, *numbers: int) -> None:
    """Objects under ``_txn/`` are gone; without numbers all of them."""
    paths, objects = world.table.paths, world.store.objects
    keys = (
        map(paths.txn, numbers) if numbers else [k for k in objects if k.startswith(paths.txn_dir)]
    )
    for key in list(keys):
        del objects[key]


def deleted(transactions: int = 1) -> World:
    """Six rows, then deletes that hide all ids below ten."""
    world = table_world()
    Appender(world.table).append(rows_from(0))
    for _ in range(transactions):
        delete_lazily(world, 10)
    return world


LOSSES: list[Callable[[World], None]] = [
    lose,
    lambda w: lose(w, 2),
    lambda w: lose(w, 1, 2),
]


@pytest.mark.long
@pytest.mark.parametrize("lost", LOSSES)
@pytest.mark.parametrize("given", [None, COLUMNS])
def test_a_delete_whose_object_is_gone_does_not_hide_rows_appended_after_it(
    given: dict[str, str] | None, lost: Callable[[World], None], tmp_path: Path
) -> None:
    world = deleted(2)
    lost(world)
    result = Appender(world.table, known_schema=given).append(rows_from(0))
    assert result.q == 2
    assert sorted(visible_ids(world.table)) == list(range(6))
    for number in range(3):
        Appender(world.table).append(rows_from(20 + 6 * number))
    merge(world, tmp_path)
    assert sorted(visible_ids(world.table)) == [*range(6), *range(20, 38)]


@pytest.mark.parametrize("given", [None, COLUMNS])
def test_a_writer_that_has_seen_the_transaction_looks_at_the_log_once_it_is_gone(
    given: dict[str, str] | None,
) -> None:
    world = deleted()
    writer = Appender(world.table, known_schema=given)
    assert writer.append(rows_from(20)).q == 1
    delete_lazily(world, 10)
    lose(world)
    assert writer.append(rows_from(0)).q == 2
    assert writer.append(rows_from(50)).q == 2
    assert sorted(visible_ids(world.table)) == [*range(6), *range(20, 26), *range(50, 56)]
    delete_lazily(world, 10)
    assert writer.append(rows_from(70)).q == 3


def test_a_writer_that_has_seen_only_the_birth_record_looks_at_the_log_once_it_is_gone() -> None:
    world = table_world()
    writer = Appender(world.table)
    writer.append(rows_from(0))
    delete_lazily(world, 10)
    lose(world)
    assert writer.append(rows_from(0)).q == 1
    assert sorted(visible_ids(world.table)) == list(range(6))


def test_a_transaction_that_is_gone_from_log_and_history_is_missed_by_those_who_saw_it() -> None:
    world = deleted()
    writer = Appender(world.table)
    writer.knowing()
    for key in [k for k in world.store.objects if "/_txn/" in k or "_m_0" in k]:
        del world.store.objects[key]
    before = dict(world.store.objects)
    with pytest.raises(LogLostError, match="transaction 1 was there"):
        writer.append(rows_from(0))
    assert world.store.objects == before


def test_an_append_that_began_after_a_transaction_says_that_it_was_there() -> None:
    """Who has never looked knows by it that log and history have lost the transaction."""
    world = deleted()
    Appender(world.table).append(rows_from(20))
    for key in [k for k in world.store.objects if "/_txn/" in k or "_m_0" in k]:
        del world.store.objects[key]
    doings: list[Callable[[], object]] = [
        lambda: Appender(world.table).append(rows_from(0)),
        lambda: read_snapshot(world.store, world.table.paths),
        lambda: take_base(world.table),
    ]
    before = dict(world.store.objects)
    for doing in doings:
        with pytest.raises(LogLostError, match="an append began after transaction 1"):
            doing()
    assert world.store.objects == before
    assert "log-lost" in run_verify(Work(world.table), VerifyOptions()).kinds


def test_a_table_that_is_gone_is_not_created_anew_by_those_who_saw_it() -> None:
    world = table_world()
    writer = Appender(world.table)
    writer.append(rows_from(0))
    world.store.objects.clear()
    with pytest.raises(LogLostError, match="the birth record was there"):
        writer.append(rows_from(0))
    assert not world.store.objects


def test_the_properties_are_those_of_the_log_and_not_those_of_an_older_object() -> None:
    world = table_world(append={"ttl": "2h"})
    Appender(world.table).append(rows_from(0))
    changed = under(world, append={"ttl": "3h"})
    run_apply(changed, RUN)
    lose(world, 1)
    assert known(Appender(under(world))).append_ttl == 3 * 3_600_000


def known(writer: Appender) -> Properties:
    origin, _ = writer.knowing()
    assert origin.properties is not None
    return origin.properties


def test_a_birth_record_that_is_gone_is_written_again_as_it_was() -> None:
    world = world_of(primary_key=["id"], append={"ttl": "2h"})
    append(world.table, 1)
    birth = world.store.objects.pop(world.table.paths.birth)
    with pytest.raises(PropertiesDifferError):
        append(under(world, primary_key=["v"]), 2)
    append(under(world), 2)
    assert said(world).primary_key == ("id",)
    assert world.store.objects[world.table.paths.birth][0] != birth[0]  # names another log file
    assert len(read_snapshot(world.store, world.table.paths).properties) == 1


def test_a_service_places_rows_by_the_properties_of_the_log() -> None:
    world = table_world()
    Appender(world.table).append(rows_from(0))
    lose(world)
    with Service(under(world, partition_by=["day"])) as service:
        service.append({"id": 50, "day": 1, "name": "n"})
    assert 50 in visible_ids(world.table)


def test_an_append_after_a_downgrade_costs_what_any_does_and_has_its_number(
    tmp_path: Path,
) -> None:
    world = deleted()
    clean_up(world)
    for _ in range(2):
        run_downgrade(
            Work(world.table, RUN, lambda: engine_of(world, tmp_path)), DowngradeOptions()
        )
        world.clock.advance(world.settings.cleanup.grace + world.settings.commit_ttl + 1000)
    writer = Appender(world.table)
    first = writer.append(rows_from(0))
    newest = max(world.table.paths.parse_log(k).seq for k in world.store.objects if "/_log/" in k)
    assert first.q == newest > 1
    again = writer.append(rows_from(6)).requests
    assert {k: n for k, n in again.items() if n and "bytes" not in k} == {
        "list": 1,
        "put": 3,
    }
    assert sorted(visible_ids(world.table)) == list(range(12))


def engine_of(world: World, scratch: Path) -> LocalEngine:
    return LocalEngine(lambda: world.store, scratch, world.ids, SystemClock())


@pytest.mark.long
def test_a_writer_whose_columns_are_given_lists_the_log_once() -> None:
    world = deleted()
    writer = Appender(world.table, known_schema=COLUMNS)
    first, again = writer.append(rows_from(0)).requests, writer.append(rows_from(6)).requests
    assert (first["list"], first["get"]) == (2, 1)
    assert (again["list"], again["get"]) == (1, 0)
