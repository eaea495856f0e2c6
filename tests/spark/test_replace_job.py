"""``spark_jobs/replace.py`` as a program: staged rows, and what needs no JVM."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from firnline.append import Appender
from firnline.history import history
from firnline.settings import settings_for_root
from firnline.table import Table, open_table
from firnline_dev.bootstrap import REPO
from tests.support.reading import stored_ids

JOB = REPO / "spark_jobs" / "replace.py"


def filled(folder: Path) -> Table:
    """Ids 0 to 3 and 10 to 13 in two parts; without statistics of the column."""
    table = open_table(settings_for_root(f"file://{folder}/table"))
    for first in (0, 10):
        Appender(table).append(pa.table({"id": list(range(first, first + 4))}))
    return table


def run(table: Table, options: dict[str, Any]) -> tuple[int, dict[str, Any], dict[str, Any]]:
    """Exit code, report, error."""
    env = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    env["PYSPARK_PYTHON"] = sys.executable
    arguments = [table.settings.root, "--master=local[2]", f"--options={json.dumps(options)}"]
    done = subprocess.run(
        [sys.executable, str(JOB), *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
        env=env,
    )
    assert "Traceback" not in done.stderr
    lines = done.stderr.strip().splitlines()
    error = json.loads(lines[-1])["error"] if done.returncode else {}
    return done.returncode, json.loads((done.stdout.splitlines() or ["{}"])[-1]), error


def test_staged_rows_take_the_place_of_an_interval_through_spark(tmp_path: Path) -> None:
    table = filled(tmp_path)
    (tmp_path / "staged").mkdir()
    pq.write_table(pa.table({"id": [7, 8]}), tmp_path / "staged" / "a.parquet")
    options = {"column": "id", "start": 2, "end": 12, "files": [str(tmp_path / "staged")]}
    code, report, error = run(table, options)
    assert code == 0, error
    assert (report["parts_rewritten"], report["rows_new"]) == (2, 2)
    (header,) = history(table)
    assert (header.op, bool(header.run.application_id)) == ("replace", True)
    assert sorted(stored_ids(table)) == [0, 1, 7, 8, 12, 13]


def test_what_rewrites_no_part_starts_no_jvm(tmp_path: Path, monkeypatch: Any) -> None:
    table = filled(tmp_path)
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    interval = {"column": "id", "start": 2, "end": 12}
    code, report, _ = run(table, {**interval, "nothing": True, "mode": "lazy"})
    assert (code, report["parts_hidden"], report["transaction"]) == (0, 2, 1)
    code, _, error = run(table, interval)
    assert (code, error["type"]) == (2, "UsageError")
    assert "give files with the new rows" in error["next_step"]
