"""The requests of erasure on the page: read in the background, seldom, and without a key."""

from __future__ import annotations

import io
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from firnline.airflow.page.board import TABLES_MS, Board, Known
from firnline.airflow.page.cache import STALE_MS
from firnline.airflow.page.planned import Planned
from firnline.airflow.page.requested import (
    MOST_OPEN,
    Seen,
    named_in,
    requests_json,
    summary,
    zipped,
)
from firnline.errors import EnvironmentFaultError, UsageError
from firnline.operations.erasure.look import Step, TableLook
from firnline.operations.erasure.run import People, withdraw
from firnline.settings.load import Settings
from firnline.table import Table
from tests.support.people import DAY, RUN, Town, shop

PERSON = "customer_id,email\n1,p1@x.y\n"


class Page:
    """A board over a town, and what it says once nothing is being read."""

    def __init__(self, town: Town) -> None:
        self.town = town
        self.away = ""
        """Why the folder cannot be opened."""
        self.now: Settings | None = None
        """Settings, if not those of the town."""
        self.board = Board(self.settings, self.people, town.clock)

    def settings(self) -> Settings:
        return self.town.settings if self.now is None else self.now

    def people(self, settings: Settings) -> People:
        if self.away:
            raise EnvironmentFaultError(self.away, next_step="create it")
        return replace(self.town.people, settings=settings)

    def known(self, *, tables: bool = True) -> Known:
        self.board.known(tables=tables)
        self.board.wait()
        found = self.board.known(tables=tables)
        self.board.wait()
        assert found is not None
        return found

    def said(self, *tables: str, run: Planned | None = None) -> dict[str, Any]:
        """All that a user sees who may read some tables; without any all of them."""
        names = tables or tuple(self.town.tables)
        seen = Seen(self.settings(), {name: f"merge__{name}" for name in names})
        return requests_json(self.known(), seen, run)

    def calls(self, after_ms: int, *, tables: bool = True) -> dict[str, int]:
        """Requests of what somebody looks at after some time, by store and kind."""
        self.town.clock.advance(after_ms)
        self.town.calls.clear()
        self.known(tables=tables)
        found = {"folder": 0, "tables": 0, "keys": 0}
        for call in self.town.calls:
            found["folder" if "requests/" in call else "tables"] += call != "get many"
            found["keys"] += ".keys." in call
        return found


def test_nothing_is_known_at_first_and_all_once_it_is_read(tmp_path: Path) -> None:
    town = shop(tmp_path)
    request = town.ask(PERSON, reference="T-1").request
    page = Page(town)
    first = page.board.known(tables=True)
    assert first is not None
    plain = requests_json(first, Seen(town.settings, {}), None)
    if first.folder.value is None:  # it is read in the background
        assert (plain["requests"], plain["age_ms"]) == (None, None)
        assert plain["summary"]["open"] is None
    page.board.wait()
    said = page.said()
    (one,) = said["requests"]
    assert (one["id"], one["reference"], one["taken_by"]) == (request.id, "T-1", "ana")
    assert (one["keys"], one["columns"]) == (1, ["customer_id", "email"])
    assert (one["due"], one["urgency"], one["state"]) == ("due in 30d", "", "open")
    assert (one["erased"], one["certified"], one["of"], one["hidden"]) == (0, 0, 2, 0)
    assert [(each["table"], each["state"]) for each in one["tables"]] == [
        ("mails", "to do"),
        ("orders", "to do"),
    ]
    assert (said["closed"], said["unstated"]) == ([], ["weather"])


def test_no_answer_has_a_key_or_a_digest(tmp_path: Path) -> None:
    town = shop(tmp_path)
    request = town.ask("customer_id,email\n1,needle@x.y\n").request
    said = msgspec.json.encode(Page(town).said())
    assert request.id.encode() in said
    for secret in (b"needle", b"digest", request.digest.encode(), b".keys."):
        assert secret not in said


