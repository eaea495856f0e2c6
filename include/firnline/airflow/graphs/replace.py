"""### Replace an interval of a table by staged rows, or by nothing.

One DAG for all tables, started by hand or from your loading DAG: `table` names that of the run. It
only plans unless `dry_run` is switched off.

        airflow dags trigger replace --conf '{"table": "<table>",
          "start": "2024-03-05", "end": "2024-03-06",
          "files": ["s3://bucket/staged/2024-03-05/"], "dry_run": false}'

- The interval `[start, end)` of `column` need not coincide with partitions or parts. `equal`
  narrows it: `{"client": 1234}` replaces that client's rows only.
- `files` are prefixes with Parquet in the table's bucket (or paths that worker and driver share). A
  row outside of the interval is refused. With `nothing` the interval is empty afterwards.
- A row without a time lies in no interval and stays.

1. `plan` reads the table's log and says which parts go unread and which are read. No part is
   opened. Of staged files it reads the footers: one that is not Parquet, that does not fit the
   table or that has rows outside of the interval by its statistics fails `plan`.
2. `replace` submits the Spark job and holds all slots of the pool `<table>.merge`. One
   transaction: readers see the old rows or the new ones. Its driver streams the staged rows into
   new parts; executors rewrite the parts that the interval cuts (`mode` eager).
3. `report` reads from the table's history what this run committed, and hands it on: as XCom, and
   in the `extra` of the event on the table's asset.

Rows of appends that began before the commit are covered, also if they land later. Running it again
gives the same rows.

**A run that has completed** does nothing when Airflow starts it again (a clear, a backfill over all
runs), unless it is told `again: true`.

**When it fails,** the end of the task's log says what failed and what to do next. Either the table
is unchanged, or the whole interval is replaced.
"""

from __future__ import annotations

from pathlib import Path

from firnline.airflow.dags import operation_dag, submit_then_report
from firnline.airflow.tables import DagTable
from firnline.airflow.works import ReplaceWork

REPLACE = ReplaceWork()


def make(table: DagTable, jobs: Path) -> None:
    """Make the DAG; its jobs are in the folder."""
    with operation_dag(REPLACE, table, doc=__doc__, title=f"Replace an interval of {table.name}"):
        submit_then_report(REPLACE, table, jobs)
