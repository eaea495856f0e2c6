"""### Undo what transactions did to some partitions of a table.

One DAG for all tables, started by hand after a wrong drop, rewrite, delete, replace or merge:
`table` names that of the run. It only plans unless `dry_run` is switched off.

        airflow dags trigger restore --conf '{"table": "<table>", "to": 41,
          "partitions": ["ts_day=2024-03-05"], "dry_run": false}'

- `to` is the last transaction after which the table was right, as numbered by
  `firnline history <table>` (0: before the first). All later transactions are undone in these
  partitions.
- `partitions` are globs, `["*"]` is the whole table.
- Rows that were appended since stay, unless `exact` is set.

1. `plan` reads the table's log and the transactions since then, and says which parts are restored,
   which are removed, and which transactions are undone. If there is nothing to do, the run ends
   here.
2. `restore` plans again on the newest state, copies parts within the store and commits in one
   transaction, while it holds all slots of the pool `<table>.merge`. No JVM starts. The
   transaction is in the history like any other, and can be undone itself.

Parts that the clean-up has deleted and rows that an erase removed cannot be restored: such a run
fails and names the transaction to which a restore is still possible.

**A run that has completed** does nothing when Airflow starts it again (a clear, a backfill over all
runs), unless it is told `again: true`.

**When it fails,** the end of the task's log says what failed and what to do next. Either the table
is unchanged, or all of it is restored. Transient errors (the store cannot be reached, a commit
conflict) are retried three times, all others fail at once.
"""

from __future__ import annotations

from pathlib import Path

from firnline.airflow.dags import operation_dag, plan_then_run
from firnline.airflow.tables import DagTable
from firnline.airflow.works import RestoreWork

RESTORE = RestoreWork()


def make(table: DagTable, _: Path) -> None:
    """Make the DAG."""
    with operation_dag(
        RESTORE, table, doc=__doc__, title=f"Undo transactions in partitions of {table.name}"
    ):
        plan_then_run(RESTORE, table)
