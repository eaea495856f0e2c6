"""The page in a browser: a fleet of a thousand tables."""

from __future__ import annotations

import json
import os
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from urllib.parse import quote

import pytest
from playwright.sync_api import Browser, Locator, Page, expect, sync_playwright

from firnline.clock import SystemClock
from firnline.ids import SystemIds
from firnline.kernel.local import LocalEngine
from firnline.log import codec
from firnline.log.records import LogContent, Marker
from firnline.log.txn_file import RunIdentity
from firnline.operations.drop.run import run_drop
from firnline.operations.erase.run import run_erase
from firnline.operations.hold.run import run_hold
from firnline.operations.merge.run import run_merge
from firnline.operations.operation import Work
from firnline.operations.options import (
    DropOptions,
    EraseOptions,
    HoldOptions,
    MergeOptions,
    RestoreOptions,
    RewriteOptions,
)
from firnline.operations.restore.run import run_restore
from firnline.operations.rewrite.prepare import run_prepare
from firnline.settings.load import settings_for_root
from firnline.store.client import open_store
from firnline.table import open_table
from firnline.units import DAY_MS
from tests.dags.filled import fill
from tests.dags.page_requests import KEY, ask_all
from tests.dags.page_server import SHARED, Server, serving
from tests.support.world import SetClock
from tools.airflow_api import wait_until
from tools.browser import find_program

TABLES, PARTITIONS = 1_000, 10_000
_MS = 300_000
"""For whatever is awaited. Playwright's own limit for what a page shows is 5 s."""

if find_program() is None:
    pytest.skip("no Chromium on this machine", allow_module_level=True)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        # Without its sandbox, which cannot be set up by root or in a container.
        found = playwright.chromium.launch(executable_path=find_program(), args=["--no-sandbox"])
        expect.set_options(timeout=_MS)
        yield found
        found.close()


@pytest.fixture(autouse=True)
def closed(browser: Browser) -> Iterator[None]:
    """A page that stays open asks and draws on, beside all later tests."""
    yield
    for context in browser.contexts:
        context.close()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    home = tmp_path_factory.mktemp("fleet")
    wide = wide_table(home)
    more = {f"t{n:04d}": f"file://{home}/t{n:04d}" for n in range(TABLES)}
    with serving(home, {**more, "wide": wide}) as found:
        yield found


def wide_table(home: Path) -> str:
    """The root of a table with many partitions, half of which have something to merge."""
    wide = f"file://{home}/wide"
    table = open_table(settings_for_root(wide))
    t = table.clock.now_ms() - 3_600_000
    markers = [
        Marker(p=table.paths.data_part(f"day={n}", f"{n:08d}-{k}"), b=1_000, t=t, n=10)
        for n in range(PARTITIONS)
        for k in range(4 if n % 2 else 1)
    ]
    content = LogContent(t=t, schema={"k": "BIGINT"}, markers=markers)
    key = table.paths.append_log(t, f"test-{SystemIds().uuid7(t)}")
    table.store.put_new(key, codec.encode(content))
    return wide


def lived_table(home: Path) -> str:
    """The root of a table that was merged, lost a partition and got it back."""
    root = f"file://{home}/lived"
    table = open_table(settings_for_root(root))
    fill(table, 5)
    run = RunIdentity(dag_id="merge__lived", run_id="manual__1", user="carol")
    store = partial(open_store, root)
    engine = LocalEngine(store, home / "scratch", SystemIds(), SystemClock())
    run_merge(Work(table, run, lambda: engine), MergeOptions())
    run_drop(Work(table, run), DropOptions(partitions=("day=a",)))
    run_restore(Work(table, run), RestoreOptions(to=1))
    return root


