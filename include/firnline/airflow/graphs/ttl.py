"""### Drop the partitions of a table that are past their time to live.

Of tables with a `ttl` section in the settings file; each run names its table, which `ttl__TABLE` of
a table with `own_dags` is about anyway. It runs once a day when `fleet__merge` finds something that
is past (`ttl.schedule: fleet`) or by a clock of its own (a schedule there, UTC), and by hand.

1. `plan` reads the table's log and says which partitions are wholly older than `ttl.keep`, and why
   others stay. A partition that cannot be dated is reported and never dropped. If there is nothing
   to do, the run ends here.
2. `approve` ends at once, unless more of the table would go than `ttl.max_removed_fraction` (half
   unless set). Then it waits for a person ("Required actions" of the run): a wrong unit in
   `ttl.keep` or a wrong column makes everything look old. The task does not hold the pool and needs
   no triggerer. Without an answer within `answer_within` (24 h), and after a rejection, nothing is
   dropped and the run ends as a success. `force` lets a run drop any fraction without a question.
3. `ttl` decides again on the newest state and drops in one transaction, while it holds all slots
   of the pool `<table>.merge`. No JVM starts. The clean-up deletes the objects after its grace;
   until then readers that began earlier can continue.

**By hand** a run only plans unless `dry_run` is switched off. Runs that the planner or a clock
starts drop. `partitions` are globs that select the partitions to look at.

**Who may approve:** the `approvers` in the table's settings, except the person who started the run;
without that setting, everyone who may edit the DAG.

**When it fails,** the end of the task's log says what failed and what to do next. Either the table
is unchanged, or all expired partitions are dropped. Transient errors (the store cannot be reached,
a commit conflict) are retried three times, all others fail at once.
"""

from __future__ import annotations

from pathlib import Path

from firnline.airflow.dags import READING, operation_dag, run_only
from firnline.airflow.mirror import then_mirror
from firnline.airflow.tables import DagTable
from firnline.airflow.tasks import PlanOperation
from firnline.airflow.ttl import ApprovedTtl, ApproveMuch, AskingTtl

TTL, APPROVED = AskingTtl(), ApprovedTtl()


def make(table: DagTable, _: Path) -> None:
    """Make the DAG."""
    with operation_dag(
        TTL,
        table,
        doc=__doc__,
        title=f"Drop the partitions of {table.name} that are past their time to live",
        schedule=table.clock,
    ):
        run = run_only(APPROVED, table)
        (
            PlanOperation(task_id="plan", work=TTL, table=table, execution_timeout=READING)
            >> ApproveMuch(task_id="approve", work=TTL, table=table)
            >> run
        )
        then_mirror(table, run)
