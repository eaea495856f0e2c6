"""The end of an erase: runs of the clean-up complete its certificate, and tell of it.

``graphs.tombstone_cleanup`` creates the tasks. No key appears in a log, a note, an XCom or an
alert, nor does the path of an object, which may have one.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator

from firnline.airflow.access import open_in_task
from firnline.airflow.alerts import tell
from firnline.airflow.failures import airflow_failures, in_a_form
from firnline.airflow.figures import shortened, time_text
from firnline.airflow.runs import run_identity
from firnline.airflow.said import say
from firnline.airflow.tables import DagTable
from firnline.airflow.tasks import PlanOperation
from firnline.airflow.versions import AirflowSkipException
from firnline.airflow.works import CleanupWork
from firnline.errors import FirnlineError, RunFailedError
from firnline.units import counted

if TYPE_CHECKING:
    from airflow.sdk import Context

    from firnline.operations.cleanup.plan import CleanupPlan
    from firnline.operations.erase.attempt import Attempt, Hindrance
    from firnline.operations.options import CleanupOptions
    from firnline.pages import Page
    from firnline.settings.load import TableSettings
    from firnline.table import Table

_LOG = logging.getLogger(__name__)

CERTIFICATES = "certificates"
"""Id of the task, and figure of the plan."""
ERASED = "erased"
"""Reason of a call of a notifier: a certificate has become complete."""


@dataclass(frozen=True, slots=True)
class CleanupAndCertificates:
    """The plan of a run: objects to delete, and certificates to complete."""

    cleanup: CleanupPlan
    certificates: tuple[str, ...]
    """Ids of those that may be complete by now, oldest first."""

    @property
    def nothing_to_do(self) -> bool:
        """Return True if nothing may be deleted, and no certificate be completed."""
        return self.cleanup.nothing_to_do and not self.certificates

    def to_json(self) -> dict[str, Any]:
        """Return the figures of the clean-up, and the certificates."""
        return {
            **self.cleanup.to_json(),
            "nothing_to_delete": self.cleanup.nothing_to_do,
            CERTIFICATES: list(self.certificates),
        }


class CleanupRun(CleanupWork):
    """A clean-up, and the certificates of erases that wait for it."""

    def preview(self, table: Table, options: CleanupOptions) -> CleanupAndCertificates:
        """Return what a run would do. Requests: ``cleanup.run.preview``, ``ripe_certificates``.

        Raises NoTableError.
        """
        from firnline.commit.base import take_base
        from firnline.operations.cleanup.run import plan_on
        from firnline.operations.erase.pending import ripe_certificates

        self.about.load().require_table(table, options)
        base = take_base(table, everything=True)
        ripe = ripe_certificates(base.table, base.snapshot, table.clock.now_ms())
        return CleanupAndCertificates(plan_on(base, options), ripe)

    def plan_page(self, table: Table, figures: Mapping[str, Any]) -> Page:
        """Return what is deleted and what waits, and the certificates that are tried."""
        page = super().plan_page(table, figures)
        for erase in figures[CERTIFICATES]:
            page.line(f"Certificate {erase} may be complete.")
        if tried := len(figures[CERTIFICATES]):
            page.in_short(f"{page.sentence}; {counted(tried, 'certificate')} may be complete")
        return page


class PlanCleanup(PlanOperation):
    """Plans a clean-up, and which certificates are tried after it."""

    def spare(self, context: Context, figures: dict[str, Any]) -> list[str]:
        """Return also the clean-up without an object to delete, or the task of no certificate."""
        spare = super().spare(context, figures)
        if figures["nothing_to_delete"]:
            spare = [*spare, self.work.operation]
        return spare if figures[CERTIFICATES] else [*spare, CERTIFICATES]


class CompleteCertificates(BaseOperator):
    """Completes the certificates that ``plan`` has found, as far as that is possible now.

    Outside of the pool: a completion may run beside whatever else works on the table. One that
    cannot be tried keeps no other from it. What is complete is told at once, so a try that is
    killed tells it, or the next one does; that may tell it again.

    XCom: ``certificates``, what came of each; ``said``.

    Args:
        table: the table that the DAG works on.
        more: as for BaseOperator.
    """

    def __init__(self, *, table: DagTable, **more: Any) -> None:
        super().__init__(inlets=list(table.inlets), **more)
        self.table = table

    def execute(self, context: Context) -> dict[str, Any]:
        """Try each. Fails if rows of the keys may be there where they must not be."""
        planned = context["ti"].xcom_pull(task_ids="plan") or {}
        if not (ids := planned.get(CERTIFICATES)):
            raise AirflowSkipException("no certificate can be complete")
        return complete(self.table, ids, context)


def complete(table: DagTable, ids: Sequence[str], context: Context) -> dict[str, Any]:
    """Try each certificate, say what came of it, and return that as figures.

    Raises an AirflowException for one that cannot be tried, or whose rows may be left.
    """
    with airflow_failures():
        settings = table.of_run(context)
        tried, problems = _try_all(settings, ids, context)
        figures = shortened({CERTIFICATES: [_plain(attempt) for attempt in tried]})
        # Pushed here: a task that fails returns no value.
        context["ti"].xcom_push("return_value", figures)
        sentences = [sentence(attempt) for attempt in tried]
        for each in sentences:
            _LOG.info("%s: %s", settings.name, each)
        wrong = [problem for each in tried if (problem := rows_left(each))]
        if problems or wrong:
            raise _failure([*problems, *wrong], sentences)
        say(context, "; ".join(sentences))
    return figures


def _try_all(
    settings: TableSettings, ids: Sequence[str], context: Context
) -> tuple[list[Attempt], list[FirnlineError]]:
    """Try each certificate; return what came of it, and the errors of those that do not read.

    Raises an error after which all of them are tried again.
    """
    from firnline.operations.erase.attempt import try_certificate

    table, run = open_in_task(settings), run_identity(context)
    tried: list[Attempt] = []
    problems: list[FirnlineError] = []
    for erase in ids:
        try:
            attempt = try_certificate(table, erase, run)
        except FirnlineError as error:
            if error.retryable:
                raise
            _LOG.error("certificate %s: %s", erase, error)
            problems.append(error)
            continue
        tried.append(attempt)
        if attempt.by_this_run and not attempt.rows_left:
            said = f"table {settings.name}: {sentence(attempt)}"
            tell(settings.alerts, f"table {settings.name}", {**context}, ERASED, said)
    return tried, problems


def _plain(attempt: Attempt) -> dict[str, Any]:
    found = attempt.to_json()
    hindrances = [
        {**each, "next_step": in_a_form(each["next_step"])} for each in found["in_the_way"]
    ]
    return {**found, "in_the_way": hindrances, "rows_left": bool(attempt.rows_left)}


def _failure(errors: Sequence[FirnlineError], sentences: Sequence[str]) -> RunFailedError:
    first, *others = errors
    messages = [first.message, *(error.message for error in others), *sentences]
    return RunFailedError("; ".join(messages), next_step=first.next_step)


def rows_left(attempt: Attempt) -> RunFailedError | None:
    """Return the error of a certificate whose rows may be there and will not go by themselves."""
    if not attempt.rows_left:
        return None
    says = "states that the rows are gone" if attempt.status == "complete" else "stays open"
    left = _all_of(attempt.rows_left)
    return RunFailedError(
        f"certificate {attempt.id} {says}, and rows of its keys may be there: {left}",
        next_step=attempt.rows_left[0].next_step,
    )


def sentence(attempt: Attempt) -> str:
    """Return what came of a try, in one sentence without a key."""
    erase = f"the erase of {counted(attempt.keys, 'key')} on {time_text(attempt.t)} UTC"
    known = f"certificate {attempt.id} of {erase}"
    if attempt.status == "complete":
        return f"the {known} is complete"
    if attempt.status == "void":
        return f"the {known} is void: it was never committed"
    if not attempt.in_the_way:
        return f"the {known} waits: nobody knows yet whether it was committed"
    return f"the {known} waits for {_all_of(attempt.in_the_way)}; {_again(attempt)}"


def _all_of(found: Sequence[Hindrance]) -> str:
    return ", ".join(_one(each) for each in found)


def _one(found: Hindrance) -> str:
    what = f"{counted(found.count, found.kind)}" if found.count else f"{found.kind}s"
    if found.until_ms is not None:  # nobody has to do anything
        return f"{what} ({found.why})"
    return f"{what} ({found.why}; {in_a_form(found.next_step)})"


def _again(attempt: Attempt) -> str:
    times = [each.until_ms for each in attempt.in_the_way]
    known = [until for until in times if until is not None]
    if len(known) < len(times):
        return "each clean-up tries again"
    return f"the first clean-up after {time_text(max(known))} UTC completes it"
