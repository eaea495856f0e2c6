"""Pages that begin with what people ask: their blocks run, and print what the page says."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.cli import inside
from tests.support.laptop import as_ana
from tests.support.pages import WRITING, Reader, blocks
from tools.bootstrap import REPO

PAGES = ["small-files", "gdpr", "retention", "fix-a-bug", "firehose", "delta-iceberg"]


@pytest.fixture
def reader(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Reader:
    """Somebody in an empty folder, without a store."""
    as_ana(tmp_path, monkeypatch)

    def env(name: str, value: str) -> None:
        """Set what the page says, but for the id that a command before has printed."""
        if name == "FIX":
            (prepared,) = tmp_path.glob("fix-a-bug/*/_prepared/*.json")
            value = prepared.stem
        monkeypatch.setenv(name, value)

    return Reader(
        programs={"firnline": lambda given: inside(capsys)(*given)},
        printed=lambda: capsys.readouterr().out,
        env=env,
        instead={"/tmp/": f"{tmp_path}/"},
    )


@pytest.mark.parametrize("name", PAGES)
def test_a_page_prints_what_it_says_also_a_second_time(reader: Reader, name: str) -> None:
    page = REPO / "docs" / f"{name}.md"
    found = list(blocks(page.read_text(encoding="utf-8")))
    assert {"python", "console"} <= {block.language for block in found}
    reader.follow(found)
    reader.follow(found)
    if WRITING:
        reader.write(page)