def test_a_refresh_costs_a_listing_and_tables_are_looked_at_seldom(tmp_path: Path) -> None:
    town = shop(tmp_path)
    town.ask(PERSON)
    page = Page(town)
    nothing = {"folder": 0, "tables": 0, "keys": 0}
    listing = {**nothing, "folder": 1}
    # Who looks at all tables has the folder read, and no table.
    assert page.calls(0, tables=False) == {**nothing, "folder": 1}
    look = page.calls(0)
    assert look["tables"] > 0
    assert (look["folder"], look["keys"]) == (0, 0)
    assert page.calls(STALE_MS - 1) == nothing
    assert page.calls(1) == listing
    assert page.calls(STALE_MS) == listing
    assert page.calls(TABLES_MS) == {**look, "folder": 1}
    # A new request is looked at with the next listing, which reads it; and so is its end.
    town.ask("customer_id,email\n2,p2@x.y\n")
    assert page.calls(STALE_MS) == {**look, "folder": 1}
    assert [len(each["tables"]) for each in page.said()["requests"]] == [2, 2]


def test_a_look_costs_four_listings_of_a_table_and_what_it_reads(tmp_path: Path) -> None:
    """What docs/airflow.md says of it."""
    town = shop(tmp_path)
    town.ask(PERSON)

    def counts() -> tuple[list[tuple[int, int]], list[int]]:
        """(LIST, GET) of the folder and of each table, and everything else."""
        people, opened = town.people, list[Table]()

        def opens(name: str) -> Table:
            opened.append(town.open(name))
            return opened[-1]

        watched = replace(people, opens=opens)
        board = Board(lambda: town.settings, lambda _: watched, town.clock)
        board.known(tables=True)
        board.wait()
        stores = [people.folder.store, *(each.store for each in opened)]
        found = [each.counters.as_dict() for each in stores]
        others = ("put", "delete", "head")
        return [(n["list"], n["get"]) for n in found], [n[name] for n in found for name in others]

    # The folder with one request, and two tables with two appends each.
    assert counts() == ([(1, 1), (4, 2), (4, 2)], [0] * 9)
    town.run()
    # Each has one log file and one certificate.
    assert counts() == ([(1, 1), (4, 2), (4, 2)], [0] * 9)


def test_what_is_erased_waits_for_its_certificates_and_is_closed(tmp_path: Path) -> None:
    town = shop(tmp_path)
    request = town.ask(PERSON).request
    town.run()
    page = Page(town)
    (one,) = page.said()["requests"]
    assert (one["state"], one["erased"], one["certified"], one["of"]) == ("waiting", 2, 0, 2)
    assert all(each["certificate"] and each["ripe_ms"] for each in one["tables"])
    town.wait()
    assert town.run().closed == (request.id,)
    said = page.said()
    assert said["requests"] == []
    (ended,) = said["closed"]
    assert (ended["id"], ended["state"], ended["late"]) == (request.id, "done", False)
    assert [each["table"] for each in ended["tables"]] == ["mails", "orders"]
    assert (ended["unstated"], ended["bundle"]) == (["weather"], True)
    names = ["mails", "orders", "weather"]
    assert named_in(town.folder.one(request.id)) == names
    # The bundle names the table of which nobody has said anything, too.
    (ended,) = page.said("mails", "orders")["closed"]
    assert (ended["unstated"], ended["bundle"]) == ([], False)


def test_requests_that_are_overdue_or_soon_due_are_marked(tmp_path: Path) -> None:
    town = shop(tmp_path)
    town.ask(PERSON)
    page = Page(town)
    counts: list[tuple[Any, ...]] = []
    for _ in range(3):
        found = summary(page.known(tables=False))
        counts.append((found["open"], found["overdue"], found["soon"]))
        assert (found["closed"], found["problem"]) == (0, "")
        town.clock.advance(25 * DAY if len(counts) == 1 else 6 * DAY)
    assert counts == [(1, 0, 0), (1, 0, 1), (1, 1, 0)]
    (one,) = page.said()["requests"]
    assert (one["urgency"], one["due"]) == ("overdue", "7d overdue")


def test_withdrawn_and_late_requests_say_so(tmp_path: Path) -> None:
    town = shop(tmp_path)
    request = town.ask(PERSON).request
    withdraw(town.people, request.id, "asked twice", RUN)
    late = town.ask(PERSON, without=("mails",)).request
    town.run()
    town.clock.advance(40 * DAY)
    town.run()
    with pytest.raises(UsageError, match="is not done"):
        named_in(town.folder.one(request.id))
    closed = {each["id"]: each for each in Page(town).said()["closed"]}
    assert closed[request.id]["withdrawn"] == "asked twice"
    assert closed[request.id]["state"] == "withdrawn"
    assert not closed[request.id]["late"]
    assert closed[late.id]["late"]
    assert closed[late.id]["without"] == ["mails"]
    assert list(closed) == [late.id, request.id]  # the newest end first


