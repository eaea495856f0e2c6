"""### Delete the rows of a table that a condition is true for.

One DAG for all tables, started by hand: `table` names that of the run. It only plans unless
`dry_run` is switched off.

1. `plan` reads the table's log and says which parts may hold such rows. It opens no part, so it
   cannot say how many rows there are.
2. `delete_where` submits the Spark job and holds all slots of the pool `<table>.merge`. It
   commits one transaction: a delete record that hides the rows from then on, also those of appends
   that are under way, and (`mode` eager) rewritten versions of the parts that hold such rows.
3. `report` reads from the table's history what this run committed, and hands it on: as XCom, and
   in the `extra` of the event on the table's asset.

`where` is SQL (`carrier = 'AA' and dep_delay > 60`) or a predicate as JSON; a row for which it is
neither true nor false (nulls) stays. `partitions` are globs (`ts_month=2013-*`). **The condition
stays in Airflow's database and in the table's log:** to remove personal data use `erase` with a
file of keys.

**A run that has completed** does nothing when Airflow starts it again (a clear, a backfill over all
runs), unless it is told `again: true`.

**When it fails,** the end of the task's log says what failed and what to do next. Either the table
is unchanged, or all matching rows are deleted.
"""

from __future__ import annotations

from pathlib import Path

from firnline.airflow.dags import operation_dag, submit_then_report
from firnline.airflow.tables import DagTable
from firnline.airflow.works import DeleteWork

DELETE = DeleteWork()


def make(table: DagTable, jobs: Path) -> None:
    """Make the DAG; its jobs are in the folder."""
    with operation_dag(
        DELETE, table, doc=__doc__, title=f"Delete rows of {table.name} by a condition"
    ):
        submit_then_report(DELETE, table, jobs)
