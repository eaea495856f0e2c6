"""Seconds from the address to the last row of the page of 1,000 tables, in a browser.

python -m tests.dags.page_load     five times without a cache, and the median

The page of a user with one table shows what Airflow's own interface takes of it. seconds of the
browser are told beside them: on a busy machine they say more.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import psutil
from playwright.sync_api import Browser, sync_playwright

from tests.dags.page_server import Server, serving
from tools.airflow_api import NEARBY_SECONDS, wait_until
from tools.browser import install

TABLES, TIMES = 1_000, 5
_MS = 120_000


def cpu_seconds() -> float:
    """Of all processes of the browser so far."""
    found = psutil.Process().children(recursive=True)
    times = [each.cpu_times() for each in found if "chrom" in each.name()]
    return float(sum(each.user + each.system for each in times))


def seconds(browser: Browser, server: Server, token: str, tables: int) -> tuple[float, float]:
    """From the begin of the navigation until all tables are on the screen: wall and CPU."""
    context = browser.new_context(viewport={"width": 1400, "height": 900})
    context.set_default_timeout(_MS)
    context.add_cookies([{"name": "_token", "value": token, "url": server.url}])
    page = context.new_page()
    before, began = cpu_seconds(), time.perf_counter()
    page.goto(f"{server.url}/plugin/firnline-tables", wait_until="commit")
    page.get_by_test_id("table").nth(tables - 1).wait_for()
    took = time.perf_counter() - began, cpu_seconds() - before
    context.close()
    return took


def tell(tables: int, found: Sequence[tuple[float, float]]) -> None:
    """Print what was measured."""
    for what, times in zip(("wall", "CPU"), zip(*found, strict=True), strict=True):
        shown = ", ".join(f"{one:.2f}" for one in times)
        print(f"{tables:,} tables, {what}: {shown} s; median {statistics.median(times):.2f} s")


def main() -> int:
    """Measure; return the exit code."""
    program = install()
    with tempfile.TemporaryDirectory() as place, sync_playwright() as playwright:
        home = Path(place)
        more = {f"t{n:04d}": f"file://{home}/t{n:04d}" for n in range(TABLES)}
        with serving(home, more) as server:
            wait_until(lambda: len(server.tables("root")) > TABLES, 60, NEARBY_SECONDS)
            browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
            for user, tables in (("root", TABLES), ("ana", 1)):
                token = server.token(user)
                found = [seconds(browser, server, token, tables) for _ in range(TIMES)]
                tell(tables, found)
            began = time.perf_counter()
            size = len(server.get("/api/fleet", "root").content)
            print(f"the figures: {size:,} bytes in {time.perf_counter() - began:.2f} s")
            browser.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
