"""The site of `make docs`: every page has its place, it builds, can be searched and be read."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
from playwright.sync_api import Browser, sync_playwright

import firnline
from tests.support.markdown import links
from tools.bootstrap import REPO
from tools.browser import find_program
from tools.pages import weight

DOCS = REPO / "docs"
SETTINGS = (REPO / "mkdocs.yml").read_text(encoding="utf-8")
NAVIGATION = SETTINGS.split("\nnav:\n")[1]
FETCHED = re.compile(r"<(?:script|link|img)[^>]*(?:src|href)=\"?(https?://[^\"> ]+)")


def test_every_page_has_one_place_in_the_navigation() -> None:
    pages = {str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md")}
    elsewhere = {page for page in pages if page.startswith("rfcs/0")}
    # For whoever releases: no user looks for it.
    elsewhere.add("releasing.md")
    assert sorted(re.findall(r"[\w/-]+\.md", NAVIGATION)) == sorted(pages - elsewhere)


def test_the_list_of_decisions_is_complete() -> None:
    folder = DOCS / "rfcs"
    listed = [target for _, target in links((folder / "README.md").read_text(encoding="utf-8"))]
    assert listed == sorted(page.name for page in folder.glob("0*.md"))


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    beside = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    mkdocs = shutil.which("mkdocs", path=beside)
    if mkdocs is None:
        pytest.skip("mkdocs is not installed: `make setup`")
    site = tmp_path_factory.mktemp("docs") / "site"
    done = subprocess.run(
        [mkdocs, "build", "--strict", "--site-dir", str(site)],
        cwd=REPO,
        check=False,
        capture_output=True,
        text=True,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
    )
    assert (done.returncode, re.findall("WARNING.*", done.stderr)) == (0, []), done.stderr
    return site


def test_the_site_builds_without_a_warning_and_fetches_nothing(site: Path) -> None:
    reference = (site / "api.html").read_text(encoding="utf-8")
    missing = [name for name in firnline.__all__ if f'id="firnline.{name}"' not in reference]
    assert missing == []
    assert "Append rows or Parquet files" in reference, "of firnline.append"
    fetched = {
        f"{page.name}: {address}"
        for page in site.rglob("*.html")
        for address in FETCHED.findall(page.read_text(encoding="utf-8"))
    }
    assert fetched == set()
    assert "twenty minutes" in (site / "search" / "search_index.json").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def address(site: Path) -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=site)) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    program = find_program()
    if program is None:
        pytest.skip("no Chromium on this machine")
    with sync_playwright() as playwright:
        # Without its sandbox, which cannot be set up by root or in a container.
        yield playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])


@pytest.mark.parametrize(
    ("looked_for", "wanted"),
    [
        # Names of camel case are one word.
        ("MinIO", "tutorial"),
        ("StatsD", "airflow"),
        ("DuckDB", "reading"),
        # Of settings and options all words have to be there, also while the last one is typed.
        ("merge.target_s", "settings"),
        ("target_size", "settings"),
        ("--skip-bad", "cli"),
        ("compaction", "why"),
    ],
)
def test_the_search_finds_a_name_and_shows_what_explains_it_first(
    address: str, browser: Browser, looked_for: str, wanted: str
) -> None:
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    page.goto(f"{address}/index.html")
    # It searches with each key: only one, so that no list of a part of the text comes before.
    page.locator(".md-search__input").fill(looked_for[:-1])
    page.locator(".md-search__input").press_sequentially(looked_for[-1])
    page.get_by_text(re.compile(r"^\s*\d+ matching documents?\s*$")).wait_for(timeout=60_000)
    results = page.locator(".md-search-result__item > a")
    links = results.evaluate_all("all => all.map(each => each.href)")
    found = [re.sub(r".*?//[^/]*/|\.html.*", "", link) for link in links]
    assert wanted in found
    assert len(found) < 30, "not each page that has one of the words"
    weights = [weight(f"{each}.md") for each in found]
    assert weights == sorted(weights, reverse=True), found
    page.close()


@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("name", ["settings", "cli", "airflow", "benchmarks"])
def test_a_page_is_as_wide_as_the_screen(
    address: str, browser: Browser, name: str, width: int
) -> None:
    page = browser.new_page(viewport={"width": width, "height": 844})
    page.goto(f"{address}/{name}.html")
    assert page.evaluate("document.documentElement.scrollWidth") == width
    # A phone shows a row's cells below each other, and none of them is wider than the screen.
    cells = "[...document.querySelectorAll('table[data-stacks] td')]"
    right = page.evaluate(f"Math.max(0, ...{cells}.map(c => c.getBoundingClientRect().right))")
    assert width > 390 or right <= width
    page.close()
