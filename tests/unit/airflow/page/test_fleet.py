from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from firnline.airflow.page.fleet import STALE_MS, Fleet
from firnline.errors import EnvironmentFaultError
from firnline.settings.load import Settings, TableSettings
from firnline.table import Table
from tests.support.histories import filled
from tests.support.world import SetClock, World, make_world


class Shelf:
    """Tables by name, and a fleet over them."""

    def __init__(self, **worlds: World) -> None:
        self.worlds = worlds
        self.clock = SetClock()
        self.opened: list[str] = []
        self.closed = {"closed"}
        self.gate = threading.Event()
        self.gate.set()
        self.fleet = Fleet(self.settings, self.open, self.clock)

    def settings(self) -> Settings:
        named = {
            name: world.settings.model_copy(update={"name": name})
            for name, world in self.worlds.items()
        }
        return Settings(path=Path("tables.yaml"), tables=named)

    def open(self, table: TableSettings) -> Table:
        self.gate.wait(10)
        self.opened.append(table.name)
        if table.name in self.closed:
            raise EnvironmentFaultError("there is no connection", next_step="create it")
        world = self.worlds[table.name]
        return replace(world.table, settings=table)

    def scores(self) -> dict[str, int | None]:
        return {
            row.settings.name: row.health.score.points if row.health else None
            for row in self.fleet.rows()
        }


def test_rows_come_at_once_and_their_figures_later() -> None:
    shelf = Shelf(busy=filled(4), empty=make_world())
    shelf.gate.clear()
    assert shelf.scores() == {"busy": None, "empty": None}
    assert shelf.fleet.refreshing
    shelf.gate.set()
    shelf.fleet.wait()
    assert not shelf.fleet.refreshing
    scores = shelf.scores()
    assert scores["empty"] == 100
    assert scores["busy"] not in (None, 100)


def test_stores_are_asked_again_only_when_figures_are_stale_and_somebody_looks() -> None:
    shelf = Shelf(busy=filled(4))
    shelf.scores()
    shelf.fleet.wait()
    shelf.clock.advance(STALE_MS - 1)
    shelf.scores()
    assert shelf.opened == ["busy"]
    shelf.clock.advance(1)
    shelf.scores()
    shelf.fleet.wait()
    assert shelf.opened == ["busy", "busy"]


def test_a_table_that_cannot_be_opened_says_so_and_the_others_are_there() -> None:
    shelf = Shelf(busy=filled(2), closed=make_world())
    shelf.scores()
    shelf.fleet.wait()
    rows = {row.settings.name: row.to_json(shelf.clock.now_ms()) for row in shelf.fleet.rows()}
    assert rows["closed"]["score"] == 0
    assert "there is no connection; create it" in rows["closed"]["reasons"][0]["text"]
    assert rows["busy"]["figures"]["parts"] == 4


def test_a_table_that_is_new_in_the_settings_is_looked_at_at_once() -> None:
    shelf = Shelf(busy=filled(2))
    shelf.scores()
    shelf.fleet.wait()
    shelf.worlds["more"] = make_world()
    shelf.gate.clear()
    assert shelf.scores()["more"] is None
    shelf.gate.set()
    shelf.fleet.wait()
    assert shelf.scores()["more"] == 100
    del shelf.worlds["busy"]
    assert list(shelf.scores()) == ["more"]


def test_details_are_read_in_the_background_and_stay_when_the_store_is_down() -> None:
    shelf = Shelf(busy=filled(4))
    shelf.gate.clear()
    shelf.fleet.row("busy")
    assert shelf.fleet.detail("busy") is None
    shelf.gate.set()
    shelf.fleet.wait()
    found = shelf.fleet.detail("busy")
    assert found is not None
    assert found.figures is not None
    partitions: list[Any] = found.figures["partitions"]
    assert [(one["parts"], one["merge"]) for one in partitions] == [(4, 4), (4, 4)]
    shelf.closed.add("busy")
    shelf.clock.advance(STALE_MS)
    shelf.fleet.row("busy")
    shelf.fleet.wait()
    stale = shelf.fleet.detail("busy")
    assert stale is not None
    assert stale.to_json(shelf.clock.now_ms()) == {
        "detail": found.figures,
        "age_ms": STALE_MS,
        "problem": "there is no connection; create it",
    }


def test_the_page_of_one_table_reads_this_table_once_and_no_other() -> None:
    shelf = Shelf(busy=filled(4), other=filled(2))
    assert shelf.fleet.row("nobody") is None
    shelf.fleet.row("busy")
    shelf.fleet.wait()
    row = shelf.fleet.row("busy")
    assert row is not None
    assert row.health is not None
    assert shelf.fleet.detail("busy") is not None
    assert shelf.opened == ["busy"]


@pytest.mark.parametrize("asked", [1, 5])
def test_one_refresh_is_under_way_at_a_time(asked: int) -> None:
    shelf = Shelf(busy=filled(2))
    shelf.gate.clear()
    for _ in range(asked):
        shelf.scores()
    shelf.gate.set()
    shelf.fleet.wait()
    assert shelf.opened == ["busy"]
