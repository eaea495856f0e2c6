"""Tasks that wait for a person to pick from a list or to approve a plan.

They wait outside every pool and without a process: Airflow parks them as ``awaiting_input``, or
until 3.2 as ``deferred``, and then the triggerer looks for the answer. The table may have changed
by the time of the answer: the task after them, which holds the pool, checks the choice again.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

from airflow.sdk import Param
from airflow.sdk.definitions.param import ParamsDict

from firnline.airflow import versions
from firnline.airflow.alerts import tell_waiting
from firnline.airflow.answers import NONE, answer_lines, pick_lines
from firnline.airflow.failures import airflow_failures
from firnline.airflow.params import duration_param
from firnline.airflow.said import say
from firnline.airflow.tables import DagTable
from firnline.airflow.versions import ApprovalOperator, DownstreamTasksSkipped, HITLOperator
from firnline.errors import EnvironmentFaultError, UsageError
from firnline.settings.load import TableSettings
from firnline.units import about_duration, about_size, counted, format_duration, parse_duration

if TYPE_CHECKING:
    from airflow.sdk import Context

_LOG = logging.getLogger(__name__)

ANSWER_WITHIN = "answer_within"
WAIT = "24h"
"""Time that a question waits unless told otherwise."""
_LEAST_MS, _MOST_MS = 1_000, 30 * 86_400_000

_LATE = "nobody answered in time"
LISTED = "listed"
"""XCom key of the rows that can be picked."""


class OfRun(Protocol):
    """Finds the table whose settings say who may approve, and whom to tell."""

    @property
    def name(self) -> str:
        """Return it for titles: ``table flights``."""
        ...

    def of_run(self, context: Context) -> TableSettings:
        """Return the settings. Raises UsageError."""
        ...


class Asking(Protocol):
    """Work that a person approves."""

    @property
    def noun(self) -> str:
        """Return the noun for messages: ``an erase``."""
        ...

    @property
    def operation(self) -> str:
        """Return the part of the DAG's id before ``__``, by which ``answers`` has its words."""
        ...

    def question(
        self, table: TableSettings, figures: Mapping[str, Any], now_ms: int
    ) -> tuple[str, str]:
        """Return headline and Markdown text, from the XCom of the preceding task.

        Args:
            table: the table.
            figures: that XCom.
            now_ms: the time at which a person is asked, unix ms.
        """
        ...


def answer_within_param() -> Param:
    """Return the param for the time within which a person must answer."""
    return duration_param(
        WAIT,
        "Answer within",
        "Such as `24h`, at most `30d`. Without an answer by then nothing happens.",
    )


def answer_within(params: Mapping[str, Any]) -> timedelta:
    """Return the value given for ``answer_within_param``. Raises UsageError."""
    wait = parse_duration(params.get(ANSWER_WITHIN) or WAIT)
    if not _LEAST_MS <= wait <= _MOST_MS:
        raise UsageError(
            f"{ANSWER_WITHIN} is {format_duration(wait)}, which is out of bounds",
            next_step="give a time from 1s to 30d",
        )
    return timedelta(milliseconds=wait)


def refuse_asking(noun: str) -> None:
    """Refuse what needs an answer in an Airflow that cannot ask.

    Args:
        noun: what it is for: ``an erase``.

    Raises:
        EnvironmentFaultError: it is older than 3.1.
    """
    if not versions.AIRFLOW_3_1_PLUS:
        raise EnvironmentFaultError(
            versions.needs("3.1", f"a question on {noun}", "nobody is asked and nothing is done"),
            next_step="upgrade Airflow, or do it with the command line",
        )


class _WithoutFields(HITLOperator):
    """A question whose form asks for nothing but the answer.

    Until Airflow 3.1 the params of the DAG would become its fields, and those that a run must give
    would have to have values when the DAG is made.
    """

    def validate_params(self) -> None:
        """Leave out all params; Airflow calls it when the task is made."""
        self.params = ParamsDict()


