"""### Erase the people who asked for it, from all tables.

For all tables whose settings name the columns of a person (`person`), once the settings name a
folder for requests (`erasure.requests`). It runs by `erasure.schedule` (UTC, daily) and by hand.
`firnline erasure ask FILE` takes a request; the clock of its deadline starts then.

1. `plan` completes the certificates whose grace is over, closes the requests that are certified
   in every table (their keys are deleted), and looks what waits. It tells the notifier
   (`erasure.alerts`) of requests that are overdue, or due within `erasure.remind`.
2. `approve` asks once for all requests and all tables, never naming a key.
3. `start` starts a run of `erase` for each table: all requests together, one transaction under the
   table's lock. These runs ask nobody again: they look up the approval here.

What a request has reached is in the certificates of the tables. The run of the next day goes on
with what failed, was held by a legal hold, or came later.

**Who may approve:** whoever is among the `approvers` of every such table that names any, except
the person who started the run.

**When it fails,** the folder of requests could not be read, or Airflow refused a run. A table that
cannot be read fails nothing here: its requests stay open, and their clock tells.
"""

from __future__ import annotations

from firnline.airflow.approvals import Approve
from firnline.airflow.dags import READING
from firnline.airflow.erasure import (
    LONGEST,
    AllTables,
    ErasePeople,
    PlanErasure,
    StartErases,
    erasure_dag,
)
from firnline.airflow.overrides import Overrides
from firnline.settings.erasure import ErasureSettings


def make(settings: ErasureSettings, theirs: Overrides) -> None:
    """Make the DAG, with what users say of all DAGs."""
    with erasure_dag(settings, doc=__doc__, theirs=theirs):
        plan = PlanErasure(task_id="plan", execution_timeout=LONGEST)
        approve = Approve(task_id="approve", work=ErasePeople(), table=AllTables())
        start = StartErases(task_id="start", execution_timeout=READING)
        plan >> approve >> start
