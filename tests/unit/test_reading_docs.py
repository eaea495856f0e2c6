"""docs/reading.md: its examples run."""

from __future__ import annotations

import datetime
import re
from pathlib import Path

import pyarrow as pa
import pytest

from firnline.appends.append import Appender
from firnline.clock import SystemClock
from firnline.ids import SystemIds
from firnline.kernel.local import LocalEngine
from firnline.log.txn_file import RunIdentity
from firnline.operations.merge.run import run_merge
from firnline.operations.operation import Work
from firnline.operations.options import MergeOptions
from firnline.settings.load import find_table
from firnline.table import Table, open_table
from tools.bootstrap import REPO

TEXT = (REPO / "docs" / "reading.md").read_text(encoding="utf-8").split("# Spark")[0]
EXAMPLES = re.findall(r"(?:^ {4}\S.*\n(?:^ {4}.*\n|^\n(?= {4}))*)", TEXT, re.MULTILINE)


def merge(table: Table, scratch: Path) -> None:
    engine = LocalEngine(lambda: table.store, scratch, SystemIds(), SystemClock())
    run_merge(Work(table, RunIdentity(run_id="r"), lambda: engine), MergeOptions())


@pytest.fixture
def flights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Table:
    """A table with two merges behind it."""
    declared = f"""
tables:
  flights:
    root: file://{tmp_path}/flights
    partition_by: [month(sched_dep)]
    merge: {{min_inputs: 2}}
"""
    path = tmp_path / "tables.yaml"
    path.write_text(declared, encoding="utf-8")
    monkeypatch.setenv("FIRNLINE_TABLES", str(path))
    table = open_table(find_table("flights"))
    for first in range(3):
        times = [datetime.datetime.fromisoformat(f"2013-01-0{first + n}T05:00") for n in (1, 2)]
        rows = {"carrier": ["UA", "AA"], "dep_delay": [90, 5], "sched_dep": times}
        Appender(table).append(pa.table(rows))
        if first:
            merge(table, tmp_path / "s")
    return table


@pytest.mark.long
def test_every_example_runs(flights: Table, capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, object] = {}
    assert len(EXAMPLES) == 4
    for example in EXAMPLES:
        code = re.sub(r"^ {4}", "", example, flags=re.MULTILINE)
        moment = datetime.datetime.now(datetime.UTC).isoformat()
        exec(code.replace("2026-01-31T12:00:00Z", moment), names)  # noqa: S102 - our own page
    assert "UA" in capsys.readouterr().out
