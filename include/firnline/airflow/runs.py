"""What Airflow's context says of a run: who started it, how, and which try this is."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from airflow.sdk import Context

    from firnline.log.txn_file import RunIdentity


def run_identity(context: Context) -> RunIdentity:
    """Who does it, for the table's history."""
    from firnline.log.txn_file import RunIdentity

    return RunIdentity(
        dag_id=context["dag"].dag_id,
        run_id=str(context["run_id"]),
        try_number=context["ti"].try_number,
        user=context["dag_run"].triggering_user_name or "",
        host=socket.gethostname(),
    )


def kind_of_run(context: Context) -> str:
    """``manual``, ``backfill`` or ``scheduled``.

    From the run itself: a backfill that processes a scheduled run again keeps its id.
    """
    kind = context["dag_run"].run_type
    return str(getattr(kind, "value", kind))


def first_try(context: Context) -> int:
    """Number of the first try since the task was last cleared, as Airflow itself counts it.

    A try after it goes on where that one ended; one that somebody asked for begins anew.
    """
    ti = context["ti"]
    return max(1, int(ti.max_tries) - int(ti.task.retries or 0) + 1)
