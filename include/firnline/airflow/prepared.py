"""The question on a prepared change, and the task that commits it: ``graphs.rewrite_partitions``.

The evidence stands in the table, with the parts that it is about; XCom has its totals. Who answers
decides on exactly the change that was shown.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator, Param

from firnline.airflow.access import open_in_task
from firnline.airflow.approvals import (
    ANSWER_WITHIN,
    Approve,
    answer_within,
    answer_within_param,
    approved_by,
    refuse_approver,
    refuse_asking,
)
from firnline.airflow.evidence import question
from firnline.airflow.failures import airflow_failures
from firnline.airflow.once import once
from firnline.airflow.params import flag_param, form_params, form_values
from firnline.airflow.runs import first_try, run_identity
from firnline.airflow.said import say
from firnline.airflow.tables import DagTable
from firnline.airflow.tasks import begin, committed
from firnline.airflow.versions import AirflowSkipException
from firnline.airflow.work import OptionsT, SparkWork
from firnline.errors import FirnlineError, PreparedChangeError, UsageError
from firnline.settings.load import TableSettings
from firnline.units import DAY_MS, counted

if TYPE_CHECKING:
    from airflow.sdk import Context

    from firnline.operations.prepared.waiting import WaitingChange
    from firnline.table import Table

_LOG = logging.getLogger(__name__)
ASSERT = "assert"
"""Param of the assertions: the name of the command line's option."""
APPROVE = "approve"
"""Param that has a run ask before it commits, and id of the task that asks."""
PREPARED = "prepared"
"""XCom key of the totals of what a person is asked about."""


class PreparedWork(SparkWork[OptionsT]):
    """Work whose job may prepare a change instead of committing it.

    Its options have what can be prepared (``operations.prepare_options``).
    """

    def params(self, known: TableSettings | None = None) -> dict[str, Param]:
        """Return the params: those of the options, and whether a person is asked."""
        found = form_params(self.about.options, known)
        assertions = found.pop("assertions")
        return {
            **found,
            ASSERT: assertions,
            APPROVE: flag_param(
                False,
                "Approve",
                "Ask before the commit: the new parts are written, and the question shows which "
                "rows they remove, add and change. Nobody sees them before they are approved.",
            ),
            ANSWER_WITHIN: answer_within_param(),
        }

    def options(self, params: Mapping[str, Any], *, dry_run: bool) -> OptionsT:
        """Return the options. Raises UsageError."""
        import msgspec

        from firnline.operations.rewrite.plan import refuse_evidence

        wait = answer_within(params)  # checked before the approval task starts
        given = {**params, "assertions": params.get(ASSERT)}
        asked: Any = self.about.options(**form_values(self.about.options, given), dry_run=dry_run)
        if not params.get(APPROVE):
            refuse_evidence(asked)
        else:
            if not dry_run:
                refuse_asking(self.noun)  # before anything is prepared
            keep = int(wait.total_seconds() * 1000) + DAY_MS
            asked = msgspec.structs.replace(asked, prepare=True, keep=keep)
        options: OptionsT = asked
        return options

    def parse_params(self, context: Context) -> OptionsT:
        """Return the options from the params, with the first try of this execution."""
        import msgspec

        asked: Any = super().parse_params(context)
        options: OptionsT = msgspec.structs.replace(asked, first_try=first_try(context))
        return options

    def completes(self, options: OptionsT) -> bool:
        """Return False for a job that prepares: the commit completes the run."""
        asked: Any = options
        prepares: bool = asked.prepare
        return not prepares

    def question(
        self,
        table: TableSettings,
        figures: Mapping[str, Any],
        now_ms: int,  # noqa: ARG002 - as the protocol
    ) -> tuple[str, str]:
        """Return the question on what was prepared, with its evidence."""
        return question(table, figures)


