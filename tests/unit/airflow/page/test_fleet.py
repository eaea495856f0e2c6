from __future__ import annotations

import threading
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from firnline.airflow.page.cache import REREAD_MS, STALE_MS
from firnline.airflow.page.fleet import Fleet
from firnline.errors import EnvironmentFaultError, SettingsError
from firnline.operations.hold.run import run_hold
from firnline.operations.operation import Work
from firnline.operations.options import HoldOptions
from firnline.settings.files import UnreadFile
from firnline.settings.load import BrokenTable, Settings, TableSettings
from firnline.table import Table
from tests.support.histories import RUN, append, drop, filled
from tests.support.programs import HUNG_SECONDS
from tests.support.world import FaultyStore, SetClock, World, make_world


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
        self.gate.wait(HUNG_SECONDS)
        self.opened.append(table.name)
        if table.name in self.closed:
            raise EnvironmentFaultError("there is no connection", next_step="create it")
        world = self.worlds[table.name]
        return replace(world.table, settings=table)

    def row(self, name: str) -> dict[str, Any]:
        rows = {row.settings.name: row for row in self.fleet.rows()}
        return rows[name].to_json(self.clock.now_ms())

    def scores(self) -> dict[str, int | None]:
        return {row.settings.name: row.score for row in self.fleet.rows()}


def test_rows_come_at_once_and_their_figures_later() -> None:
    shelf = Shelf(busy=filled(4), empty=make_world())
    shelf.gate.clear()
    assert shelf.scores() == {"busy": None, "empty": None}
    assert shelf.fleet.refreshing
    shelf.gate.set()
    shelf.fleet.wait()
    assert not shelf.fleet.refreshing
    scores = shelf.scores()
    assert scores["empty"] == 0  # there is no table
    assert scores["busy"] not in (None, 0, 100)


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
    assert shelf.scores()["more"] == 0
    (why,) = shelf.row("more")["reasons"]
    assert "there is no table at memory://bucket/t: " in why["text"]
    del shelf.worlds["busy"]
    assert list(shelf.scores()) == ["more"]


def test_details_are_read_in_the_background_and_stay_when_the_store_is_down() -> None:
    shelf = Shelf(busy=filled(4))
    shelf.gate.clear()
    shelf.fleet.row("busy")
    assert shelf.fleet.detail("busy").figures is None
    shelf.gate.set()
    shelf.fleet.wait()
    found = shelf.fleet.detail("busy")
    assert found.figures is not None
    partitions: list[Any] = found.figures["partitions"]
    assert [(one["parts"], one["merge"]) for one in partitions] == [(4, 4), (4, 4)]
    shelf.closed.add("busy")
    shelf.clock.advance(STALE_MS)
    shelf.fleet.row("busy")
    shelf.fleet.wait()
    stale = shelf.fleet.detail("busy")
    assert stale.to_json(shelf.clock.now_ms()) == {
        "detail": found.figures,
        "version": shelf.worlds["busy"].clock.now_ms(),
        "age_ms": STALE_MS,
        "waiting_ms": None,
        "problem": "there is no connection; create it",
    }
    row = shelf.fleet.row("busy")
    assert row is not None
    plain = row.to_json(shelf.clock.now_ms())
    assert (plain["score"], plain["figures"]["parts"], plain["age_ms"]) == (0, 8, STALE_MS)


def test_the_page_of_one_table_reads_this_table_once_and_no_other() -> None:
    shelf = Shelf(busy=filled(4), other=filled(2))
    assert shelf.fleet.row("nobody") is None
    shelf.fleet.row("busy")
    shelf.fleet.wait()
    row = shelf.fleet.row("busy")
    assert row is not None
    assert row.score is not None
    assert shelf.fleet.detail("busy").figures is not None
    assert "detail" not in row.to_json(shelf.clock.now_ms())
    assert shelf.opened == ["busy"]


@pytest.mark.long
def test_a_store_that_hangs_holds_up_neither_a_request_nor_another_table() -> None:
    silent, other = filled(2), filled(2)
    shelf = Shelf(silent=silent, other=other)
    asked, free = threading.Event(), threading.Event()

    class Silent(FaultyStore):
        def list(self, prefix: str, after: str | None = None) -> Any:
            asked.set()
            assert free.wait(HUNG_SECONDS)
            return super().list(prefix, after)

    open_table = shelf.open

    def opened(table: TableSettings) -> Table:
        found = open_table(table)
        return replace(found, store=Silent(silent.store)) if table.name == "silent" else found

    looked: list[str] = []
    shelf.fleet = Fleet(
        shelf.settings, opened, shelf.clock, lambda row: looked.append(row.settings.name)
    )
    shelf.scores()
    assert asked.wait(HUNG_SECONDS)
    for _ in range(2):  # the other table is looked at again and again meanwhile
        shelf.fleet.wait("silent")
        shelf.clock.advance(STALE_MS)
        assert shelf.scores() == {"silent": None, "other": 100}
    shelf.fleet.wait("silent")
    assert looked == ["other"] * 3
    assert shelf.row("silent")["waiting_ms"] == 2 * STALE_MS
    row = shelf.fleet.row("silent")
    assert row is not None
    assert row.to_json(shelf.clock.now_ms())["figures"] is None
    assert shelf.fleet.detail("silent").figures is None
    free.set()
    shelf.fleet.wait()
    assert shelf.row("silent")["figures"]["parts"] == 4


