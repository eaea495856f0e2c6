"""Pictures of the page for README and docs, taken in a browser from a real Airflow.

    python -m demo.pictures [FOLDER] [--only pages|walk]     into docs/img

A browser is installed where there is none. The tables are real and have lived for some days
(``demo.lived``). For the pictures of the pages no scheduler runs: two runs of DAGs are given their
states by hand, so that they show a check and a lock. In the walk (``demo.walk``) all runs are real.
"""

from __future__ import annotations

import argparse
import sqlite3
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright

from demo.camera import HIGH, WIDE, Camera
from demo.shown import STORE_AWAY, Shown, make_tables
from demo.walk import pictures_of_walk, token_of, wait_read
from tools.airflow_home import StackOptions
from tools.airflow_stack import AirflowStack
from tools.bootstrap import REPO
from tools.browser import install

MAX_BYTES = 200_000
"""Of a picture: they are part of the repository."""

TABLES = (
    Shown("flights", 9, late=14, rows=3000, mishap=True),
    Shown("airports", 2),
    Shown("bookings", 3, late=2),
    Shown("clicks", 4, merged=False),
    Shown("crews", 1),
    Shown("gates", 2, late=6),
    Shown("luggage", 3, cleaned=False),
    Shown("payments", 3, late=1),
    Shown("weather", 2, late=3),
)


def stack_of(home: Path, settings: Path) -> AirflowStack:
    """Return an Airflow that shows these tables, and runs nothing."""
    options = StackOptions(
        only=("api-server", "dag-processor"),
        env={
            "FIRNLINE_TABLES": str(settings),
            "PYTHONPATH": f"{REPO}:{REPO / 'include'}",
            **STORE_AWAY,
        },
    )
    return AirflowStack(home / "airflow", options)


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


def take(camera: Camera) -> None:
    """Take the pictures of a fleet and of a table."""
    for scheme in ("light", "dark"):
        page = camera.open("plugin/firnline-tables", scheme)
        wait_read(page, len(TABLES) + 1)
        camera.save(page, f"page-fleet-{scheme}.png")
    page = camera.open("dags/merge__flights/plugin/firnline-table")
    page.get_by_test_id("savings").wait_for()
    page.get_by_test_id("partition").nth(3).click()
    page.get_by_role("heading", name="flights", exact=True).scroll_into_view_if_needed()
    camera.save(page, "page-table.png")
    page.set_viewport_size({"width": WIDE, "height": HIGH + 150})
    page.get_by_test_id("undone").first.scroll_into_view_if_needed()
    heading = page.get_by_role("heading", name="Transactions")
    heading.evaluate("element => element.scrollIntoView({block: 'start'})")
    camera.save(page, "page-history.png", HIGH + 150)


def pictures_of_pages(launch: Callable[[], Browser], folder: Path) -> list[Path]:
    """Take the pictures of a fleet and of a table; return their files."""
    with tempfile.TemporaryDirectory(prefix="lake-") as place:
        home = Path(place)
        with stack_of(home, make_tables(home, TABLES)) as stack:
            for table in TABLES:
                stack.api.wait_dag(f"verify__{table.name}")
                stack.api.wait_dag(f"merge__{table.name}")
            give_states(stack)
            camera = Camera(launch(), stack.url, token_of(stack), folder)
            take(camera)
            camera.browser.close()
    return camera.taken


def main(arguments: Sequence[str]) -> int:
    """Take the pictures; return the exit code: 1 if one is too large."""
    parser = argparse.ArgumentParser(prog="python -m demo.pictures")
    parser.add_argument("folder", nargs="?", type=Path, default=REPO / "docs" / "img")
    parser.add_argument("--only", choices=("pages", "walk"), help="some of them")
    given = parser.parse_args(arguments)
    program = install()
    taken: list[Path] = []
    with sync_playwright() as playwright:

        def launch() -> Browser:
            return playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])

        if given.only != "walk":
            taken += pictures_of_pages(launch, given.folder)
        if given.only != "pages":
            taken += pictures_of_walk(launch, given.folder)
    sizes = {path: path.stat().st_size for path in taken}
    for path, size in sizes.items():
        print(f"{path.name}: {size:,} bytes")
    return int(max(sizes.values()) > MAX_BYTES)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
