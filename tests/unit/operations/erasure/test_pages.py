"""The pages of requests say what waits, until when, and what nobody has looked at."""

from __future__ import annotations

from pathlib import Path

from firnline.operations.erasure.pages import plan_page, report_page, taken_page
from firnline.operations.hold.run import run_hold
from firnline.operations.operation import Work, decided
from firnline.operations.options import HoldOptions
from tests.support.people import DAY, RUN, shop


def text(page: object) -> str:
    return "\n".join(page.lines())  # type: ignore[attr-defined]


def test_a_request_that_was_taken(tmp_path: Path) -> None:
    page = taken_page(shop(tmp_path).ask("customer_id,email\n1,p1@x.y\n").to_json())
    assert "firnline erasure run" in text(page)
    assert "weather" in text(page)
    assert page.sentence.endswith("was taken")


def test_what_waits(tmp_path: Path) -> None:
    town = shop(tmp_path)
    town.ask("customer_id,email\n1,p1@x.y\n", reference="T-1")
    page = plan_page(town.look().to_json())
    assert "request T-1" in text(page)
    assert "due in 30d" in text(page)
    assert page.sentence.startswith("1 request open. A run would erase from 2 tables")


def test_what_is_erased_and_not_certified(tmp_path: Path) -> None:
    town = shop(tmp_path)
    town.ask("customer_id,email\n1,p1@x.y\n", reference="T-1")
    report = report_page(town.run().to_json())
    assert report.sentence == "2 rows erased from 2 tables, 0 requests closed, 1 request open"
    page = plan_page(town.look().to_json())
    assert "T-1: certified from 20" in text(page)
    assert page.sentence.endswith("A run would erase nothing")


def test_no_time_of_certificates_is_told_while_a_table_is_not_erased(tmp_path: Path) -> None:
    town = shop(tmp_path)
    hold = HoldOptions(name="case-17", where="email = 'p1@x.y'", why="a case")
    run_hold(Work(town.open("mails"), RUN, consent=decided), hold)
    town.ask("customer_id,email\n1,p1@x.y\n", reference="T-1")
    town.run()
    said = text(plan_page(town.look().to_json()))
    assert "T-1, mails: " in said
    assert "certified from" not in said


def test_no_request(tmp_path: Path) -> None:
    page = plan_page(shop(tmp_path).look().to_json())
    assert page.sentence == "No request is open; 0 are closed"


def test_what_is_overdue(tmp_path: Path) -> None:
    town = shop(tmp_path)
    taken = town.ask("customer_id,email\n1,p1@x.y\n", received_ms=town.clock.now - 40 * DAY)
    assert f"Overdue: {taken.request.id}" in text(report_page(town.run().to_json()))
