"""The site of `make docs`: every page has its place, and it builds without a warning."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import firnline
from tests.support.markdown import links
from tools.bootstrap import REPO

DOCS = REPO / "docs"
SETTINGS = (REPO / "mkdocs.yml").read_text(encoding="utf-8")
NAVIGATION = SETTINGS.split("\nnav:\n")[1]
FETCHED = re.compile(r"<(?:script|link|img)[^>]*(?:src|href)=\"?(https?://[^\"> ]+)")


def test_every_page_has_one_place_in_the_navigation() -> None:
    pages = {str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md")}
    decisions = {page for page in pages if page.startswith("rfcs/0")}
    assert sorted(re.findall(r"[\w/-]+\.md", NAVIGATION)) == sorted(pages - decisions)


def test_the_list_of_decisions_is_complete() -> None:
    folder = DOCS / "rfcs"
    listed = [target for _, target in links((folder / "README.md").read_text(encoding="utf-8"))]
    assert listed == sorted(page.name for page in folder.glob("0*.md"))


def test_the_site_builds_without_a_warning_and_fetches_nothing(tmp_path: Path) -> None:
    beside = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    mkdocs = shutil.which("mkdocs", path=beside)
    if mkdocs is None:
        pytest.skip("mkdocs is not installed: `make setup`")
    site = tmp_path / "site"
    done = subprocess.run(
        [mkdocs, "build", "--strict", "--site-dir", str(site)],
        cwd=REPO,
        check=False,
        capture_output=True,
        text=True,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
    )
    assert (done.returncode, re.findall("WARNING.*", done.stderr)) == (0, []), done.stderr
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
