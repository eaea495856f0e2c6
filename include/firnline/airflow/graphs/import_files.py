"""### Import the new files of folders that others keep writing.

One DAG for all tables, started by hand: `table` names that of the run. A table with
`import.schedule` (UTC) has a DAG of its own besides, which runs by the clock.

1. `plan` lists the folders of `import.source` in the table's settings, or those of `source`, and
   reads the footer of each file that no import has taken so far. It says how many there are, how
   many are copied as they are and how many have to be read, and what is left out. If there is
   nothing new, the run ends here.
2. `import` has the store copy the files that can be parts as they are; no JVM starts for that. If
   the rows of a file have to be read and written anew (its folders alone state a column, a column
   has a narrower type), it submits a Spark job. All files of a folder become visible at once. The
   folder itself is never written to.

It holds no pool: an import is an append, and waits for no merge. The event on the table's asset
starts what waits for new rows.

**A file that cannot be taken** fails the run, and none is taken; with `skip_bad` the others are
taken, and the table's notifier is called. `exclude` leaves files out without a word.

**When it fails,** the end of the task's log says what failed and what to do next. Transient errors
(the store cannot be reached, another import into this table was quicker) are retried three times,
all others fail at once. Running it again is always safe: no file is taken twice.
"""

from __future__ import annotations

from pathlib import Path

from firnline.airflow.dags import longest, operation_dag
from firnline.airflow.imports import ImportFolders, ImportWork
from firnline.airflow.mirror import then_mirror
from firnline.airflow.tables import DagTable
from firnline.airflow.tasks import PlanOperation

IMPORT = ImportWork()


def make(table: DagTable, jobs: Path) -> None:
    """Make the DAG; its jobs are in the folder."""
    with operation_dag(
        IMPORT,
        table,
        doc=__doc__,
        title=f"Import new files of folders into {table.name}",
        schedule=table.clock,
    ):
        limit = longest(table)  # of the plan too: it reads a footer of each new file
        plan = PlanOperation(task_id="plan", work=IMPORT, table=table, execution_timeout=limit)
        job = ImportFolders(
            task_id=IMPORT.operation,
            work=IMPORT,
            table=table,
            jobs=jobs,
            execution_timeout=limit,
            **table.lock(IMPORT.operation),
        )
        plan >> job
        then_mirror(table, job)
