"""``spark_jobs/replace.py``: staged rows, and what needs no session."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from firnline.append.append import Appender
from firnline.settings.load import settings_for_root
from firnline.state.history import history
from firnline.table import Table, open_table
from tests.support.jobs import Done, Jobs
from tests.support.reading import stored_ids


def filled(folder: Path) -> Table:
    """Ids 0 to 3 and 10 to 13 in two parts; without statistics of the column."""
    table = open_table(settings_for_root(f"file://{folder}/table"))
    for first in (0, 10):
        Appender(table).append(pa.table({"id": list(range(first, first + 4))}))
    return table


def run(jobs: Jobs, table: Table, options: dict[str, Any]) -> Done:
    return jobs.run("replace", table.settings.root, f"--options={json.dumps(options)}")


def test_staged_rows_take_the_place_of_an_interval_through_spark(
    jobs: Jobs, tmp_path: Path
) -> None:
    table = filled(tmp_path)
    (tmp_path / "staged").mkdir()
    pq.write_table(pa.table({"id": [7, 8]}), tmp_path / "staged" / "a.parquet")
    options = {"column": "id", "start": 2, "end": 12, "files": [str(tmp_path / "staged")]}
    report = run(jobs, table, options).report
    assert (report["parts_rewritten"], report["rows_new"]) == (2, 2)
    (header,) = history(table)
    assert (header.op, bool(header.run.application_id)) == ("replace", True)
    assert sorted(stored_ids(table)) == [0, 1, 7, 8, 12, 13]


def test_what_rewrites_no_part_opens_no_session(jobs: Jobs, tmp_path: Path) -> None:
    table = filled(tmp_path)
    interval = {"column": "id", "start": 2, "end": 12}
    report = run(jobs, table, {**interval, "nothing": True, "mode": "lazy"}).report
    assert (report["parts_hidden"], report["transaction"]) == (2, 1)
    done = run(jobs, table, interval)
    assert (done.code, done.error["type"]) == (2, "UsageError")
    assert "give files with the new rows" in done.error["next_step"]
    assert not jobs.lent