class Pick(_WithoutFields):
    """Lets a person pick from the names that an earlier task listed.

    XCom: ``picked`` (names), ``by`` and ``timed_out``. Without an answer in time, all downstream
    tasks are skipped.

    Args:
        listed: id of the task whose XCom holds, under the key ``LISTED``, the rows of
            ``partition_table``.
        table: the table that the DAG works on.
        what: description of the names for the headline: ``partitions to remove``.
        more: as for HITLOperator.
    """

    def __init__(self, *, listed: str, table: DagTable, what: str, **more: Any) -> None:
        # Airflow requires options when the DAG is made; the real ones are known in the run. A
        # retry does not help against a missing answer.
        super().__init__(
            subject=f"Pick {what}",
            options=[NONE],
            multiple=True,
            **{"retries": 0, **more},
        )
        self.listed = listed
        self.table = table
        self.what = what

    def execute(self, context: Context) -> None:
        """Ask. Raises TaskAwaitingInput: Airflow's way to park a task."""
        with airflow_failures():
            refuse_asking(self.what)
        rows = self._take(context)
        figures = context["ti"].xcom_pull(task_ids=self.listed)
        now = _now_ms()
        lines = [*partition_table(rows, now), *unlisted_lines(figures["unlisted"])]
        with airflow_failures():
            table = self.table.of_run(context)
            self.subject = f"Pick {self.what} of table {table.name}"
            self.response_timeout = answer_within(context["params"])
        until = now + _milliseconds(self.response_timeout)
        self.body = "\n".join([*lines, pick_lines(until)])
        tell_waiting(table, context, self.subject)
        super().execute(context)

    def execute_complete(self, context: Context, event: dict[str, Any]) -> dict[str, Any]:
        """Read the answer, in a new process that has none of the state of ``execute``."""
        self._take(context)
        answer = super().execute_complete(context, event)
        picked, who = list(answer["chosen_options"]), _who(answer, event)
        if NONE in picked:
            # Also beside others: who is of two minds removes nothing.
            why = f"{who['by'] or 'somebody'} picked {NONE}"
            _skip_all(self, context, {"picked": [], **who}, why)
        if not picked:
            _skip_all(self, context, {"picked": [], **who}, _LATE)
        return {"picked": picked, **who}

    def _take(self, context: Context) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = context["ti"].xcom_pull(task_ids=self.listed, key=LISTED)
        self.options = [*(row["name"] for row in rows), NONE]
        self.defaults = []  # picked on a time-out
        return rows


class Approve(_WithoutFields, ApprovalOperator):
    """Lets a person approve a plan; no answer counts as a rejection.

    XCom: ``approved``, ``by``, ``timed_out``. Without approval all downstream tasks are skipped,
    the report included, and the run is a success that did nothing.

    Args:
        work: the work to approve.
        table: the table that the DAG works on; its ``approvers`` are the persons who may approve.
        plan: id of the task whose XCom holds the figures.
        more: as for ApprovalOperator.
    """

    def __init__(self, *, work: Asking, table: OfRun, plan: str = "plan", **more: Any) -> None:
        # The stock operator leaves tear-downs to run after a no.
        super().__init__(
            subject=f"Approve {work.noun} of {table.name}",
            defaults=[ApprovalOperator.REJECT],
            **{"retries": 0, **more},
        )
        self.work = work
        self.table = table
        self.plan = plan

    def execute(self, context: Context) -> dict[str, Any] | None:
        """Ask, or return an answer. Raises TaskAwaitingInput: Airflow's way to park a task."""
        answered = self.answered(context)
        if answered is None:
            self._ask(context)
        return answered

    def answered(self, context: Context) -> dict[str, Any] | None:  # noqa: ARG002 - for subclasses
        """Return the answer of somebody who was asked elsewhere; None to ask."""
        return None

    def _ask(self, context: Context) -> None:
        with airflow_failures():
            refuse_asking(self.work.noun)
        figures = self.figures(context)
        with airflow_failures():
            table = self.table.of_run(context)
            now, self.response_timeout = _now_ms(), answer_within(context["params"])
            self.subject, body = self.work.question(table, figures, now)
            until = now + _milliseconds(self.response_timeout)
            answers = answer_lines(self.work.operation, table, figures, until)
            self.body = body + answers + approver_lines(table, context)
        tell_waiting(table, context, self.subject)
        super().execute(context)

    def figures(self, context: Context) -> dict[str, Any]:
        """Return the plan's figures, on which the person decides."""
        found: dict[str, Any] = context["ti"].xcom_pull(task_ids=self.plan)
        return found

    def told(self, context: Context) -> dict[str, Any]:  # noqa: ARG002 - for subclasses
        """Return what XCom says besides the answer."""
        return {}

    def rejected(self, context: Context, told: Mapping[str, Any]) -> None:
        """Undo what was prepared for the question; called before the tasks after it are skipped."""

    def execute_complete(self, context: Context, event: dict[str, Any]) -> dict[str, Any]:
        """Read the answer, in a new process. Asks again if it is not the person's to approve.

        Anyone may reject.
        """
        answer = HITLOperator.execute_complete(self, context, event)
        approved = answer["chosen_options"] == [self.APPROVE]
        if approved:
            with airflow_failures():
                table = self.table.of_run(context)
                problem = approver_problem(table, context, _who(answer, event)["by"])
            if problem is not None:
                _LOG.warning("%s, which does not count; the question is asked again", problem)
                self._ask(context)
        told = {"approved": approved, **_who(answer, event), **self.told(context)}
        if not approved:
            self.rejected(context, told)
            by = told["by"] or "somebody"
            _skip_all(self, context, told, _LATE if told["timed_out"] else f"rejected by {by}")
        return told


def approved_by(context: Context, task_id: str = "approve") -> str:
    """Return the name of the person who approved this run; empty if Airflow has no name.

    Raises UsageError: nobody did. A task that was marked a success by hand gives no answer.
    """
    by = approver(context, task_id)
    if by is None:
        raise UsageError(
            f"nobody approved run {context['run_id']}, so nothing is done",
            next_step=f"clear its task {task_id} and answer it, or trigger a new run",
        )
    return by


