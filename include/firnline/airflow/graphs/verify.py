"""### Check that a table's log, its transactions and its objects agree.

Each run names its table, which `verify__TABLE` of a table with `own_dags` is about anyway.
`fleet__merge` starts it once a week if the table has changed since, and every fourth week in any
case (`verify.schedule: fleet`); or it runs by a clock of its own (a schedule there, UTC), and by
hand. It changes nothing.

`verify` reads the whole log and every transaction, lists all objects and compares: parts whose
object is missing or has another size, log files from the future, gaps in the transactions, orphans,
and what a client of log version 1 would see. With `deep` a Spark job, `verify_deep`, then reads the
footer of every live part too, one request for each; with `rows` its driver reads live parts, or a
`sample` of them, and compares their rows with their markers. Its report is in its log. Both tasks
hold the only slot of the pool `<table>.cleanup`, so that nothing is deleted meanwhile.

**When it fails,** the last line of its log is the first finding and what to do about it; all
findings are in the log and in the task's XCom. Notes alone do not fail it. Transient errors (the
store cannot be reached) are retried three times.
"""

from __future__ import annotations

from pathlib import Path

from firnline.airflow.dags import operation_dag
from firnline.airflow.footers import check
from firnline.airflow.tables import DagTable
from firnline.airflow.works import VerifyWork

VERIFY = VerifyWork()


def make(table: DagTable, jobs: Path) -> None:
    """Make the DAG; its jobs are in the folder."""
    with operation_dag(
        VERIFY,
        table,
        doc=__doc__,
        title=f"Check that log and objects of {table.name} fit together",
        schedule=table.clock,
    ):
        check(table, jobs)
