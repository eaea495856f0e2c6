"""Facts on a run from Airflow's context: its identity, its type and the number of the try."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from airflow.sdk import Context

    from firnline.log.txn_file import RunIdentity


def run_identity(context: Context) -> RunIdentity:
    """Return the identity of the run for the table's history."""
    from firnline.log.txn_file import RunIdentity

    return RunIdentity(
        dag_id=context["dag"].dag_id,
        run_id=str(context["run_id"]),
        try_number=context["ti"].try_number,
        user=context["dag_run"].triggering_user_name or "",
        host=socket.gethostname(),
    )


def kind_of_run(context: Context) -> str:
    """Return ``manual``, ``backfill`` or ``scheduled``.

    Read from the run's type: a backfill that reprocesses a scheduled run keeps its id.
    """
    kind = context["dag_run"].run_type
    return str(getattr(kind, "value", kind))


def first_try(context: Context) -> int:
    """Return the number of the first try since the task was last cleared, as Airflow counts it.

    Later tries continue where that one ended; a try after a clear starts again.
    """
    ti = context["ti"]
    return max(1, int(ti.max_tries) - int(ti.task.retries or 0) + 1)