def approver(context: Context, task_id: str = "approve") -> str | None:
    """Return the name of who approved, empty if Airflow has none; None: nobody did."""
    answer = context["ti"].xcom_pull(task_ids=task_id)
    if not isinstance(answer, dict) or answer.get("approved") is not True:
        return None
    return str(answer.get("by") or "")


def refuse_approver(
    work: Asking,
    table: TableSettings,
    context: Context,
    by: str | None,
    task_id: str = "approve",
) -> None:
    """Check an approval against the table's ``approvers``; without any, all approvals count.

    Raises:
        UsageError: the approver is not in the settings, or started the run.
    """
    problem = approver_problem(table, context, by)
    if problem is None:
        return
    others = may_approve(table, context)
    raise UsageError(
        f"{work.noun} of table {table.name} is not approved: {problem}, so nothing is done",
        next_step=f"clear its task {task_id} and have {_any_of(others)} answer it",
    )


def approver_problem(table: TableSettings, context: Context, by: str | None) -> str | None:
    """Return why an approval by this person does not count; None if it does.

    Raises UsageError if nobody may approve this run.
    """
    if table.approvers is None or by in may_approve(table, context):
        return None
    name = by or "somebody without a name"
    if by in table.approvers:
        return f"{name} started run {context['run_id']} and approved it too"
    return f"{name} approved it, who is not among its approvers"


def may_approve(table: TableSettings, context: Context) -> tuple[str, ...]:
    """Return the names of the table's approvers who did not start this run.

    A run started by a schedule or by another DAG excludes no approver. Raises UsageError if none
    is left.
    """
    started_by = context["dag_run"].triggering_user_name
    found = tuple(name for name in table.approvers or () if name != started_by)
    if not found:
        raise UsageError(
            f"nobody may approve run {context['run_id']}: {started_by}, who started it, is the "
            f"only one among the approvers of table {table.name}",
            next_step="have somebody else start it, or name further approvers in the settings",
        )
    return found


def approver_lines(table: TableSettings, context: Context) -> str:
    """Return the closing lines of a question that name the approvers. Raises UsageError if none."""
    if table.approvers is None:
        return ""
    names = ", ".join(map(code, may_approve(table, context)))
    return f"\n\nOnly an approval by {names} counts."


def _any_of(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"one of {', '.join(names)}"


def partition_table(rows: Sequence[Mapping[str, Any]], now_ms: int) -> list[str]:
    """Return partitions with their sizes as a Markdown table.

    Args:
        rows: ``name``, ``parts``, ``rows`` (None if unknown), ``bytes``, ``newest_ms``.
        now_ms: the time at which ages are shown.
    """
    lines = ["| partition | parts | rows | size | newest rows added |", "|---|--:|--:|--:|---|"]
    return lines + [
        f"| {code(row['name'])} | {row['parts']:,} | {count(row['rows'])} | "
        f"{about_size(row['bytes'])} | {age_text(row, now_ms)} ago |"
        for row in rows
    ]


def age_text(row: Mapping[str, Any], now_ms: int) -> str:
    """Return how long ago the newest rows of a partition were added: ``3d 2h``."""
    return about_duration(max(0, now_ms - row["newest_ms"]))


def unlisted_lines(unlisted: int) -> list[str]:
    """Return the lines that say how many partitions are not in the list."""
    if not unlisted:
        return []
    narrow = "start a run with the param `partitions` for them"
    more = counted(unlisted, "further partition")
    return ["", f"**{more} cannot be picked here:** {narrow}."]


def code(text: str) -> str:
    """Return text from the table as inline code, with Markdown and table bars escaped."""
    # Control characters would end the row; a backtick would end the code.
    plain = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)
    return f"`{plain.replace('`', chr(39)).replace('|', chr(92) + '|')}`"


def count(rows: int | None) -> str:
    """Format a number of rows; ``unknown`` for None."""
    return "unknown" if rows is None else f"{rows:,}"


def _who(answer: Mapping[str, Any], event: Mapping[str, Any]) -> dict[str, Any]:
    user = answer["responded_by_user"]
    return {"by": user["name"] if user else None, "timed_out": bool(event.get("timedout"))}


def _milliseconds(wait: timedelta) -> int:
    return wait // timedelta(milliseconds=1)


def _now_ms() -> int:
    from firnline.clock import SystemClock

    return SystemClock().now_ms()


def _skip_all(operator: HITLOperator, context: Context, told: dict[str, Any], why: str) -> NoReturn:
    """Skip all downstream tasks, tear-downs included; the run's note says why.

    Raises DownstreamTasksSkipped.
    """
    context["ti"].xcom_push("return_value", told)
    said = f"{why}, so nothing was done"
    say(context, said)
    _LOG.info(said)
    after = [task.task_id for task in operator.get_flat_relatives(upstream=False)]
    raise DownstreamTasksSkipped(tasks=sorted(after))  # type: ignore[no-untyped-call] # Airflow's
