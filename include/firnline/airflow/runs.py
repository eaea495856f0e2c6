"""Facts on a run from Airflow's context: its identity, its type and the number of the try."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from firnline.operations.dag_ids import DagId, parse_dag_id

if TYPE_CHECKING:
    from airflow.sdk import Context

    from firnline.log.txn_file import RunIdentity

WORK = "firnline_work"
"""Key of a context: operation and table of a task in a DAG that is not ours, as a ``DagId``."""


def operation_of(context: Mapping[str, Any]) -> DagId | None:
    """Return the operation and the table that a task works for; None for a DAG without either.

    Of a task in a DAG that is not ours its operator says it; of all others the id of their DAG.

    Args:
        context: Airflow's, of any kind: the DAG or the run may be plain data.
    """
    told: DagId | None = context.get(WORK)
    if told is not None:
        return told
    return parse_dag_id(field_of(context.get("dag"), "dag_id", context.get("dag_run")))


def field_of(value: object, name: str, *others: object) -> str:
    """Return a field of the first object, or plain data, that has it; empty if none does."""
    for each in (value, *others):
        found = each.get(name) if isinstance(each, Mapping) else getattr(each, name, None)
        if found:
            return str(found)
    return ""


def run_identity(context: Context) -> RunIdentity:
    """Return the identity of the run for the table's history."""
    from firnline.log.txn_file import RunIdentity

    ti = context["ti"]
    return RunIdentity(
        dag_id=context["dag"].dag_id,
        task_id=_part_of_run(ti) if WORK in context else "",
        run_id=str(context["run_id"]),
        try_number=ti.try_number,
        user=context["dag_run"].triggering_user_name or "",
        host=socket.gethostname(),
    )


def _part_of_run(ti: Any) -> str:  # noqa: ANN401 - of any version
    """Return the id of a task, and which of its copies it is if it was expanded."""
    index = getattr(ti, "map_index", None)
    return str(ti.task_id) if index is None or index < 0 else f"{ti.task_id}[{index}]"


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
