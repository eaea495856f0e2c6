"""Requests of erasure under Airflow: look, ask once for all tables, start an erase of each.

``graphs.people`` creates the DAG. The erases are runs of the DAG ``erase``, each under the
lock of its table; they take the approval of the run that has started them. No key appears here.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow.sdk import DAG, BaseOperator, get_parsing_context

from firnline.airflow.access import store_access
from firnline.airflow.alerts import FailureAlert, tell
from firnline.airflow.approvals import (
    ANSWER_WITHIN,
    answer_within,
    answer_within_param,
    approved_by,
    code,
    refuse_approver,
)
from firnline.airflow.failures import airflow_failures
from firnline.airflow.figures import shortened
from firnline.airflow.fleet import members_of
from firnline.airflow.overrides import NONE, Overrides
from firnline.airflow.params import DRY_RUN, flag_param
from firnline.airflow.runs import run_identity
from firnline.airflow.said import say
from firnline.airflow.settings import current_settings
from firnline.airflow.tables import clock_of
from firnline.airflow.tasks import log_page
from firnline.airflow.versions import AirflowFailException, DownstreamTasksSkipped
from firnline.errors import EnvironmentFaultError, UsageError
from firnline.operations.dag_ids import ERASE_PERSON, TAG, run_of
from firnline.settings.erasure import ErasureSettings
from firnline.settings.load import Settings, TableSettings
from firnline.settings.notifiers import AlertSettings
from firnline.units import about_size, counted

if TYPE_CHECKING:
    from airflow.sdk import Context

    from firnline.operations.erasure.plan import ErasurePlan
    from firnline.operations.erasure.run import People

_LOG = logging.getLogger(__name__)

LONGEST = timedelta(minutes=50)
"""Time limit of the task that looks: it reads the logs and the keys of all tables."""
ERASES = "erases"
"""Figure of the plan: what is erased from each table, whole."""
ASKED_IN = "asked_in"
"""Param of an erase: the run of ``erase_person`` in which it was approved."""
_PREFIX = "person__"


def erasure_to_run() -> ErasureSettings | None:
    """Return the settings of requests; None without any, or if another DAG's task starts.

    Raises SettingsError: the settings file is not valid; Airflow shows it as an import error.
    """
    if get_parsing_context().dag_id not in (None, ERASE_PERSON):
        return None
    settings = current_settings()
    asked = settings.erasure.requests and any(t.person for t in settings.tables.values())
    return settings.erasure if asked else None


@contextmanager
def erasure_dag(
    settings: ErasureSettings, *, doc: str | None, theirs: Overrides = NONE
) -> Iterator[DAG]:
    """Yield the DAG for a ``with`` statement.

    Args:
        settings: the section ``erasure``.
        doc: Markdown.
        theirs: what users say of all DAGs.
    """
    alerts = settings.alerts
    alert = FailureAlert(alerts.notifier, alerts.arguments) if alerts.notifier else None
    with DAG(
        dag_id=ERASE_PERSON,
        description="Erase the people who asked for it from all tables that have rows of them",
        doc_md=doc,
        schedule=clock_of(settings.schedule),
        catchup=False,
        # A question may wait for days, and the next run asks for all that waits by then.
        max_active_runs=1,
        params={
            ANSWER_WITHIN: answer_within_param(),
            DRY_RUN: flag_param(
                False, "Dry run", "Only look: what would be erased is in the log of `plan`."
            ),
        },
        tags=theirs.tags({TAG, "erase"}),
        default_args={
            "owner": "firnline",
            "retries": 2,
            "retry_delay": timedelta(minutes=1),
            **theirs.default_args,
        },
        on_failure_callback=theirs.failure_callbacks(alert) or None,
        **theirs.dag_args,
    ) as dag:
        yield dag


class AllTables:
    """All tables with rows of people, as one: who may approve for all, and whom to tell."""

    name = "all tables"

    def of_run(self, context: Context) -> TableSettings:  # noqa: ARG002 - as of a table
        """Return settings that stand for all of them.

        Raises UsageError: the tables name approvers, and nobody is one of each.
        """
        settings = current_settings()
        named = [set(t.approvers) for t in settings.tables.values() if t.person and t.approvers]
        approvers = tuple(sorted(set.intersection(*named))) if named else None
        if named and not approvers:
            raise UsageError(
                "nobody is among the approvers of every table with rows of people",
                next_step="name somebody in the approvers of all of them",
            )
        alerts = settings.erasure.alerts
        return TableSettings(
            name="all-tables",
            root=settings.erasure.requests or "",
            connection_id=settings.erasure.connection_id,
            approvers=approvers,
            alerts=AlertSettings(notifier=alerts.notifier, arguments=alerts.arguments),
        )


class ErasePeople:
    """The question whether the requests that wait may be carried out."""

    noun = "an erasure"
    operation = ERASE_PERSON

    def question(
        self,
        table: TableSettings,  # noqa: ARG002 - as of other questions
        figures: Mapping[str, Any],
        now_ms: int,  # noqa: ARG002 - likewise
    ) -> tuple[str, str]:
        """Return a question with the requests and the tables; never a key."""
        batches = [each for each in figures["tables"] if each["batch"]]
        asked = {request for each in figures[ERASES] for request in each["ids"]}
        requests = counted(len(asked), "request")
        tables = counted(len(figures[ERASES]), "table")
        text = [
            f"All rows of the people of **{requests}** go for good from {tables}.",
            "**No restore brings them back.**",
            "",
            "| table | requests | keys | parts to read | size |",
            "|---|--:|--:|--:|--:|",
        ]
        text += [
            f"| {code(each['table'])} | {len(each['batch'])} | {each['keys']:,} | "
            f"{each['parts']:,} | {about_size(each['bytes'])} |"
            for each in batches
        ]
        return f"Erase {requests} from {tables}?", "\n".join(text)


class PlanErasure(BaseOperator):
    """Completes certificates, closes requests that are done, and looks what waits.

    XCom: the figures of the plan, the first 50 of each list; ``erases``, whole: of each table the
    columns, the ids of the requests and where their keys are; ``closed_now``; ``dry_run``.
    """

    def execute(self, context: Context) -> dict[str, Any]:
        """Look, tell of what is overdue or soon due, and skip the rest if nothing waits."""
        with airflow_failures():
            dry_run = _is_dry_run(context)
            settings = current_settings()
            people = people_of(settings)
            plan, closed = _looked(people, context, dry_run=dry_run)
            figures = _figures(people, plan)
        figures |= {"closed_now": list(closed), DRY_RUN: dry_run}
        said = self._logged(plan)
        if (plan.urgent or plan.unread) and not dry_run:
            self._tell(settings.erasure, context, plan)
        context["ti"].xcom_push("return_value", figures)
        if dry_run or plan.nothing_to_do:
            say(context, f"dry run, nothing done: {said}" if dry_run else said)
            raise DownstreamTasksSkipped(tasks=sorted(self.downstream_task_ids))  # type: ignore[no-untyped-call] # Airflow's
        return figures

    @staticmethod
    def _logged(plan: ErasurePlan) -> str:
        from firnline.operations.erasure.pages import plan_page

        page = plan_page(plan.to_json())
        log_page(page)
        return page.sentence

    @staticmethod
    def _tell(settings: ErasureSettings, context: Context, plan: ErasurePlan) -> None:
        from firnline.operations.erasure.run import overdue_text

        late = [overdue_text(plan.urgent, plan.now_ms)] if plan.urgent else []
        sentence = "; ".join([*late, *plan.unread])
        _LOG.warning(sentence)
        tell(settings.alerts, "erasure", {**context}, DUE, sentence)


DUE = "due"
"""Reason of a call of a notifier: a request is due soon, or overdue."""


class StartErases(BaseOperator):
    """Starts an erase of each table that the plan names, once somebody has approved it.

    XCom: ``started``, the tables; ``refused``, with what Airflow said.
    """

    def execute(self, context: Context) -> dict[str, Any]:
        """Start them. A retry starts nothing twice.

        Raises AirflowFailException: Airflow refused one; the others are started.
        """
        from firnline.airflow.triggering import PlannedRuns

        with airflow_failures():
            refuse_approver(
                ErasePeople(), AllTables().of_run(context), context, approved_by(context)
            )
            tables = current_settings().tables
        erases = context["ti"].xcom_pull(task_ids="plan")[ERASES]
        runs = PlannedRuns(context["ti"])
        started, refused = list[str](), list[str]()
        for each in erases:
            run = run_of("erase", tables[each["table"]])
            conf = {
                **run.conf,
                DRY_RUN: False,
                "columns": each["columns"],
                "requests": each["requests"],
                ASKED_IN: str(context["run_id"]),
            }
            note = f"Started by {ERASE_PERSON} for {counted(len(each['ids']), 'request')}."
            run_id = run.run_id(f"{_PREFIX}{context['run_id']}")
            try:
                runs.start(run.dag_id, run_id, conf, note)
                started.append(each["table"])
            except EnvironmentFaultError as error:
                _LOG.error("%s: %s", each["table"], error)
                refused.append(f"{each['table']}: {error.message}")
        figures = {"started": started, "refused": refused}
        context["ti"].xcom_push("return_value", figures)
        say(context, f"erases of {counted(len(started), 'table')} started: {', '.join(started)}")
        if refused:
            raise AirflowFailException("; ".join(refused))
        return figures


def approval_of(context: Context, wanted: Mapping[str, Any]) -> str:
    """Return who approved an erase in the run of ``erase_person`` that has started it.

    Requests to Airflow's API server: two.

    Args:
        context: of a task of the erase.
        wanted: ``table``, ``columns`` and ``requests`` of it.

    Raises:
        UsageError: nobody did, or something else was approved.
    """
    ti, asked_in = context["ti"], str(context["params"].get(ASKED_IN))
    answer = ti.xcom_pull(task_ids="approve", dag_id=ERASE_PERSON, run_id=asked_in)
    planned = ti.xcom_pull(task_ids="plan", dag_id=ERASE_PERSON, run_id=asked_in)
    step = f"leave {ASKED_IN} to {ERASE_PERSON}, which sets it"
    if not isinstance(answer, dict) or answer.get("approved") is not True:
        raise UsageError(
            f"nobody approved run {asked_in} of {ERASE_PERSON}, so nothing is done", next_step=step
        )
    erases = planned.get(ERASES, ()) if isinstance(planned, dict) else ()
    if not any(all(each.get(name) == wanted[name] for name in wanted) for each in erases):
        raise UsageError(
            f"run {asked_in} of {ERASE_PERSON} was approved for other tables or requests",
            next_step=step,
        )
    return str(answer.get("by") or "")


def people_of(settings: Settings) -> People:
    """Return the tables with rows of people; each Airflow connection is looked up in this thread.

    Raises UsageError: the settings name no folder of requests.
    """
    from firnline.operations.erasure.folder import open_folder
    from firnline.operations.erasure.run import People

    # Without a folder, which somebody may have taken out since, opening it says so.
    named = settings.erasure.requests is not None
    folder = open_folder(settings.erasure, store_access(AllTables().of_run({})) if named else None)
    tables = [table for table in settings.tables.values() if table.person]
    opens = {each.name: each.open for each in members_of(tables, frozenset())}
    return People(folder, settings, lambda name: opens[name]())


def _looked(
    people: People, context: Context, *, dry_run: bool
) -> tuple[ErasurePlan, tuple[str, ...]]:
    from firnline.operations.erasure.run import look, settle

    return (look(people), ()) if dry_run else settle(people, run_identity(context))


def _figures(people: People, plan: ErasurePlan) -> dict[str, Any]:
    """Return the figures for XCom, cut but for what is to be started."""
    import msgspec

    from firnline.operations.erasure.run import batch_of

    erases = []
    for look in plan.batches:
        options = batch_of(people, look, plan)
        requests = [msgspec.to_builtins(each) for each in options.requests]
        erases.append(
            {
                "table": look.table,
                "columns": list(look.columns),
                "requests": requests,
                "ids": list(look.batch),
            }
        )
    return {**shortened(plan.to_json()), ERASES: erases}


def _is_dry_run(context: Context) -> bool:
    """Return True if the run only looks. Raises UsageError for a param that there is not."""
    unknown = sorted(set(context["dag_run"].conf or {}) - {DRY_RUN, ANSWER_WITHIN})
    if unknown:
        raise UsageError(
            f"{ERASE_PERSON} has no param {', '.join(unknown)}",
            next_step=f"use {DRY_RUN} or {ANSWER_WITHIN}",
        )
    answer_within(context["params"])  # before anybody waits for it
    return bool(context["params"].get(DRY_RUN, False))
