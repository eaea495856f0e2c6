"""### Rebuild the log of a table from its parts and its transactions.

One DAG for all tables, started by hand: `table` names that of the run, whose log was lost or
damaged. It refuses a table whose log reads and lacks nothing, unless `force` is set.

1. `plan` reads what is left and says which parts the log would name: those that a transaction or a
   log file names, and those whose footers and age prove that they were in the table. Its XCom lists
   under `undecided` the objects on which an operator has to decide.
2. `rebuild` decides again and writes the log in one transaction, while it holds the only slot of
   the pool `<table>.cleanup`.

A run only plans unless `dry_run` is switched off. `include` and `exclude` are globs over keys or
file names that decide on undecided objects; while there are any, nothing is written. Stop the
writers of the table meanwhile: an append under way may give up and take its parts back.

**A run that has completed** does nothing when Airflow starts it again (a clear, a backfill over all
runs), unless it is told `again: true`.

**When it fails,** the end of the task's log says what failed and what to do next. A run that died
is finished by the next one.
"""

from __future__ import annotations

from pathlib import Path

from firnline.airflow.dags import operation_dag, plan_then_run
from firnline.airflow.tables import DagTable
from firnline.airflow.works import RebuildWork

REBUILD = RebuildWork()


def make(table: DagTable, _: Path) -> None:
    """Make the DAG."""
    with operation_dag(
        REBUILD,
        table,
        doc=__doc__,
        title=f"Rebuild the log of {table.name} from its parts and its transactions",
    ):
        plan_then_run(REBUILD, table)
