"""A walk in pictures: a merge, a removal, its restore and a backfill, as a person does them.

A real Airflow with its scheduler runs all of it; ``python -m demo.pictures --only walk`` takes the
pictures. Where a form of Airflow's is not the subject, a run is started through the API.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
from playwright.sync_api import Browser, Page, expect

from demo.camera import HIGH, WIDE, Camera
from demo.shown import STORE_AWAY, Shown, make_tables
from firnline.operations.pools import pools_json
from firnline.settings.load import load_settings
from tools.airflow_home import StackOptions
from tools.airflow_stack import AirflowStack
from tools.bootstrap import REPO
from tools.databases import temporary_server
from tools.postgres import Postgres

TABLE = "flights"
TABLES = (
    Shown(TABLE, 5, late=14, rows=3000),
    Shown("airports", 2),
    Shown("gates", 2, late=2),
)
HEALTH = f"dags/merge__{TABLE}/plugin/firnline-table"
REWRITE = f"rewrite_partitions__{TABLE}"
_DEFAULTS = (
    "defaults:",
    "  merge: {kernel_memory: 256MiB}",
    "  spark: {conf: {spark.ui.enabled: false, spark.driver.memory: 600m}}",
)
_SPARK = {"conn_type": "spark", "host": "local[1]", "extra": {"deploy-mode": "client"}}
_FORM_HIGH = 600
"""Pixels of a page below which nothing is to be seen."""
_WHOLE_FORM = 1900
"""Pixels that the form for backfills needs."""
_LONG_MS = 600_000
"""For what waits for tasks, on a busy machine."""


def stack_of_walk(home: Path, settings: Path, server: Postgres | None) -> AirflowStack:
    """Return an Airflow that shows these tables and runs what it is told to."""
    pools = home / "pools.json"
    pools.write_text(json.dumps(pools_json(load_settings(settings))), encoding="utf-8")
    options = StackOptions(
        pools=pools,
        connections={"spark_default": _SPARK},
        env={
            "FIRNLINE_TABLES": str(settings),
            "PYTHONPATH": f"{REPO}:{REPO / 'include'}",
            **STORE_AWAY,
        },
    )
    return AirflowStack(home / "airflow", options, server)


def token_of(stack: AirflowStack) -> str:
    """Return a token of its API."""
    answer = httpx.get(f"{stack.url}/auth/token", timeout=60).raise_for_status()
    return str(answer.json()["access_token"])


def wait_read(page: Page, tables: int) -> None:
    """Wait until the page of the fleet has read all tables, one of which is away."""
    page.get_by_test_id("table").nth(tables - 1).wait_for()
    page.get_by_text("cannot be read:").wait_for()
    expect(page.get_by_text("being read")).to_have_count(0, timeout=_LONG_MS)


@dataclass
class Walk:
    """One person's way through the pages."""

    camera: Camera
    stack: AirflowStack
    page: Page

    def notice_and_merge(self) -> None:
        """From the fleet to a merged table."""
        wait_read(self.page, len(TABLES) + 1)
        self.camera.save(self.page, "walk-1-fleet.png", _FORM_HIGH)
        begun = self.camera.clicks
        self.camera.click(self.page.get_by_role("link", name=TABLE, exact=True))
        merge = self.page.get_by_role("button", name="Merge now")
        merge.wait_for()
        heading = self.page.get_by_role("heading", name="The next runs")
        heading.evaluate("element => element.scrollIntoView({block: 'start'})")
        self.camera.save(self.page, "walk-2-table.png")
        self.camera.click(merge)
        self.page.wait_for_url(f"**/dags/merge__{TABLE}/runs/**")
        print(f"clicks from the fleet to a merge that runs: {self.camera.clicks - begun}")
        self.ended(f"merge__{TABLE}")
        self.history("merge", "walk-3-merged.png")

    def remove(self) -> None:
        """A partition that is removed."""
        dag_id = "remove_partitions"
        run = self.stack.api.trigger(dag_id, {"table": TABLE, "dry_run": False})
        self.ask(dag_id, run, "pick")
        self.page.get_by_role("combobox").last.click()
        self.page.get_by_role("option").nth(4).click()
        self.camera.save(self.page, "walk-4-pick.png")
        self.page.get_by_role("button", name="Respond").click()
        self.ask(dag_id, run, "approve")
        self.camera.save(self.page, "walk-5-approve.png", _FORM_HIGH)
        self.page.get_by_role("button", name="Approve").click()
        self.ended(dag_id)
        self.history("drop", "walk-6-removed.png")

    def restore(self) -> None:
        """Bring the removed partition back, from the timeline."""
        row = self.page.get_by_test_id("transaction").nth(1)
        row.get_by_role("button", name="Plan a restore to here").click()
        undo = self.page.get_by_test_id("restore").get_by_role("button", name="Undo transaction")
        undo.wait_for(timeout=_LONG_MS)
        self.camera.save(self.page, "walk-7-restore-plan.png", _FORM_HIGH)
        undo.click()
        self.page.wait_for_url("**/dags/restore/runs/**")
        self.ended("restore")
        self.history("restore", "walk-8-restored.png")

    def backfill(self, days: tuple[str, str]) -> None:
        """Rows are rewritten, a run for each day."""
        self.fill_form(days)
        form = self.page.get_by_role("dialog")
        form.get_by_role("button", name="Run Backfill").click()
        expect(form).to_have_count(0, timeout=_LONG_MS)
        self.page.set_viewport_size({"width": WIDE, "height": HIGH})
        self.ended(REWRITE)
        self.history("rewrite", "walk-10-rewritten.png")

    def fill_form(self, days: tuple[str, str]) -> None:
        """Fill Airflow's form for backfills."""
        self.camera.go(self.page, f"dags/{REWRITE}")
        self.page.get_by_test_id("trigger-dag-button").first.click()
        form = self.page.get_by_role("dialog")
        form.get_by_text("Backfill", exact=True).last.click()
        self.page.set_viewport_size({"width": WIDE, "height": _WHOLE_FORM})
        for at, day in enumerate(days):
            self.pick_date(at, day)
        form.get_by_text("All Runs", exact=True).click()
        form.get_by_text("Override parameters on existing runs").click()
        form.locator("[name=element_where]").fill("dep_delay > -60")
        form.locator("[name=element_dry_run]").locator("xpath=..").click()
        # How many runs there will be is asked of Airflow.
        form.get_by_text("runs will be triggered").wait_for()
        self.camera.save(self.page, "walk-9-backfill.png", _WHOLE_FORM)

    def pick_date(self, at: int, day: str) -> None:
        """Fill a date of the form, such as 2024/03/01."""
        self.page.get_by_test_id("datetime-input").nth(at).click()
        date = self.page.get_by_placeholder("YYYY/MM/DD").locator("visible=true")
        date.fill(day)
        date.press("Tab")
        time = self.page.get_by_placeholder("HH:mm").locator("visible=true")
        time.fill("00:00")
        time.press("Tab")
        self.page.get_by_text("Date Range", exact=True).click()

    # --- steps ------------------------------------------------------------------------------------

    def ask(self, dag_id: str, run: str, task: str) -> None:
        """Open the question of a task, once it waits."""
        path = f"dags/{dag_id}/runs/{run}/tasks/{task}"
        self.stack.api.wait_dag(dag_id)
        self._until(dag_id, run, lambda states: states.get(task) == "awaiting_input")
        self.camera.go(self.page, f"{path}/required_actions")
        self.page.get_by_text("Required Action (1)").wait_for()
        self.page.get_by_role("button", name="Respond").or_(
            self.page.get_by_role("button", name="Approve")
        ).first.wait_for()

    def _until(self, dag_id: str, run: str, holds: Callable[[dict[str, Any]], bool]) -> None:
        while not holds(self.stack.api.task_states(dag_id, run)):
            self.page.wait_for_timeout(1000)

    def ended(self, dag_id: str) -> str:
        """Wait for all runs of a DAG; return the id of the newest.

        Raises:
            RuntimeError: one of them has not succeeded.
        """
        runs = self.stack.api.runs(dag_id)
        for run in runs:
            state = self.stack.api.wait_run(dag_id, run["dag_run_id"])
            if state != "success":
                raise RuntimeError(f"run {run['dag_run_id']} of {dag_id} is {state}")
        return str(runs[-1]["dag_run_id"])

    def history(self, newest: str, name: str) -> None:
        """Take a picture of the transactions, once the newest is there."""
        self.camera.go(self.page, HEALTH)
        first = self.page.get_by_test_id("transaction").first
        expect(first).to_contain_text(newest, timeout=_LONG_MS)
        heading = self.page.get_by_role("heading", name="Transactions")
        heading.evaluate("element => element.scrollIntoView({block: 'start'})")
        self.camera.save(self.page, name)


def pictures_of_walk(launch: Callable[[], Browser], folder: Path) -> list[Path]:
    """Take the pictures of the walk; return their files."""
    with tempfile.TemporaryDirectory(prefix="lake-") as place:
        home = Path(place)
        settings = make_tables(home, TABLES, _DEFAULTS)
        with stack_of_walk(home, settings, temporary_server()) as stack:
            for dag_id in (f"merge__{TABLE}", "restore", "remove_partitions", REWRITE):
                stack.api.wait_dag(dag_id)
            camera = Camera(launch(), stack.url, token_of(stack), folder)
            take_walk(camera, stack)
            camera.browser.close()
    return camera.taken


def take_walk(camera: Camera, stack: AirflowStack) -> None:
    """Go the whole way."""
    walk = Walk(camera, stack, camera.open("plugin/firnline-tables"))
    walk.notice_and_merge()
    walk.remove()
    walk.restore()
    now = datetime.now(UTC)
    first, last = (f"{now - timedelta(days=ago):%Y/%m/%d}" for ago in (5, 4))
    walk.backfill((first, last))