def erased_table(home: Path) -> str:
    """The root of a table from which keys were erased a month ago."""
    root = f"file://{home}/erased"
    past = SetClock(SystemClock().now_ms() - 30 * DAY_MS)
    table = replace(open_table(settings_for_root(root)), clock=past)
    fill(table, 2)
    engine = LocalEngine(partial(open_store, root), home / "scratch", SystemIds(), SystemClock())
    run = RunIdentity(dag_id="erase", run_id="manual__1", user="carol", approved_by="bo")
    run_erase(Work(table, run, lambda: engine), EraseOptions(columns=("k",), keys=((7,), (9,))))
    for file in (home / "erased").rglob("*"):
        os.utime(file, (past.now / 1000, past.now / 1000))
    return root


def held_table(home: Path) -> str:
    """The root of a table that was merged a week ago, with legal holds."""
    root = f"file://{home}/held"
    past = SetClock(SystemClock().now_ms() - 7 * DAY_MS)
    table = replace(open_table(settings_for_root(root)), clock=past)
    fill(table, 5)
    run = RunIdentity(dag_id="merge", run_id="manual__1", user="carol")
    store = partial(open_store, root)
    engine = LocalEngine(store, home / "scratch", SystemIds(), SystemClock())
    run_merge(Work(table, run, lambda: engine), MergeOptions())
    by_row = HoldOptions(name="case-17", where="k = 7", why="Miller v. Acme", by="bo")
    run_hold(Work(table, run), by_row)
    run_hold(Work(table, run), HoldOptions(name="audit", partitions=("day=a",), why="tax audit"))
    return root


def page_of(browser: Browser, url: str, path: str, token: str | None = None) -> Page:
    context = browser.new_context(viewport={"width": 1400, "height": 900})
    context.set_default_timeout(_MS)
    if token is not None:
        context.add_cookies([{"name": "_token", "value": token, "url": url}])
    page = context.new_page()
    page.goto(f"{url}/{path}")
    return page


def table_page(browser: Browser, server: Server, name: str, user: str, query: str = "") -> Page:
    """Open the page of one table as a user."""
    dag = "merge" if name in SHARED else f"merge__{name}"
    assert wait_until(lambda: server.has_dag(dag))
    named = f"?table={name}" if name in SHARED else query
    path = f"dags/{dag}/plugin/firnline-table{named}"
    return page_of(browser, server.url, path, server.token(user))


def test_a_thousand_tables_are_shown_sorted_and_searched(browser: Browser, server: Server) -> None:
    page = page_of(browser, server.url, "plugin/firnline-tables", server.token("root"))
    rows = page.get_by_test_id("table")
    expect(rows).to_have_count(TABLES + 4)
    # The worst first: nothing is known of the one whose store does not answer.
    expect(rows.first).to_contain_text("silent")
    page.get_by_label("Search tables").fill("t0500")
    expect(rows).to_have_count(1)
    expect(rows.first).to_contain_text("t0500")
    page.get_by_label("Search tables").fill("")
    page.get_by_role("button", name="Parts", exact=True).click()
    expect(rows.first).to_contain_text("wide")


def test_a_user_sees_only_the_own_tables(browser: Browser, server: Server) -> None:
    page = page_of(browser, server.url, "plugin/firnline-tables", server.token("ana"))
    rows = page.get_by_test_id("table")
    expect(rows).to_have_count(1)
    expect(rows.first).to_contain_text("ana")
    expect(rows.first.get_by_test_id("score")).not_to_have_text("…")


