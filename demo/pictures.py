"""Pictures of the page for README and docs, taken in a browser from a real API server.

    python -m demo.pictures [FOLDER]     into docs/img; a browser is installed where there is none

The tables are real and have lived for some days (``demo.lived``). No scheduler runs: two runs of
DAGs are given their states by hand, so that the pictures show a check and a lock.
"""

from __future__ import annotations

import sqlite3
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
from playwright.sync_api import Browser, Page, sync_playwright

from demo.lived import DAY_MS, HOUR_MS, Past, SetClock
from firnline.clock import SystemClock
from firnline.settings.load import load_settings
from firnline.state.snapshot import read_snapshot
from tools.airflow_home import StackOptions
from tools.airflow_stack import AirflowStack
from tools.bootstrap import REPO
from tools.browser import install

MAX_BYTES = 200_000
"""Of a picture: they are part of the repository."""
_WIDE, _HIGH = 1440, 900
_MS = 120_000
_SETTINGS = "partition_by: [day(ts)], sort_by: [carrier]"


@dataclass(frozen=True)
class Shown:
    """A table of the pictures, and how its last days went."""

    name: str
    days: int
    merged: bool = True
    cleaned: bool = True
    late: int = 0
    """Appends since the last merge."""
    rows: int = 100


TABLES = (
    Shown("flights", 9, late=14, rows=3000),
    Shown("airports", 2),
    Shown("bookings", 3, late=2),
    Shown("clicks", 4, merged=False),
    Shown("crews", 1),
    Shown("gates", 2, late=6),
    Shown("luggage", 3, cleaned=False),
    Shown("payments", 3, late=1),
    Shown("weather", 2, late=3),
)


def make_tables(home: Path) -> Path:
    """Make all tables in a folder; return the settings file."""
    lines = [f"  {t.name}: {{root: 'file://{home}/{t.name}', {_SETTINGS}}}" for t in TABLES]
    # Nobody listens on this port: what a store looks like that is away.
    lines.append(f"  sensors: {{root: 's3://sensors/raw', {_SETTINGS}}}")
    settings = home / "tables.yaml"
    settings.write_text("\n".join(["tables:", *lines]), encoding="utf-8")
    for shown, table in zip(TABLES, load_settings(settings).tables.values(), strict=False):
        begin = SystemClock().now_ms() - shown.days * DAY_MS - (shown.late + 1) * HOUR_MS
        past = Past(table, home / shown.name, SetClock(begin), shown.rows)
        _live(past, shown)
    return settings


def _live(past: Past, shown: Shown) -> None:
    lucky = shown.name != "flights"
    past.days(shown.days if lucky else 4, merged=shown.merged, cleaned=shown.cleaned)
    if not lucky:
        _mishap(past)
        past.days(shown.days - 4)
        past.rename_delay("delay_minutes")
    for _ in range(shown.late):
        past.append()
        past.clock.go(HOUR_MS)


def _mishap(past: Past) -> None:
    """Somebody removes the wrong day, and it is brought back."""
    snapshot = read_snapshot(past.table.store, past.table.paths)
    past.drop(sorted(snapshot.partitions)[-2])
    past.restore(snapshot.seq)


def stack_of(home: Path, settings: Path) -> AirflowStack:
    """Return an Airflow that shows these tables, and runs nothing."""
    options = StackOptions(
        only=("api-server", "dag-processor"),
        env={
            "FIRNLINE_TABLES": str(settings),
            "PYTHONPATH": f"{REPO}:{REPO / 'include'}",
            "AWS_ACCESS_KEY_ID": "a",
            "AWS_SECRET_ACCESS_KEY": "b",
            "AWS_ENDPOINT_URL_S3": "http://127.0.0.1:9",
            "AWS_REGION": "x",
        },
    )
    return AirflowStack(home / "airflow", options)


def open_page(browser: Browser, url: str, token: str, path: str, scheme: str) -> Page:
    """Open a page of Airflow as a user, light or dark."""
    context = browser.new_context(
        viewport={"width": _WIDE, "height": _HIGH},
        color_scheme="dark" if scheme == "dark" else "light",
    )
    context.set_default_timeout(_MS)
    context.add_cookies([{"name": "_token", "value": token, "url": url}])
    page = context.new_page()
    page.goto(f"{url}/{path}")
    return page


def give_states(stack: AirflowStack) -> None:
    """A check that has ended, and a merge that holds its lock."""
    for table in ("flights", "bookings", "payments", "weather"):
        dag_id = f"verify__{table}"
        run = stack.api.trigger(dag_id)
        stack.api.call("PATCH", f"/dags/{dag_id}/dagRuns/{run}", {"state": "success"})
    stack.api.trigger("merge__gates")
    with sqlite3.connect(stack.home / "airflow.db", timeout=60) as database:
        database.execute(
            "UPDATE task_instance SET state = 'running', start_date = datetime('now', '-4 minutes')"
            " WHERE dag_id = 'merge__gates' AND task_id = 'merge'"
        )


def take(browser: Browser, stack: AirflowStack, token: str, folder: Path) -> list[Path]:
    """Take all pictures; return their files."""
    found: list[Path] = []

    def save(page: Page, name: str, **how: Any) -> None:
        found.append(folder / name)
        page.screenshot(path=found[-1], **how)

    for scheme in ("light", "dark"):
        page = open_page(browser, stack.url, token, "plugin/firnline-tables", scheme)
        page.get_by_test_id("table").nth(len(TABLES)).wait_for()
        page.get_by_text("cannot be read:").wait_for()
        page.get_by_text("being read").wait_for(state="detached")
        save(page, f"page-fleet-{scheme}.png")
    page = open_page(
        browser, stack.url, token, "dags/merge__flights/plugin/firnline-table", "light"
    )
    page.get_by_test_id("savings").wait_for()
    page.get_by_test_id("partition").nth(3).click()
    page.get_by_role("heading", name="flights", exact=True).scroll_into_view_if_needed()
    save(page, "page-table.png")
    page.set_viewport_size({"width": _WIDE, "height": _HIGH + 150})
    page.get_by_test_id("undone").first.scroll_into_view_if_needed()
    heading = page.get_by_role("heading", name="Transactions")
    heading.evaluate("element => element.scrollIntoView({block: 'start'})")
    save(page, "page-history.png")
    return found


def main(arguments: Sequence[str]) -> int:
    """Take the pictures; return the exit code: 1 if one is too large."""
    folder = Path(*arguments) if arguments else REPO / "docs" / "img"
    program = install()
    with tempfile.TemporaryDirectory(prefix="lake-") as place, sync_playwright() as playwright:
        home = Path(place)
        with stack_of(home, make_tables(home)) as stack:
            for table in TABLES:
                stack.api.wait_dag(f"verify__{table.name}")
                stack.api.wait_dag(f"merge__{table.name}")
            give_states(stack)
            token = httpx.get(f"{stack.url}/auth/token", timeout=60).json()["access_token"]
            browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
            pictures = take(browser, stack, token, folder)
            browser.close()
    sizes = {path: path.stat().st_size for path in pictures}
    for path, size in sizes.items():
        print(f"{path.name}: {size:,} bytes")
    return int(max(sizes.values()) > MAX_BYTES)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
