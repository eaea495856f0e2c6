"""README and docs/notebook.md: what they show is what comes out."""

from __future__ import annotations

import datetime
import itertools
import json
import re
import tomllib
from collections import defaultdict
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.support.cli import inside
from tests.support.laptop import as_ana
from tests.support.markdown import pages
from tests.support.pages import WRITING, Reader, blocks
from tools.bootstrap import REPO
from tools.notebook import FILE, notebook


@pytest.fixture
def reader(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Reader:
    """Somebody with a folder of small files; without a store."""
    as_ana(tmp_path, monkeypatch)
    (tmp_path / "clicks").mkdir()
    for hour in range(24):
        rows = {
            "ts": [datetime.datetime.fromisoformat(f"2026-01-01T{hour:02}:00")],
            "customer": [hour % 7],
        }
        pq.write_table(pa.table(rows), tmp_path / "clicks" / f"{hour}.parquet")
    return Reader(
        programs={"firnline": lambda given: inside(capsys)(*given)},
        printed=lambda: capsys.readouterr().out,
        env=monkeypatch.setenv,
        instead={"/tmp/": f"{tmp_path}/", "s3://bucket": f"file://{tmp_path}"},
    )


@pytest.mark.parametrize("page", ["README.md", "docs/notebook.md"])
def test_a_page_prints_what_it_says(reader: Reader, page: str) -> None:
    found = list(blocks((REPO / page).read_text(encoding="utf-8")))
    reader.follow(found)
    # A second time, but for what needs a bucket: a user's own table is there once.
    bucket = itertools.takewhile(lambda block: block.title is None, found)
    reader.follow(list(bucket))
    if WRITING:
        reader.write(REPO / page)
        FILE.write_text(notebook((REPO / "docs/notebook.md").read_text(encoding="utf-8")))


def on_this_machine(text: str) -> set[str]:
    """Return the folders below /tmp in which a page has tables, files and settings."""
    roots = re.findall(r"(?:file://|[\"'])/tmp/([\w-]+)/", text)
    removed = re.findall(r"rmtree\(\"/tmp/([\w-]+)\"", text)
    return {*roots, *removed}


def test_no_two_pages_have_a_root_in_the_same_folder() -> None:
    """Who has followed one page gets from the next what it says; what one removes is its own."""
    used = defaultdict(set)
    for page in pages():
        for folder in on_this_machine(page.read_text(encoding="utf-8")):
            used[folder].add(page.name)
    assert {"small-files", "gdpr", "notebook", "appender"} <= set(used)
    assert {folder: names for folder, names in used.items() if len(names) > 1} == {}
    assert on_this_machine('rmtree("/tmp/a")\nroot: file:///tmp/b/c Path("/tmp/d/e")') == set("abd")


def test_no_two_pages_that_run_write_the_same_file() -> None:
    """A user's own settings, tables.yaml, are those of the tutorial and of README."""
    titles = [
        block.title
        for page in pages()
        for block in blocks(page.read_text(encoding="utf-8"))
        if block.title not in {None, "tables.yaml"}
    ]
    assert len(titles) > 5
    assert len(titles) == len(set(titles))
    writers = [page.name for page in pages() if 'title="tables.yaml"' in page.read_text()]
    assert writers == ["README.md", "tutorial.md"]


@pytest.mark.parametrize(
    ("page", "words"),
    [
        ("updates", ["upsert", "CDC", "deduplicate", "idempotent"]),
        ("appender", ["upsert", "CDC", "deduplicate", "idempotent"]),
        ("airflow", ["monitoring"]),
    ],
)
def test_the_words_that_people_search_for_stand_where_the_answer_is(
    page: str, words: list[str]
) -> None:
    text = (REPO / "docs" / f"{page}.md").read_text(encoding="utf-8")
    first = text.split("\n\n")[1]
    assert [word for word in words if word not in first] == []


def test_the_notebook_for_jupyter_is_that_of_the_page() -> None:
    page = (REPO / "docs" / "notebook.md").read_text(encoding="utf-8")
    text = FILE.read_text(encoding="utf-8")
    assert text == notebook(page), "python -m tools.notebook"
    cells = json.loads(text)["cells"]
    code = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    assert code == [block.body.rstrip() for block in blocks(page) if block.language == "python"]
    outputs = [output for cell in cells for output in cell.get("outputs", ())]
    assert len(outputs) == sum(block.language == "text" for block in blocks(page))


def test_what_pages_install_are_extras_of_the_package() -> None:
    with (REPO / "pyproject.toml").open("rb") as file:
        extras = set(tomllib.load(file)["project"]["optional-dependencies"])
    said = {
        extra
        for page in pages()
        for named in re.findall(r"firnline\[([a-z,]+)\]", page.read_text(encoding="utf-8"))
        for extra in named.split(",")
    }
    assert {"airflow", "spark"} <= said <= extras
