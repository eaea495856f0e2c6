"""### Remove partitions of a table that a person picks.

One DAG for all tables, started by hand: `table` names that of the run. **Switch `dry_run` off** to
be asked; with it the run ends after the list.

1. `list` reads the table's log: partitions with their rows, bytes and age. `partitions` (globs)
   narrow it; at most 300 can be picked from.
2. `pick` waits for a person to pick partitions ("Required actions" of the run).
3. `approve` shows what was picked with its totals and waits for a person to approve it.
4. `remove_partitions` holds all slots of the pool `<table>.merge`, checks that every partition
   is unchanged since it was listed, and drops them all in one transaction. No JVM starts. The
   clean-up deletes the objects after its grace.

**Who may approve:** the `approvers` in the table's settings, except the person who started the run;
without that setting, everyone who may edit the DAG.

**Without an answer** within `answer_within` (24 h), and after a rejection, nothing is removed and
the run ends as a success. The waiting task does not hold the pool and needs no triggerer.

**When a partition has changed** since it was listed (an append, a merge), nothing is removed and
`remove_partitions` fails with the partition's name: trigger a new run to confirm what it holds now.

**A run that has completed** does nothing when Airflow starts it again (a clear, a backfill over all
runs), unless it is told `again: true`.

**When it fails** otherwise, the end of the task's log says what failed and what to do next. Either
the table is unchanged, or all picked partitions are dropped.
"""

from __future__ import annotations

from pathlib import Path

from firnline.airflow.approvals import Pick
from firnline.airflow.dags import READING, longest, operation_dag
from firnline.airflow.mirror import then_mirror
from firnline.airflow.removal import ApproveRemoval, ListPartitions, RemoveWork
from firnline.airflow.tables import DagTable
from firnline.airflow.tasks import RunInTask

REMOVE = RemoveWork()


def make(table: DagTable, _: Path) -> None:
    """Make the DAG."""
    with operation_dag(
        REMOVE, table, doc=__doc__, title=f"Remove partitions of {table.name} that a person picks"
    ):
        remove = RunInTask(
            task_id=REMOVE.operation,
            work=REMOVE,
            table=table,
            plan="list",
            execution_timeout=longest(table),
            **table.lock(REMOVE.operation),
        )
        (
            ListPartitions(task_id="list", work=REMOVE, table=table, execution_timeout=READING)
            >> Pick(task_id="pick", listed="list", table=table, what="partitions to remove")
            >> ApproveRemoval(task_id="approve", work=REMOVE, table=table)
            >> remove
        )
        then_mirror(table, remove)