def test_a_table_to_which_nothing_was_written_is_listed_and_not_read_again() -> None:
    world = filled(4)
    shelf = Shelf(busy=world)
    used = FaultyStore(world.store)
    shelf.fleet = Fleet(
        shelf.settings,
        lambda table: replace(world.table, settings=table, store=used),
        shelf.clock,
    )

    def calls_of_a_look(after_ms: int) -> Counter[str]:
        used.calls.clear()
        shelf.clock.advance(after_ms)
        shelf.scores()
        shelf.fleet.wait()
        return Counter(call.partition(" ")[0] for call in used.calls)

    assert calls_of_a_look(0)["get"]
    assert calls_of_a_look(STALE_MS) == Counter(list=3)
    assert shelf.row("busy")["age_ms"] == 0
    drop(world, "day=0")
    assert calls_of_a_look(STALE_MS)["get"]
    assert shelf.row("busy")["figures"]["parts"] == 4
    assert calls_of_a_look(STALE_MS) == Counter(list=3)
    assert calls_of_a_look(REREAD_MS)["get"], "plans depend on the time, too"


def test_headers_of_transactions_are_read_once(tmp_path: Path) -> None:
    world = filled(4)
    for partition in ("day=0", "day=1"):
        drop(world, partition)
    shelf = Shelf(busy=world)
    used = FaultyStore(world.store)
    shelf.fleet = Fleet(
        shelf.settings,
        lambda table: replace(world.table, settings=table, store=used),
        shelf.clock,
    )

    def transactions() -> list[int]:
        shelf.clock.advance(STALE_MS)
        shelf.fleet.row("busy")
        shelf.fleet.wait()
        found = shelf.fleet.detail("busy").figures
        assert found is not None
        return [one["seq"] for one in found["transactions"]]

    assert transactions() == [2, 1]
    used.calls.clear()
    append(world, 100)
    assert transactions() == [2, 1]
    heads = [call for call in used.calls if call.startswith("get") and "_txn/" in call]
    assert not [call for call in heads if call.endswith(world.table.paths.txn(1))]


@pytest.mark.parametrize("asked", [1, 5])
def test_one_refresh_is_under_way_at_a_time(asked: int) -> None:
    shelf = Shelf(busy=filled(2))
    shelf.gate.clear()
    for _ in range(asked):
        shelf.scores()
    shelf.gate.set()
    shelf.fleet.wait()
    assert shelf.opened == ["busy"]


def test_a_table_whose_settings_have_mistakes_is_a_row_with_the_sentence() -> None:
    shelf = Shelf(busy=filled(4))
    error = SettingsError("tables.bad.merge.slotz: is not a setting", next_step="correct it")
    good = shelf.settings()
    unread = (UnreadFile(Path("tables.yaml"), SettingsError("no YAML", next_step="x"), 0),)
    broken = {"bad": BrokenTable("bad", error, {"root": "s3://b/bad"})}
    now = replace(good, broken=broken, unread=unread)
    shelf.fleet = Fleet(lambda: now, shelf.open, shelf.clock)
    scores = shelf.scores()
    assert (set(scores), scores["bad"]) == ({"busy", "bad"}, 0)
    row = shelf.row("bad")
    assert (row["table"], row["root"], row["problem"]) == ("bad", "s3://b/bad", error.message)
    assert row["reasons"] == [{"points": 100, "text": f"cannot be read: {error.message}"}]
    alone = shelf.fleet.row("bad")
    assert alone is not None
    assert alone.to_json(0)["problem"] == error.message
    assert shelf.fleet.row("worse") is None
    assert shelf.fleet.warning() == (
        "the settings of 1970-01-01 00:00:00Z are in force, because no YAML; x"
    )
    shelf.fleet.wait()


def test_a_row_says_that_there_is_a_hold_and_no_answer_has_a_value_of_its_condition() -> None:
    shelf = Shelf(held=filled(4), free=filled(2))
    options = HoldOptions(name="case-17", where="name = 'needle'", why="Miller v. Acme", by="ana")
    run_hold(Work(shelf.worlds["held"].table, RUN), options)
    shelf.scores()
    shelf.fleet.row("held")
    shelf.fleet.wait()
    rows = {name: shelf.row(name) for name in ("held", "free")}
    assert [rows[name]["figures"]["holds"] for name in ("held", "free")] == [1, 0]
    found = shelf.fleet.detail("held").to_json(shelf.clock.now_ms())
    (shown,) = found["detail"]["holds"]
    assert (shown["name"], shown["rows"]) == ("case-17", "name = …")
    assert found["detail"]["money"]["transactions"] == 0
    assert b"needle" not in msgspec.json.encode([rows, found])
