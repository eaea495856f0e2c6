r"""### Give rows of a table new values where a condition is true.

One DAG for all tables, started by hand: `table` names that of the run. It only plans unless
`dry_run` is switched off.

- `set` is a list of columns with the expressions of their new values, in DuckDB's SQL over the
  columns of the row: `["status = 'closed'", "amount = amount * 2"]`.
- `where` is the condition for the rows that change: `carrier = 'AA' and dep_delay > 60`. A row for
  which it is neither true nor false (nulls) stays as it is. `partitions` are globs
  (`ts_month=2013-*`).
- Columns of the primary key, of `partition_by`, `version` and `deleted` cannot be set.
- `approve` asks before the commit: see 3. and 4. `assert` is a list of queries over `before` and
  `after`, such as `select count(*) = 0 from after where a < 0`, each of which has to be true.

1. `plan` reads the table's log, checks the expressions, and says which parts may hold such rows.
2. `update_where` submits the Spark job and holds all slots of the pool `<table>.merge`. It commits
   one transaction: all such rows have the new values, or none has. Parts without such a row stay.
   With `approve` all new parts are written and nothing is committed: nobody sees them.
3. `approve` shows which rows change, and waits for a person ("Required actions" of the run),
   without the pool. It is skipped without the param `approve`. After a rejection, and without an
   answer within `answer_within` (24 h), the new parts are deleted and the run ends as a success.
4. `commit` commits exactly the parts that were shown, in one transaction, and takes seconds; it
   holds the pool and needs no Spark. If their partitions have changed since, it commits nothing and
   fails.
5. `report` reads from the table's history what this run committed, and hands it on: as XCom, and
   in the `extra` of the event on the table's asset.

**A run that has completed** does nothing when Airflow starts it again (a clear), unless it is told
`again: true`: `n = n + 1` would count twice.

**When it fails,** the end of the task's log says what failed and what to do next. Either the table
is unchanged, or all such rows are updated.
"""

from __future__ import annotations

from pathlib import Path

from firnline.airflow.dags import ask_then_commit, operation_dag
from firnline.airflow.tables import DagTable
from firnline.airflow.update import UpdateWork

UPDATE = UpdateWork()


def make(table: DagTable, jobs: Path) -> None:
    """Make the DAG; its jobs are in the folder."""
    title = f"Give rows of {table.name} new values where a condition is true"
    with operation_dag(UPDATE, table, doc=__doc__, title=title):
        ask_then_commit(UPDATE, table, jobs)