class ApprovePrepared(Approve):
    """Asks whether a prepared change is committed; no answer counts as a rejection.

    Skips itself, and with it the commit, if the run commits without a question, or if nothing
    changes. After a rejection the prepared parts are deleted at once. XCom: as of Approve, and
    ``prepared``, the id of the change; under ``PREPARED`` its totals.
    """

    def execute(self, context: Context) -> None:
        """Ask. Raises TaskAwaitingInput: Airflow's way to park a task."""
        if not context["params"].get(APPROVE):
            raise AirflowSkipException("this run commits without a question")
        super().execute(context)

    def figures(self, context: Context) -> dict[str, Any]:
        """Return the prepared change as plain data."""
        import msgspec

        with airflow_failures():
            table = open_in_task(self.table.of_run(context))
            change = _change_of(table, context)
        if change is None:
            self._nothing(context, table)
            raise AirflowSkipException("nothing would change, so nobody is asked")
        context["ti"].xcom_push(PREPARED, totals(change))
        found: dict[str, Any] = msgspec.to_builtins(change)
        return found

    def _nothing(self, context: Context, table: Table) -> None:
        """Record the run as done: a run that changes nothing counts."""
        with airflow_failures():
            before = once(self.work, table, context) if isinstance(self.work, SparkWork) else None
            if before is not None and not before.is_done:
                before.record(())
        say(context, "nothing would change, so nobody was asked")

    def told(self, context: Context) -> dict[str, Any]:
        """Return the id of the change that the person was asked about."""
        shown = context["ti"].xcom_pull(task_ids=self.task_id, key=PREPARED)
        return {"prepared": shown["id"] if isinstance(shown, dict) else None}

    def rejected(self, context: Context, told: Mapping[str, Any]) -> None:
        """Delete the prepared parts, which nobody will commit any more."""
        from firnline.operations.prepared.run import discard_prepared

        with airflow_failures():
            table = open_in_task(self.table.of_run(context))
            why = "nobody answered in time" if told["timed_out"] else f"rejected by {told['by']}"
            if told["prepared"] is None:
                return
            try:
                report = discard_prepared(table, told["prepared"], run_identity(context), why)
            except PreparedChangeError as error:
                _LOG.warning("%s", error)  # somebody was quicker at the command line
                return
        _LOG.info("%s deleted: %s", counted(report.parts, "prepared part"), why)


def totals(change: WaitingChange) -> dict[str, Any]:
    """Return the totals of a prepared change, for XCom."""
    shown = change.evidence
    return {
        "id": change.id,
        "partitions": shown.partition_count,
        "rows_before": shown.rows_before,
        "rows_after": shown.rows_after,
        "removed": shown.removed,
        "added": shown.added,
        "changed": shown.changed,
        "parts": change.parts,
        "bytes": change.bytes,
    }


def _change_of(table: Table, context: Context) -> WaitingChange | None:
    """Return what this run has prepared and nobody has decided on; the newest, if several."""
    from firnline.operations.prepared.waiting import of_run

    found = [change for change in of_run(table, run_identity(context)) if not change.begun]
    return found[-1] if found else None


class CommitPrepared(BaseOperator):
    """Commits what was prepared and approved, in one transaction; holds the pool, needs no Spark.

    XCom: ``transactions``, ``seconds`` and ``earlier``. If the table has changed since, the change
    is refused and discarded, and the task fails.

    Args:
        work: the work that was prepared.
        table: the table that the DAG works on.
        more: as for BaseOperator; ``pool`` among it.
    """

    def __init__(self, *, work: PreparedWork[Any], table: DagTable, **more: Any) -> None:
        super().__init__(inlets=list(table.inlets), **more)
        self.work = work
        self.table = table

    def execute(self, context: Context) -> dict[str, Any]:
        """Commit. Raises PreparedChangeError, as Airflow's failure without a retry."""
        with airflow_failures():
            settings = self.table.of_run(context)
            change, by = _approved(context), approved_by(context)
            refuse_approver(self.work, settings, context, by)
            table = open_in_task(settings)
            before = begin(self.work, table, context)
            report = self._commit(table, context, change, by)
            if before is not None:
                before.record(committed(table, context))
        _LOG.info(
            "committed as transaction %s, %.1f s after the task began", *report["transactions"],
            report["seconds"],
        )  # fmt: skip
        return report

    def _commit(self, table: Table, context: Context, change: str, by: str) -> dict[str, Any]:
        import msgspec

        from firnline.operations.prepared.run import commit_prepared, discard_prepared

        run = msgspec.structs.replace(run_identity(context), approved_by=by)
        try:
            report = commit_prepared(table, change, run)
        except PreparedChangeError:
            try:
                discard_prepared(table, change, run, "the table had changed before the commit")
            except FirnlineError as error:  # the sweep ends it
                _LOG.warning("%s", error)
            raise
        return {
            "prepared": change,
            "transactions": list(report.transactions),
            "earlier": report.earlier,
            "seconds": report.seconds,
        }


def _approved(context: Context) -> str:
    answer = context["ti"].xcom_pull(task_ids=APPROVE)
    change = answer.get("prepared") if isinstance(answer, dict) else None
    if not isinstance(change, str):
        raise UsageError(
            f"nobody approved a prepared change in run {context['run_id']}, so nothing is done",
            next_step=f"clear its task {APPROVE} and answer it, or trigger a new run",
        )
    return change