@pytest.fixture(scope="module")
def single(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server that knows the DAG of the wide table."""
    home = tmp_path_factory.mktemp("single")
    tables = {"wide": wide_table(home), "lived": lived_table(home), "erased": erased_table(home)}
    tables["held"] = held_table(home)
    tables |= ask_all(home)
    with serving(home, tables, dags=True, runs=True, people=("asked", "lost")) as found:
        yield found


def test_ten_thousand_partitions_are_a_map_and_each_says_what_waits(
    browser: Browser, single: Server
) -> None:
    page = table_page(browser, single, "wide", "root")
    cells = page.get_by_test_id("partition")
    expect(cells).to_have_count(PARTITIONS)
    cells.nth(0).click()
    picked = page.get_by_test_id("picked")
    expect(picked).to_contain_text("day=0")
    expect(picked).to_contain_text("1 part, 10 rows")
    expect(picked).to_contain_text("1 part left alone: waits until 4 parts of about its size")
    # By keyboard, and without colours.
    page.get_by_role("listbox", name="Partitions").press("ArrowRight")
    expect(picked).to_contain_text("day=1")
    expect(picked).to_contain_text("4 to merge")
    expect(cells.nth(0)).to_have_text("")
    expect(cells.nth(1)).to_have_text("4")
    page.get_by_role("listbox", name="Partitions").press("End")
    expect(cells.nth(PARTITIONS - 1)).to_be_in_viewport()


def test_appends_that_no_transaction_has_taken_in_yet_are_told_by_their_writer(
    browser: Browser, single: Server
) -> None:
    page = table_page(browser, single, "wide", "root")
    expect(page.get_by_test_id("not-taken-in")).to_have_text(
        "In none of them yet: test: 1 append, 250,000 rows"
    )


def test_the_tables_lead_to_their_pages_with_dags_of_their_own_or_without(
    browser: Browser, single: Server
) -> None:
    for name, address in (("wide", "merge/plugin/*table=wide"), ("lived", "merge__lived/plugin/*")):
        page = page_of(browser, single.url, "plugin/firnline-tables", single.token("root"))
        page.get_by_role("link", name=name, exact=True).click()
        page.wait_for_url(f"**/dags/{address}")
        expect(page.get_by_role("heading", name=name, exact=True)).to_be_visible()


@pytest.mark.turn("transactions on the page")
def test_the_history_says_what_was_undone_by_whom_and_what_merges_saved(
    browser: Browser, single: Server
) -> None:
    page = table_page(browser, single, "lived", "root")
    transactions = page.get_by_test_id("transaction")
    expect(transactions).to_have_count(3)
    expect(transactions.nth(1)).to_contain_text("drop")
    expect(transactions.nth(1)).to_contain_text("undone by 3")
    expect(transactions.nth(2)).to_contain_text("carol")
    expect(transactions.nth(2).get_by_test_id("took-in")).to_have_text(
        "took in test: 5 appends, 500 rows"
    )
    expect(transactions.nth(2).get_by_test_id("undone")).to_have_count(0)
    link = transactions.nth(2).get_by_role("link", name="merge")
    expect(link).to_have_attribute("href", "/dags/merge__lived/runs/manual__1")
    saved = page.get_by_test_id("savings").get_by_role("img").first
    expect(saved).to_have_accessible_name("Requests less for each scan, by merges: 8")


def test_legal_holds_are_marked_and_shown_without_values(browser: Browser, single: Server) -> None:
    page = page_of(browser, single.url, "plugin/firnline-tables", single.token("root"))
    expect(page.get_by_test_id("held").filter(has_text="2 legal holds")).to_have_count(1)
    shot(page, "held-fleet")
    page = table_page(browser, single, "held", "root")
    expect(page.get_by_test_id("held")).to_have_text("2 legal holds")
    holds = page.get_by_test_id("hold")
    expect(holds).to_have_count(2)
    expect(holds.nth(0)).to_contain_text("case-17")
    expect(holds.nth(0)).to_contain_text("k = …")
    expect(holds.nth(0)).to_contain_text("Miller v. Acme")
    expect(holds.nth(1)).to_contain_text("all rows in 1 partition (day=a)")
    expect(holds.nth(1)).to_contain_text("carol")
    holds.nth(0).scroll_into_view_if_needed()
    shot(page, "holds")


def test_the_money_of_maintenance_is_told_with_its_prices(browser: Browser, single: Server) -> None:
    page = table_page(browser, single, "held", "root")
    money = page.get_by_test_id("money")
    expect(money).to_contain_text("Maintenance has spent below 0.001 USD on requests")
    expect(money).to_contain_text("in 1 transaction")
    expect(money).to_contain_text("sent 8 GET requests fewer than without the merges of this time")
    expect(money).to_contain_text("0.003 USD with every 1,000 scans of the whole table")
    expect(money).to_contain_text("Prices: 0.005 USD for 1,000 PUT or LIST, 0.0004 USD for 1,000")
    expect(money).to_contain_text("Not counted: storage, traffic and CPU;")
    money.scroll_into_view_if_needed()
    shot(page, "money")


@pytest.mark.turn("an action of the page")
def test_an_action_starts_a_run_as_the_user_and_leads_to_it(
    browser: Browser, single: Server
) -> None:
    page = table_page(browser, single, "wide", "root")
    page.get_by_role("button", name="Plan a merge").click()
    page.wait_for_url("**/dags/merge/runs/**")
    (run,) = single.runs("merge")
    assert run["conf"] == {"table": "wide", "dry_run": True}
    assert run["triggering_user_name"] == "root"


def test_an_action_that_the_user_may_not_take_says_so(browser: Browser, single: Server) -> None:
    page = table_page(browser, single, "ana", "ana")
    page.get_by_role("button", name="Merge now").click()
    expect(page.get_by_text("You may not start runs of merge__ana")).to_be_visible()
    assert single.runs("merge__ana") == []
    # A table has buttons for the operations that it has.
    expect(page.get_by_role("button", name="Verify now")).to_have_count(0)


def lived(browser: Browser, single: Server, asked: str = "") -> Page:
    """Open the page of the table ``lived``."""
    assert wait_until(lambda: single.has_dag("restore"))
    return table_page(browser, single, "lived", "root", asked)


@pytest.mark.turn("transactions on the page")
def test_a_link_to_a_run_shows_its_transactions_among_the_others(
    browser: Browser, single: Server
) -> None:
    page = lived(browser, single, "?dag=merge__lived&run=manual__1")
    expect(page.get_by_test_id("named")).to_contain_text("made transactions 1, 2 and 3")
    marked = marked_in(page)
    expect(marked).to_have_count(3)
    expect(marked.first).to_be_in_viewport()
    shot(page, "highlight")
    page = lived(browser, single, "?dag=restore&run=manual__1")
    expect(page.get_by_test_id("named")).to_contain_text("made none of them")
    expect(marked_in(page)).to_have_count(0)


def marked_in(page: Page) -> Locator:
    return page.locator("[data-testid=transaction][aria-current=true]")


@pytest.mark.turn("an action of the page")
def test_a_clean_up_is_planned(browser: Browser, single: Server) -> None:
    page = lived(browser, single)
    page.get_by_role("button", name="Plan a clean-up").click()
    page.wait_for_url("**/dags/tombstone_cleanup__lived/runs/**")
    (run,) = single.runs("tombstone_cleanup__lived")
    assert run["conf"] == {"dry_run": True}


@pytest.mark.turn("an action of the page")
def test_a_rewrite_of_a_partition_is_planned_with_a_condition(
    browser: Browser, single: Server
) -> None:
    page = lived(browser, single)
    page.get_by_test_id("partition").first.click()
    plan = page.get_by_role("button", name="Plan its rewrite")
    expect(plan).to_be_disabled()
    page.get_by_label("Rows that stay").fill("k is not null")
    plan.click()
    page.wait_for_url("**/dags/rewrite_partitions__lived/runs/**")
    (run,) = single.runs("rewrite_partitions__lived")
    assert run["conf"] == {"partitions": ["day=a"], "where": "k is not null", "dry_run": True}


@pytest.mark.turn("an action of the page")
def test_what_needs_keys_or_a_condition_leads_to_the_form_of_its_dag(
    browser: Browser, single: Server
) -> None:
    page = lived(browser, single)
    link = page.get_by_role("link", name="Delete rows by a condition")
    expect(link).to_have_attribute("href", "/dags/delete_where")
    page.get_by_role("link", name="Erase the rows of keys").click()
    page.wait_for_url("**/dags/erase")
    expect(page.get_by_role("button", name="Trigger")).to_be_visible()


@pytest.mark.turn("an action of the page that waits for its run")
def test_a_removal_leads_to_the_question_of_its_run(browser: Browser, single: Server) -> None:
    assert wait_until(lambda: single.has_dag("remove_partitions"))
    page = lived(browser, single)
    page.get_by_test_id("partition").first.click()
    page.get_by_role("button", name="Remove it").click()
    page.wait_for_url("**/dags/remove_partitions/runs/*/required_actions")
    expect(page.get_by_text("Pick partitions to remove of table lived")).to_be_visible()
    shot(page, "remove")
    (run,) = single.runs("remove_partitions")
    assert run["conf"] == {"table": "lived", "partitions": ["day=a"], "dry_run": False}


@pytest.mark.turn("an action of the page that waits for its run")
def test_an_erase_ends_with_a_clean_up_whose_note_and_the_page_say_so(
    browser: Browser, single: Server
) -> None:
    assert wait_until(lambda: single.has_dag("tombstone_cleanup__erased"))
    page = table_page(browser, single, "erased", "root")
    certificate = page.get_by_test_id("certificate")
    expect(certificate).to_contain_text("2 of k")
    expect(certificate).to_contain_text("by carol, approved by bo")
    expect(certificate).to_contain_text("the next clean-up tries it")
    erase = certificate.get_by_role("code").inner_text()
    run = single.start("tombstone_cleanup__erased", {"dry_run": False})
    assert wait_until(lambda: single.run_state(*run) in {"success", "failed"})
    ended = single.run(*run)
    assert ended["state"] == "success"
    assert f"the certificate {erase} of the erase of 2 keys on " in ended["note"]
    assert ended["note"].endswith(" UTC is complete.")
    # A run with nothing to do any more skips what follows its plan.
    again = single.start("tombstone_cleanup__erased", {"dry_run": False})
    assert wait_until(lambda: single.run_state(*again) in {"success", "failed"})
    assert single.run(*again)["note"] == "firnline: nothing to do."
    page.reload()
    expect(certificate).to_contain_text("complete")
    expect(certificate.get_by_role("link", name="last try")).to_have_attribute(
        "href", f"/dags/tombstone_cleanup__erased/runs/{quote(run[1], safe='')}"
    )
    certificate.scroll_into_view_if_needed()
    shot(page, "erases")
    with page.expect_download() as download:
        certificate.get_by_role("link", name="JSON").click()
    handed = json.loads(Path(download.value.path()).read_bytes())
    assert (handed["id"], handed["status"]) == (erase, "complete")


def prepare(home: Path, root: str, run: RunIdentity) -> None:
    """Prepare a rewrite as the job of a run does."""
    table = open_table(settings_for_root(root))
    engine = LocalEngine(partial(open_store, root), home / "scratch", SystemIds(), SystemClock())
    options = RewriteOptions(prepare=True, sql=QUERY, samples=2, assertions=(HOLDS,))
    run_prepare(Work(table, run, lambda: engine), options)


QUERY = "select * replace (if(k < 10, k, -k) as k) from _rows where k > 1"
HOLDS = "select count(*) > 0 from after"


def test_a_prepared_rewrite_is_shown_and_leads_to_its_question_where_it_is_rejected(
    browser: Browser, single: Server, tmp_path: Path
) -> None:
    assert wait_until(lambda: single.has_dag("rewrite_partitions__lived"))
    dag, run = "rewrite_partitions__lived", "manual__asked"
    table = open_table(settings_for_root(single.roots["lived"]))
    before = {meta.key for meta in table.store.list(table.paths.data_dir)}
    prepare(tmp_path, single.roots["lived"], RunIdentity(dag_id=dag, run_id=run, user="carol"))
    single.ask_about_what_is_prepared(dag, run, QUERY)
    page = lived(browser, single)
    section = page.get_by_test_id("prepared")
    expect(section).to_contain_text("Rewrite by the query select * replace")
    expect(section).to_contain_text("by carol, as of transaction 3: 2 new parts")
    expect(section.get_by_role("row").nth(1)).to_have_text("day=a250 → 248242240")
    expect(section.get_by_role("row").nth(3)).to_have_text("2 partitions500 → 496484480")
    expect(section).to_contain_text("No key matches rows")
    expect(section).to_contain_text(f"Holds: {HOLDS}")
    section.scroll_into_view_if_needed()
    shot(page, "prepared")
    section.get_by_role("link", name="Approve or reject it").click()
    page.wait_for_url(f"**/dags/{dag}/runs/{run}/required_actions")
    question = page.get_by_text("Rewrite rows (484 removed, 480 added) of table lived?")
    expect(question).to_be_visible()
    shot(page, "question")
    page.get_by_role("button", name="Reject").click()
    assert wait_until(lambda: single.run_state(dag, run) == "success")
    page = lived(browser, single)
    expect(page.get_by_test_id("transaction")).to_have_count(3)
    expect(page.get_by_test_id("prepared")).to_have_count(0)
    assert {meta.key for meta in table.store.list(table.paths.data_dir)} == before


# Its run commits at some time after the test: no test of the table's transactions comes later.
@pytest.mark.turn("an action of the page that waits for its run")
def test_a_restore_is_done_only_after_its_plan_was_shown(browser: Browser, single: Server) -> None:
    page = lived(browser, single)
    single.pause("restore", paused=True)
    page.get_by_test_id("transaction").nth(2).get_by_role("button").click()
    panel = page.get_by_test_id("restore")
    expect(panel).to_contain_text("The DAG restore is paused")
    single.pause("restore", paused=False)
    expect(panel).to_contain_text("it would undo transactions 2 and 3 in")
    shot(page, "restore")
    assert [run["conf"]["dry_run"] for run in single.runs("restore")] == [True]
    (planned,) = single.runs("restore")
    # What people wrote stays; the sentence of the run comes below it.
    page_wrote, sentence = planned["note"].split("\n\n")
    assert page_wrote == "started from the page of the table"
    assert sentence.startswith("firnline: dry run, nothing done: lived would go back to trans")
    panel.get_by_role("button", name="Undo transactions 2 and 3 of lived").click()
    page.wait_for_url("**/dags/restore/runs/**")
    confs = [run["conf"] for run in single.runs("restore")]
    what = {"table": "lived", "to": 1, "partitions": ["*"]}
    assert confs == [{**what, "dry_run": True}, {**what, "newest": 3, "dry_run": False}]


def test_the_tab_of_a_dag_for_all_tables_says_which_there_are(
    browser: Browser, single: Server
) -> None:
    assert wait_until(lambda: single.has_dag("restore"))
    path = "dags/restore/plugin/firnline-table"
    page = page_of(browser, single.url, path, single.token("root"))
    expect(page.get_by_test_id("no-table")).to_contain_text("each of its runs names one")
    expect(page.get_by_test_id("table")).to_have_count(9)
    shot(page, "no-table")
    page.get_by_role("link", name="lived").click()
    page.wait_for_url("**/dags/merge__lived/plugin/firnline-table")


def erasures(browser: Browser, single: Server) -> Page:
    """Open the requests of erasure."""
    assert wait_until(lambda: single.has_dag("erase_person"))
    path = "plugin/firnline-tables?view=erasures"
    return page_of(browser, single.url, path, single.token("root"))


def test_requests_of_erasure_are_shown_by_urgency_with_what_tables_have_reached(
    browser: Browser, single: Server
) -> None:
    page = page_of(browser, single.url, "plugin/firnline-tables", single.token("root"))
    expect(page.get_by_test_id("pressing")).to_have_text("1 overdue")
    shot(page, "erasures-tab")
    page.get_by_role("tab", name="Erasure requests").click()
    page.wait_for_url("**/plugin/firnline-tables?view=erasures")
    asked = page.get_by_test_id("erasure")
    expect(asked).to_have_count(3)
    late, soon, gone = (asked.nth(n) for n in range(3))
    expect(late).to_contain_text("T-1")
    expect(late).to_contain_text("10d 12h overdue")
    expect(late).to_contain_text("erased from 1 of 2 tables, certified in 0")
    expect(late).to_contain_text("taken by carol, 1 key of k")
    reached = late.get_by_test_id("reached")
    expect(reached.nth(0)).to_have_text("cannot be readlost")
    expect(page.get_by_test_id("away")).to_contain_text("lost: there is no table at")
    expect(reached.nth(1)).to_contain_text("erasedasked (certificate): certified from")
    expect(soon).to_contain_text("due in 3d")
    expect(soon.get_by_test_id("reached").nth(1)).to_have_text("to be erasedasked")
    expect(gone.get_by_test_id("reached").nth(0)).to_contain_text("moved: it was taken for this")
    assert f">{KEY}<" not in page.content()
    late.get_by_role("link", name="asked").click()
    page.wait_for_url("**/dags/merge__asked/plugin/firnline-table")


def test_closed_requests_hand_out_certificates_and_bundles(
    browser: Browser, single: Server
) -> None:
    page = erasures(browser, single)
    closed = page.get_by_test_id("closed")
    expect(closed).to_have_count(2)
    done, withdrawn = closed.nth(0), closed.nth(1)
    expect(done).to_contain_text("T-4donelate")
    expect(withdrawn).to_contain_text("T-5withdrawn")
    expect(withdrawn).to_contain_text("Why: asked twice")
    expect(withdrawn.get_by_role("link")).to_have_count(0)
    for width in (1400, 480):
        page.set_viewport_size({"width": width, "height": 900})
        page.get_by_role("tab").first.scroll_into_view_if_needed()
        shot(page, f"erasures-{width}")
        withdrawn.scroll_into_view_if_needed()
        shot(page, f"erasures-closed-{width}")
    with page.expect_download() as download:
        done.get_by_role("link", name="certificate").click()
    assert json.loads(Path(download.value.path()).read_bytes())["table"] == "asked"
    with page.expect_download() as download:
        done.get_by_role("link", name="bundle").click()
    with zipfile.ZipFile(Path(download.value.path())) as bundle:
        names = set(bundle.namelist())
    assert {"request.json", "closed.json", "outside.txt", "asked/verify_table.py"} <= names


NONE = {"open": 0, "overdue": 0, "soon": 0, "closed": 0, "unread": 0, "problem": ""}
AWAY = {**dict.fromkeys(NONE), "problem": "access is denied; allow it"}


@pytest.mark.parametrize(
    ("name", "changed", "said"),
    [
        ("empty", {"requests": [], "closed": [], "summary": NONE}, "No request is open."),
        (
            "first",
            {"requests": None, "closed": None, "summary": {**AWAY, "problem": ""}},
            "Reading",
        ),
        (
            "away",
            {"requests": None, "closed": None, "summary": AWAY, "age_ms": None},
            "/requests cannot be read: access is denied; allow it.",
        ),
        (
            "old",
            {"summary": {**NONE, "open": 3, "problem": "away; wait"}, "age_ms": 7_200_000},
            "cannot be read: away; wait. What is shown is 2 h old.",
        ),
        ("silent", {"waiting_ms": 60_000}, "has not answered for 1 min."),
        ("unread", {"unread": ["x.request.json does not read"]}, "A request does not read: x."),
        ("people", {"people": 0}, "no table of the settings names the columns of a person"),
    ],
)
def test_what_is_missing_of_the_requests_is_said(
    browser: Browser, single: Server, name: str, changed: dict[str, object], said: str
) -> None:
    assert wait_until(lambda: single.get("/api/erasures", "root").json()["tables_age_ms"])
    answer = {**single.get("/api/erasures", "root").json(), "away": [], **changed}
    page = page_of(browser, single.url, "", single.token("root"))
    page.route("**/firnline/api/erasures", lambda route: route.fulfill(json=answer))
    page.goto(f"{single.url}/plugin/firnline-tables?view=erasures")
    expect(page.get_by_test_id("erasures")).to_contain_text(said)
    shot(page, f"erasures-{name}")


def test_the_tab_of_the_dag_that_erases_people_shows_the_requests(
    browser: Browser, single: Server
) -> None:
    assert wait_until(lambda: single.has_dag("erase_person"))
    path = "dags/erase_person/plugin/firnline-table"
    page = page_of(browser, single.url, path, single.token("root"))
    expect(page.get_by_test_id("erasure")).to_have_count(3)
    shot(page, "erasures-dag")


@pytest.mark.turn("an action of the page that waits for its run")
def test_what_only_keys_tell_is_known_from_the_newest_run(browser: Browser, single: Server) -> None:
    page = erasures(browser, single)
    single.pause("erase_person", paused=False)
    page.get_by_role("button", name="Plan a run").click()
    page.wait_for_url("**/dags/erase_person/runs/**")
    (run,) = (each for each in single.runs("erase_person") if each["run_type"] == "manual")
    ran = ("erase_person", str(run["dag_run_id"]))
    assert wait_until(lambda: single.run_state(*ran) in {"success", "failed"})
    assert single.run_state(*ran) == "success"
    single.pause("erase_person", paused=True)
    page = erasures(browser, single)
    reached = page.get_by_test_id("erasure").nth(1).get_by_test_id("reached")
    expect(reached.nth(1)).to_contain_text("legal holdasked: 1 key of 1 is under the legal hold")
    expect(page.get_by_role("link", name="the newest run")).to_be_visible()
    shot(page, "erasures-held")


def test_who_may_not_read_the_dag_that_erases_people_sees_no_request(
    browser: Browser, single: Server
) -> None:
    page = page_of(browser, single.url, "plugin/firnline-tables", single.token("ana"))
    expect(page.get_by_test_id("table")).to_have_count(1)
    expect(page.get_by_role("tab")).to_have_count(0)
    path = "plugin/firnline-tables?view=erasures"
    page = page_of(browser, single.url, path, single.token("ana"))
    expect(page.get_by_text("you may not read the DAG erase_person")).to_be_visible()
    expect(page.get_by_test_id("erasure")).to_have_count(0)


def test_without_a_folder_of_requests_there_is_nothing_to_choose(
    browser: Browser, server: Server
) -> None:
    page = page_of(browser, server.url, "plugin/firnline-tables", server.token("root"))
    expect(page.get_by_test_id("table").first).to_be_visible()
    expect(page.get_by_role("tab")).to_have_count(0)
    path = "plugin/firnline-tables?view=erasures"
    page = page_of(browser, server.url, path, server.token("root"))
    expect(page.get_by_test_id("no-erasures")).to_contain_text("No requests of erasure are taken")
    shot(page, "erasures-none")


def shot(page: Page, name: str) -> None:
    """A picture of the page, light and dark, where PAGE_SHOTS names a folder."""
    folder = os.environ.get("PAGE_SHOTS")
    if folder:
        for theme in ("light", "dark"):
            page.evaluate(
                "theme => { document.documentElement.classList.remove('light', 'dark');"
                " document.documentElement.classList.add(theme) }",
                theme,
            )
            page.screenshot(path=f"{folder}/{name}-{theme}.png")
