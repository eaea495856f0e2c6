"""Requests of erasure over several tables: one erase a table, and an end when all is certified."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from firnline.errors import (
    EnvironmentFaultError,
    SettingsError,
    StoreUnavailableError,
    UsageError,
)
from firnline.operations.erase.certificate import list_certificates, read
from firnline.operations.erasure.plan import ErasurePlan
from firnline.operations.erasure.run import (
    ErasureFailedError,
    batch_of,
    clock_text,
    look,
    look_at_tables,
    overdue_text,
    settle,
    withdraw,
)
from firnline.operations.hold.run import run_hold
from firnline.operations.operation import Work, decided
from firnline.operations.options import HoldOptions
from firnline.settings.broken import BrokenTable
from firnline.table import Table
from tests.support.people import DAY, RUN, look_of, shop
from tests.support.world import Crashed, Fault

HOUR = 3_600_000


def hold(table: Table, name: str, where: str) -> None:
    run_hold(Work(table, RUN, consent=decided), HoldOptions(name=name, where=where, why="a case"))


def state_of(plan: ErasurePlan, table: str, request: str) -> str:
    step = look_of(plan, table).step(request)
    return "unread" if step is None else step.state


def test_two_requests_are_one_erase_of_each_table(tmp_path: Path) -> None:
    town = shop(tmp_path)
    town.ask("customer_id,email\n1,p1@x.y\n")
    town.ask("customer_id,email\n2,p2@x.y\n5,p5@x.y\n")
    report = town.run()
    assert town.rows("orders", "n") == town.rows("mails", "n") == [0, 3, 4]
    assert [(e.table, e.keys, e.rows, len(e.requests)) for e in report.tables] == [
        ("mails", 3, 3, 2),
        ("orders", 3, 3, 2),
    ]
    assert (len(town.certificates("orders")), len(town.certificates("mails"))) == (2, 2)


def test_a_certificate_names_its_requests_and_no_key(tmp_path: Path) -> None:
    town = shop(tmp_path)
    taken = town.ask("customer_id,email\n1,p1@x.y\n")
    town.run()
    table = town.open("mails")
    (listed,) = list_certificates(table)
    certificate = read(table, table.paths.certificate(listed.id))
    assert certificate is not None
    assert [(e.id, e.digest) for e in certificate.requests] == [
        (taken.request.id, taken.request.digest)
    ]
    assert b"p1@x.y" not in msgspec.json.encode(certificate)


def test_what_is_erased_is_not_erased_again(tmp_path: Path) -> None:
    town = shop(tmp_path)
    town.ask("customer_id,email\n1,p1@x.y\n")
    town.run()
    again = town.run()
    assert (again.tables, again.open) == ((), 1)
    assert len(town.certificates("orders")) == 2


def test_a_request_is_closed_when_all_tables_are_certified_and_its_keys_are_gone(
    tmp_path: Path,
) -> None:
    town = shop(tmp_path)
    taken = town.ask("customer_id,email\n1,p1@x.y\n")
    assert town.run().closed == ()
    assert town.requests() == ["keys.csv", "request.json"]
    town.wait()
    report = town.run()
    assert (report.closed, report.open) == ((taken.request.id,), 0)
    assert town.requests() == ["closed.json", "request.json"]
    closed = town.folder.one(taken.request.id).closed
    assert closed is not None
    assert [each.table for each in closed.tables] == ["mails", "orders"]
    assert closed.unstated == ("weather",)
    assert all(each.sha256 for each in closed.tables)


def test_a_table_that_says_it_has_no_people_is_never_read(tmp_path: Path) -> None:
    town = shop(tmp_path)
    town.ask("customer_id,email\n1,p1@x.y\n")
    plan = town.look()
    assert [each.table for each in plan.tables] == ["mails", "orders"]
    assert plan.unstated == ("weather",)


def test_a_row_without_a_value_is_none_of_a_person_with_a_null(tmp_path: Path) -> None:
    town = shop(tmp_path)
    town.append("mails", email=[None, "p9@x.y"], n=[8, 9])
    town.ask("customer_id,email\n1,\n2,p2@x.y\n")
    town.run()
    assert town.rows("mails", "n") == [0, 1, 3, 4, 5, 8, 9]
    assert town.rows("orders", "n") == [0, 3, 4, 5]


def test_a_person_whom_no_row_of_the_file_names_in_a_table_is_done_there(tmp_path: Path) -> None:
    town = shop(tmp_path)
    town.tables["pairs"] = {"person": ["customer_id", "email"]}
    town.append("pairs", customer_id=[1], email=["p1@x.y"], n=[1])
    taken = town.ask("customer_id,email\n1,\n,p1@x.y\n")
    assert state_of(town.look(), "pairs", taken.request.id) == "no key"
    town.run()
    assert town.rows("pairs", "n") == [1]
    town.wait()
    assert town.run().closed == (taken.request.id,)


def test_a_legal_hold_keeps_one_request_and_not_the_others(tmp_path: Path) -> None:
    town = shop(tmp_path)
    hold(town.open("orders"), "case-1", "customer_id = 1")
    held = town.ask("customer_id,email\n1,p1@x.y\n").request.id
    free = town.ask("customer_id,email\n2,p2@x.y\n").request.id
    plan = town.look()
    assert state_of(plan, "orders", held) == "held"
    (why,) = next(each for each in plan.requests if each.request.id == held).why
    assert "case-1" in why
    assert why.endswith("`firnline hold orders` lists them")
    town.run()
    assert town.rows("orders", "n") == [0, 1, 3, 4, 5]
    assert town.rows("mails", "n") == [0, 3, 4, 5]
    town.wait()
    assert town.run().closed == (free,)
    assert [each.request.id for each in town.look().requests] == [held]


def test_keys_that_do_not_fit_a_table_hold_up_no_other_request(tmp_path: Path) -> None:
    town = shop(tmp_path)
    log = tmp_path / "orders/_log"
    log.rename(tmp_path / "away")  # otherwise the request would be refused
    bad = town.ask("customer_id,email\nnobody,p1@x.y\n").request.id
    (tmp_path / "away").rename(log)
    town.ask("customer_id,email\n2,p2@x.y\n")
    plan = town.look()
    assert state_of(plan, "orders", bad) == "refused"
    assert "nobody" not in str(plan.to_json())
    town.run()
    assert (town.rows("orders", "n"), town.rows("mails", "n")) == ([0, 1, 3, 4, 5], [0, 3, 4, 5])


def test_an_erase_that_is_run_again_rewrites_nothing_twice(tmp_path: Path) -> None:
    town = shop(tmp_path)
    request = town.ask("customer_id,email\n1,p1@x.y\n", without=("mails",)).request.id
    plan, _ = settle(town.people, RUN)
    options = batch_of(town.people, look_of(plan, "orders"), plan)
    first = town.erase(town.open("orders"), options)
    assert (first.parts_rewritten, first.counts.rows_deleted) == (1, 1)
    data = sorted((tmp_path / "orders/_data").rglob("*.parquet"))
    town.clock.advance(10)
    again = town.erase(town.open("orders"), options)  # Airflow's "Clear task"
    assert (again.parts_rewritten, again.counts.rows_deleted) == (0, 0)
    assert sorted((tmp_path / "orders/_data").rglob("*.parquet")) == data
    assert (town.look().nothing_to_do, town.rows("orders", "n")) == (True, [0, 2, 3, 4, 5])
    town.wait()
    assert town.run().closed == (request,)
    with pytest.raises(UsageError, match="it is closed"):
        town.erase(town.open("orders"), options)


def test_a_table_that_cannot_be_read_holds_up_no_other_and_keeps_the_request_open(
    tmp_path: Path,
) -> None:
    town = shop(tmp_path)
    town.ask("customer_id,email\n1,p1@x.y\n")
    log = tmp_path / "mails/_log"
    log.rename(tmp_path / "away")
    plan = town.look()
    assert look_of(plan, "mails").unread
    assert plan.requests[0].left == ("mails", "orders")
    town.run()
    assert town.rows("orders", "n") == [0, 2, 3, 4, 5]
    (tmp_path / "away").rename(log)
    town.wait()
    assert town.run().closed == ()
    assert town.rows("mails", "n") == [0, 2, 3, 4, 5]


def test_an_erase_that_fails_is_told_and_the_others_are_done(tmp_path: Path) -> None:
    town = shop(tmp_path)
    town.ask("customer_id,email\n1,p1@x.y\n")
    part = next((tmp_path / "mails/_data").rglob("*.parquet"))
    part.write_bytes(b"PAR1 and no more")
    with pytest.raises(ErasureFailedError, match="mails may hold rows of people still") as failed:
        town.run()
    assert [each.table for each in failed.value.report.tables if each.problem] == ["mails"]
    assert town.rows("orders", "n") == [0, 2, 3, 4, 5]
    # Its certificate names parts that were not read: the request waits for an erase of all.
    assert [each.table for each in town.look().batches] == ["mails"]


def test_a_table_whose_settings_break_or_vanish_keeps_its_requests_open(tmp_path: Path) -> None:
    town = shop(tmp_path)
    town.ask("customer_id,email\n1,p1@x.y\n")
    mails = town.tables.pop("mails")
    (found,) = town.look().requests
    assert found.left == ("mails", "orders")
    assert "bring it back" in found.why[0]
    town.run()
    town.wait()
    assert town.run().closed == ()
    town.tables["mails"] = mails
    broken = BrokenTable("mails", SettingsError("a typo", next_step="correct it"), {})
    settings = replace(town.settings, broken={"mails": broken})
    people = replace(town.people, settings=settings)
    _, closed = settle(people, RUN)
    assert closed == ()
    town.run()
    town.wait()
    assert len(town.run().closed) == 1
    assert town.rows("mails", "n") == [0, 2, 3, 4, 5]


def test_a_broken_table_that_no_request_knows_may_have_people_and_keeps_them_open(
    tmp_path: Path,
) -> None:
    town = shop(tmp_path)
    town.ask("customer_id,email\n1,p1@x.y\n")
    town.run()
    town.wait()
    broken = BrokenTable("new", SettingsError("a typo", next_step="correct it"), {})
    settings = replace(town.settings, broken={"new": broken})
    plan, closed = settle(replace(town.people, settings=settings), RUN)
    assert (closed, plan.requests[0].left) == ((), ("new",))
    assert len(town.run().closed) == 1


def test_an_erase_by_other_columns_than_those_of_a_person_now_does_not_count(
    tmp_path: Path,
) -> None:
    town = shop(tmp_path)
    town.append("orders", customer_id=[9], email=["p1@x.y"], n=[9])
    town.ask("customer_id,email\n1,p1@x.y\n")
    town.run()
    town.tables["orders"] = {"person": ["email"]}
    town.wait()
    assert town.run().closed == ()
    assert town.rows("orders", "n") == [0, 2, 3, 4, 5]


def test_a_table_that_was_left_out_need_not_be_there(tmp_path: Path) -> None:
    town = shop(tmp_path)
    town.tables["mails"] = {"person": ["email"], "root": "unused"}
    (tmp_path / "mails").rename(tmp_path / "away")
    town.tables["mails"].pop("root")
    taken = town.ask("customer_id\n1\n", without=("mails",)).request.id
    town.run()
    town.wait()
    assert town.run().closed == (taken,)


def test_parts_that_a_later_legal_hold_keeps_keep_the_certificate_open(tmp_path: Path) -> None:
    town = shop(tmp_path)
    town.ask("customer_id,email\n1,p1@x.y\n")
    town.run()
    hold(town.open("orders"), "late", "customer_id = 1")
    before = set((tmp_path / "orders/_data").rglob("*.parquet"))
    town.wait()
    report = town.run()
    assert report.closed == ()
    assert set((tmp_path / "orders/_data").rglob("*.parquet")) == before
    assert "orders: not certified yet" in report.waiting[0]


def test_a_withdrawn_request_is_not_carried_out_and_its_keys_go(tmp_path: Path) -> None:
    town = shop(tmp_path)
    taken = town.ask("customer_id,email\n1,p1@x.y\n")
    closed = withdraw(town.people, taken.request.id, "asked twice", RUN)
    assert closed.withdrawn == "asked twice"
    assert town.run().tables == ()
    assert town.requests() == ["closed.json", "request.json"]
    with pytest.raises(UsageError, match="is closed"):
        withdraw(town.people, taken.request.id, "again", RUN)


def test_nothing_is_withdrawn_without_a_reason(tmp_path: Path) -> None:
    town = shop(tmp_path)
    taken = town.ask("customer_id,email\n1,p1@x.y\n")
    with pytest.raises(UsageError, match="no reason"):
        withdraw(town.people, taken.request.id, " ", RUN)
    assert "keys.csv" in town.requests()


def test_the_clock_of_a_request(tmp_path: Path) -> None:
    town = shop(tmp_path)
    now = town.clock.now
    town.ask("customer_id,email\n1,p1@x.y\n", received_ms=now - 24 * DAY, reference="T-1")
    (early,) = town.look().requests
    assert (early.soon, early.overdue) == (True, False)
    town.clock.advance(7 * DAY)
    plan = town.look()
    assert (plan.requests[0].soon, plan.requests[0].overdue) == (False, True)
    assert overdue_text(plan.urgent, plan.now_ms) == (
        "1 request of erasure: T-1 is 1d overdue, 2 tables to go"
    )


def test_the_clock_in_words() -> None:
    assert clock_text(3 * DAY, DAY) == "due in 2d"
    assert clock_text(DAY, DAY + HOUR) == "1h overdue"


def test_looking_writes_nothing(tmp_path: Path) -> None:
    town = shop(tmp_path)
    town.ask("customer_id,email\n1,p1@x.y\n")
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
    town.look()
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == before


def test_without_an_open_request_no_table_is_read(tmp_path: Path) -> None:
    town = shop(tmp_path)
    town.calls.clear()
    assert town.look().tables == ()
    assert [call for call in town.calls if "requests" not in call and call != "get many"] == []


def test_a_store_that_is_silent_once_costs_a_run_and_nothing_more(tmp_path: Path) -> None:
    town = shop(tmp_path)
    taken = town.ask("customer_id,email\n1,p1@x.y\n")
    town.fault, town.calls = Fault(0, "lost"), []
    with pytest.raises(StoreUnavailableError):
        settle(town.people, RUN)
    town.fault = None
    town.run()
    town.wait()
    assert town.run().closed == (taken.request.id,)


@pytest.mark.long
@pytest.mark.parametrize("kind", ["before", "after"])
def test_a_run_that_dies_anywhere_is_gone_on_with(tmp_path: Path, kind: str) -> None:
    """At each store call of a run that erases, and of one that closes."""
    for waits in (False, True):
        at = 0
        while True:
            town = shop(tmp_path / f"{kind}-{waits}-{at}")
            taken = town.ask("customer_id,email\n1,p1@x.y\n")
            if waits:
                town.run()
                town.wait()
            town.fault, town.calls = Fault(at, kind), []
            try:
                town.run()
            except Crashed:
                died = True
            else:
                died = False
            town.fault = None
            town.run()
            assert town.rows("orders", "n") == town.rows("mails", "n") == [0, 2, 3, 4, 5], at
            for name in ("orders", "mails") * 3:  # what slept is told apart after a while
                town.wait()
                town.sweep(name)
                town.run()
            assert town.look().requests == (), at
            assert town.requests() == ["closed.json", "request.json"], at
            closed = town.folder.one(taken.request.id).closed
            assert closed is not None
            assert [each.table for each in closed.tables] == ["mails", "orders"], at
            if not died:
                break
            at += 3
        assert at > 20


def test_a_look_without_keys_reads_none_and_knows_the_certificates(tmp_path: Path) -> None:
    town = shop(tmp_path)
    done = town.ask("customer_id,email\n1,p1@x.y\n").request
    town.run()
    hold(town.open("orders"), "case", "customer_id = 2")
    todo = town.ask("customer_id,email\n2,p2@x.y\n").request
    people = town.people
    town.calls.clear()
    looks = look_at_tables(people, (done, todo), keys=False)
    assert [call for call in town.calls if ".keys." in call] == []
    states = {look.table: [step.state for step in look.steps] for look in looks}
    assert states == {name: ["waiting", "to do"] for name in ("mails", "orders")}
    assert [look.batch for look in looks] == [(), ()]
    with_keys = {look.table: look for look in look_at_tables(people, (done, todo))}
    assert [step.state for step in with_keys["orders"].steps] == ["waiting", "held"]


def test_a_table_that_cannot_be_opened_is_told_and_keeps_no_other_from_it(tmp_path: Path) -> None:
    town = shop(tmp_path)
    request = town.ask("customer_id,email\n1,p1@x.y\n").request
    people = town.people

    def opens(name: str) -> Table:
        if name == "mails":
            raise EnvironmentFaultError("there is no connection", next_step="create it")
        return town.open(name)

    plan = look(replace(people, opens=opens))
    assert [each.why for each in plan.requests] == [("mails: there is no connection; create it",)]
    assert [each.table for each in plan.batches] == ["orders"]
    assert [(each.table, each.state) for each in plan.requests[0].tables] == [
        ("mails", "unread"),
        ("orders", "to do"),
    ]
    assert not plan.requests[0].waiting
    assert request.id == plan.requests[0].request.id
