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


def current_context() -> Context | None:
    """Return the context of the task that runs in this process; None outside of one."""
    from airflow.sdk import get_current_context

    try:
        return get_current_context()
    except RuntimeError:
        return None  # a DAG file that is parsed, or a test


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


def who_goes_on() -> str:
    """Return what takes up the work of a task that fails for a reason that may pass."""
    context = current_context()
    if context is None:
        return "the next run goes on from there"
    ti = context["ti"]
    if ti.task.retries and ti.try_number <= int(ti.max_tries):
        return "the next try goes on from there"
    return (
        f"no other try follows: clear the task {ti.task_id}, or trigger a new run, to go on "
        "from there"
    )


def where_logged() -> str:
    """Return where a person reads what this process has printed: a note has no log above it."""
    context = current_context()
    return "above" if context is None else f"in the log of the task {context['ti'].task_id}"