def test_a_table_that_the_user_may_not_read_is_a_number(tmp_path: Path) -> None:
    town = shop(tmp_path)
    town.ask(PERSON)
    page = Page(town)
    said = page.said("orders")
    (one,) = said["requests"]
    assert [each["table"] for each in one["tables"]] == ["orders"]
    assert (one["hidden"], one["of"], said["unstated"]) == (1, 2, [])
    assert b"mails" not in msgspec.json.encode(said)
    town.run()
    town.wait()
    town.run()
    (ended,) = page.said("orders")["closed"]
    assert ([each["table"] for each in ended["tables"]], ended["hidden"]) == (["orders"], 1)
    assert not ended["bundle"]


def test_tables_that_are_gone_or_do_not_open_say_why(tmp_path: Path) -> None:
    town = shop(tmp_path)
    town.ask(PERSON)
    del town.tables["mails"]
    (one,) = Page(town).said()["requests"]
    gone, todo = one["tables"]
    assert (gone["table"], gone["dag"], gone["state"]) == ("mails", None, "gone")
    assert "which the settings do not have any more" in gone["why"]
    assert (todo["dag"], todo["state"], todo["why"]) == ("merge__orders", "to do", "")


def test_a_folder_that_cannot_be_read_keeps_what_is_known_and_says_why(tmp_path: Path) -> None:
    town = shop(tmp_path)
    town.ask(PERSON)
    page = Page(town)
    page.away = "there is no connection"
    assert summary(page.known())["problem"] == "there is no connection; create it"
    assert page.said()["requests"] is None
    # An error is not asked for again at once.
    page.away = ""
    assert summary(page.known())["problem"]
    town.clock.advance(STALE_MS)
    assert len(page.said()["requests"]) == 1
    page.away = "there is no connection any more"
    town.clock.advance(STALE_MS)
    said = page.said()
    assert said["summary"]["problem"] == "there is no connection any more; create it"
    assert (len(said["requests"]), said["age_ms"]) == (1, STALE_MS)


def test_settings_without_a_folder_have_no_requests_and_of_another_one_its_own(
    tmp_path: Path,
) -> None:
    town = shop(tmp_path)
    town.ask(PERSON)
    page = Page(town)
    assert len(page.said()["requests"]) == 1
    none = town.settings.erasure.model_copy(update={"requests": None})
    page.now = replace(town.settings, erasure=none)
    assert page.board.known(tables=True) is None
    page.now = None
    assert len(page.said()["requests"]) == 1


@pytest.mark.long
def test_many_requests_are_cut_and_counted(tmp_path: Path) -> None:
    town = shop(tmp_path)
    for _ in range(MOST_OPEN + 1):
        town.ask(PERSON)
    said = Page(town).said()
    assert (len(said["requests"]), said["summary"]["open"]) == (MOST_OPEN, MOST_OPEN + 1)


@pytest.mark.parametrize(("columns", "state"), [(("customer_id",), "held"), (("other",), "to do")])
def test_what_keys_say_is_taken_from_the_newest_run(
    tmp_path: Path, columns: tuple[str, ...], state: str
) -> None:
    town = shop(tmp_path)
    request = town.ask(PERSON).request
    step = Step(request=request.id, state="held", why="under the legal hold 'case-17'; wait")
    look = TableLook(table="orders", columns=columns, steps=(step,))
    run = Planned("scheduled__1", 7, {"orders": look})
    said = Page(town).said(run=run)
    (one,) = said["requests"]
    assert [each["state"] for each in one["tables"]] == ["to do", state]
    assert said["run"] == {"run_id": "scheduled__1", "now_ms": 7}


def test_what_was_erased_since_is_not_what_the_run_has_found(tmp_path: Path) -> None:
    town = shop(tmp_path)
    request = town.ask(PERSON).request
    step = Step(request=request.id, state="held", why="a hold")
    look = TableLook(table="orders", columns=("customer_id",), steps=(step,))
    town.run()
    said = Page(town).said(run=Planned("r", 7, {"orders": look}))
    assert [each["state"] for each in said["requests"][0]["tables"]] == ["waiting", "waiting"]


def test_a_bundle_is_a_zip_file_with_folders() -> None:
    files = {"request.json": b"{}", "orders/verify_table.py": b"pass"}
    with zipfile.ZipFile(io.BytesIO(zipped(files))) as found:
        assert {name: found.read(name) for name in found.namelist()} == files
