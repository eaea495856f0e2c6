r"""### Rewrite partitions of a table: drop rows by a filter, or change them by a query.

For runs by hand, which name their table; and for **backfills** of a table that has a DAG of its own
for it, `rewrite_partitions__TABLE` (`own_dags: [rewrite_partitions]`).

- `where` is the condition for rows that stay, such as `a is not null`. Alternatively `sql` is a
  query in DuckDB's SQL whose result replaces the rows:
  `select * replace (upper(a) as a) from _rows`. Columns and types must not change.
- **A backfill** over dates rewrites the partitions of each run's data interval, in order or in
  reverse, `--max-active-runs 1`:

        airflow backfill create --dag-id rewrite_partitions__<table> --max-active-runs 1 \
          --from-date 2024-03-01 --to-date 2024-03-05 --reprocess-behavior completed \
          --dag-run-conf '{"where": "a is not null", "dry_run": false}'

  The interval is the finest time in the partitions: hour, day, month or year. A table without time
  in its partitions has no backfills.
- **By hand** `partitions` names them, as globs (`*` for all).
- `dry_run` is on unless it is switched off, in a backfill too.
- `approve` asks before the commit: see 3. and 4. `assert` is a list of queries over `before` and
  `after`, such as `select count(*) = 0 from after where a < 0`, each of which has to be true.
- `force` lets a rewrite remove more of a partition than `rewrite.max_removed_fraction` (half).

1. `plan` reads the table's log and says which parts would be read. If there is nothing to do, the
   run ends here. The DAG has a schedule, because Airflow refuses backfills of one without, and no
   runs by it.
2. `rewrite_partitions` submits the Spark job and holds all slots of the pool `<table>.merge`.
   Each partition is rewritten completely or not at all: nothing of it is visible before all of it
   is written. Parts in which nothing changes stay.
   With `approve` all partitions are written and none is committed: nobody sees the new parts.
3. `approve` shows which rows go, come and change, and waits for a person ("Required actions" of the
   run), without the pool. It is skipped without the param `approve`. After a rejection, and without
   an answer within `answer_within` (24 h), the new parts are deleted and the run ends as a success.
4. `commit` commits exactly the parts that were shown, in one transaction, and takes seconds; it
   holds the pool and needs no Spark. If their partitions have changed since, it commits nothing and
   fails.
5. `report` reads from the table's history what this run committed, and hands it on: as XCom, and
   in the `extra` of the event on the table's asset.

**A run that has completed** does nothing when Airflow starts it again (a clear, a backfill over all
runs), unless it is told `again: true`.

**When it fails,** the end of the task's log says what failed and what to do next. Partitions that
are done stay done; running it again is always safe.
"""

from __future__ import annotations

from pathlib import Path

from firnline.airflow.dags import ask_then_commit, operation_dag
from firnline.airflow.rewrite import BEGINNING, RewriteWork, interval_of
from firnline.airflow.tables import DagTable

REWRITE = RewriteWork()


def make(table: DagTable, jobs: Path) -> None:
    """Make the DAG; its jobs are in the folder."""
    with operation_dag(
        REWRITE,
        table,
        doc=__doc__,
        title=f"Rewrite partitions of {table.name} by a filter or a query",
        schedule=None if table.known is None else interval_of(table.known),
        start_date=BEGINNING,
    ):
        ask_then_commit(REWRITE, table, jobs)
