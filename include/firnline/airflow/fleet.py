"""The planner of the fleet: one task that reads the logs of many tables and acts on them.

It starts their merges and what else is due, and publishes their mirrors.

``graphs.fleet_merge`` creates its DAG.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

from airflow.sdk import DAG, BaseOperator, get_parsing_context

from firnline.airflow.access import store_access
from firnline.airflow.alerts import FailureAlert, tell
from firnline.airflow.failures import airflow_failures
from firnline.airflow.figures import shortened
from firnline.airflow.memory import keep, recall
from firnline.airflow.overrides import NONE, Overrides
from firnline.airflow.params import DRY_RUN, flag_param
from firnline.airflow.runs import kind_of_run, run_identity
from firnline.airflow.said import say
from firnline.airflow.settings import current_settings
from firnline.airflow.tables import clock_of
from firnline.airflow.troubles import KNOWN, compare, troubles_of
from firnline.airflow.versions import AirflowFailException
from firnline.errors import EnvironmentFaultError, FirnlineError, UsageError, some
from firnline.operations.dag_ids import FLEET, TAG, RunOf, run_of
from firnline.paths import Root
from firnline.settings.cron import early_in_hour
from firnline.settings.dags import PLANNED, fleet_tables, planned_by_fleet
from firnline.settings.load import FleetSettings, Settings, TableSettings
from firnline.units import about_size

if TYPE_CHECKING:
    from airflow.sdk import Context

    from firnline.airflow.triggering import PlannedRuns
    from firnline.operations.fleet.need import Need, Unreadable
    from firnline.operations.fleet.plan import Chore, FleetPlan, Held, Start
    from firnline.operations.fleet.run import Member
    from firnline.settings.files import UnreadFile
    from firnline.settings.sections import Operation
    from firnline.store.access import StoreAccess
    from firnline.table import Table

_LOG = logging.getLogger(__name__)

LONGEST = timedelta(minutes=50)
"""Time limit of the task; tables whose stores are silent are what takes long."""


def fleet_to_plan() -> FleetSettings | None:
    """Return the settings of the planner; None if no table needs it, or another DAG's task starts.

    It is there, too, if the settings have mistakes: it tells of them.

    Raises:
        SettingsError: the settings file is not valid; Airflow shows it as an import error.
    """
    if get_parsing_context().dag_id not in (None, FLEET):
        return None
    settings = current_settings()
    return settings.fleet if settings.needs_planner else None


@contextmanager
def fleet_dag(
    settings: FleetSettings, *, doc: str | None, theirs: Overrides = NONE
) -> Iterator[DAG]:
    """Yield the DAG of the planner for a ``with`` statement.

    It is not paused when Airflow first sees it: it starts no merge whose own DAG is paused, and
    tables would otherwise wait for two switches.

    Args:
        settings: of the planner.
        doc: Markdown.
        theirs: what users say of all DAGs; its retries stay ours.
    """
    args = {k: v for k, v in theirs.default_args.items() if "retr" not in k}
    alerts = settings.alerts
    alert = FailureAlert(alerts.notifier, alerts.arguments) if alerts.notifier else None
    with DAG(
        dag_id=FLEET,
        description="Start the merges of all tables in which there is something to merge, and what "
        "else is due",
        doc_md=doc,
        schedule=clock_of(settings.schedule),
        catchup=False,
        max_active_runs=1,
        is_paused_upon_creation=False,
        params={
            DRY_RUN: flag_param(
                False,
                "Dry run",
                "Only plan: what would be started is in the log of `plan` and its XCom.",
            )
        },
        tags=theirs.tags({TAG, "merge", "fleet"}),
        default_args={
            "owner": "firnline",
            "retries": 2,
            "retry_delay": timedelta(minutes=1),
            **args,
        },
        on_failure_callback=theirs.failure_callbacks(alert) or None,
        **theirs.dag_args,
    ) as dag:
        yield dag


class PlanFleet(BaseOperator):
    """Reads the logs of the fleet, plans, starts the runs, and publishes mirrors.

    XCom: the figures of the plan, the first 50 tables of each list; ``dry_run``; of a run that acts
    ``started`` (tables that are merged), ``begun`` (other operations that it has started, with
    their tables), ``refused`` with what Airflow said, ``published``, and ``unpublished`` with why;
    ``quiet`` in the quiet hours, in which only mirrors are looked at.
    """

    def execute(self, context: Context) -> dict[str, Any]:
        """Plan, start and report.

        Raises:
            AirflowFailException: a table could not be read, a merge not be started or a mirror not
                be published, after all others were handled. The next run by the schedule tries
                again, and fails only if something else is wrong, or a day later.
        """
        from firnline.airflow.triggering import PlannedRuns
        from firnline.clock import SystemClock
        from firnline.operations.fleet.quiet import quiet_now
        from firnline.operations.fleet.run import Member

        with airflow_failures():
            dry_run = is_dry_run(context)
            settings = current_settings()
        quiet = None if dry_run else quiet_now(settings.fleet, SystemClock().now_ms())
        operations = operations_of(context, settings.fleet, quiet)
        tables = fleet_tables(settings.tables.values(), operations)
        if quiet is not None and not (tables or settings.broken or settings.unread):
            _LOG.info("nothing is read and nothing is started: %s", quiet)
            say(context, f"nothing was read or started: {quiet}")
            return {"quiet": quiet, DRY_RUN: False}
        members = members_of(tables, operations)
        members += [Member(each.name, each.open) for each in settings.broken.values()]
        runs = PlannedRuns(context["ti"])
        plan = self._plan(tables, members, settings.fleet, runs)
        figures = {**shortened(plan.to_json()), DRY_RUN: dry_run}
        figures |= {"quiet": quiet} if quiet else {}
        lines = plan_lines(figures)
        for line in lines:
            _LOG.info(line)
        done = _Done() if dry_run else _act(plan, members, settings, context, runs)
        figures |= {} if dry_run else shortened(dataclasses.asdict(done))
        # Pushed here: a task that fails returns no value.
        context["ti"].xcom_push("return_value", figures)
        problem = _failure(plan, done, settings.unread)
        totals = f"{'dry run, nothing started: ' if dry_run else ''}{lines[0]}; {lines[1]}"
        totals += f"; {quiet}" if quiet else ""
        names = [member.name for member in members]
        is_news = _is_news(plan, done, settings, context, names)
        if problem is not None and not is_news:
            problem = f"as before, {problem}"
            _LOG.warning(problem)
        say(context, totals if problem is None else f"{problem}; {totals}")
        if problem is not None and is_news:
            raise AirflowFailException(problem)
        return figures

    def _plan(
        self,
        tables: Sequence[TableSettings],
        members: Sequence[Member],
        fleet: FleetSettings,
        runs: PlannedRuns,
    ) -> FleetPlan:
        from firnline.clock import SystemClock
        from firnline.operations.fleet.need import Need
        from firnline.operations.fleet.plan import plan_fleet
        from firnline.operations.fleet.run import STARTED, look_at_fleet

        _LOG.info("reading the logs of %d tables, %d at a time", len(members), fleet.concurrency)
        now_ms = SystemClock().now_ms()
        found: list[Need | Unreadable] = look_at_fleet(members, fleet, now_ms)
        known = {table.name: table for table in tables}
        reasons: dict[str, Held] = {}
        chores: dict[tuple[str, str], Held] = {}
        for each in found:
            if isinstance(each, Need) and not each.idle:
                table = known[each.table]
                run = run_of("merge", table)
                ids = runs.begun().get(each.table, []) if run.conf else None
                why = runs.held(run.dag_id, table.merge.slots, begun=ids)
                reasons |= {} if why is None else {each.table: why}
            for due in each.due:
                run = run_of(due.operation, known[each.table])
                first = run.run_id(f"{STARTED}{due.run}")
                why = runs.held(run.dag_id, run_id=first, begun=() if run.conf else None)
                chores |= {} if why is None else {(each.table, due.operation): why}
        return plan_fleet(found, fleet, SystemClock().now_ms(), reasons, chores)


def is_hourly(context: Context, fleet: FleetSettings) -> bool:
    """Return True for the first runs of an hour, and for one that somebody has started."""
    run = context["dag_run"]
    if kind_of_run(context) != "scheduled" or fleet.schedule is None:
        return True
    return early_in_hour(fleet.schedule, run.run_after.minute)


def operations_of(
    context: Context, fleet: FleetSettings, quiet: str | None
) -> frozenset[Operation]:
    """Return the operations that a run looks at: of many runs an hour only the first at all.

    Args:
        context: of the task.
        fleet: the settings of the planner.
        quiet: the quiet hours that it is in; None outside of them.
    """
    if quiet is not None:
        return frozenset()
    return PLANNED if is_hourly(context, fleet) else frozenset({"merge"})


def is_dry_run(context: Context) -> bool:
    """Return True if the run only plans. Raises UsageError for a param that there is not."""
    unknown = sorted(set(context["dag_run"].conf or {}) - {DRY_RUN})
    if unknown:
        raise UsageError(f"{FLEET} has no param {', '.join(unknown)}", next_step=f"use {DRY_RUN}")
    return bool(context["params"].get(DRY_RUN, False))


@dataclasses.dataclass(frozen=True)
class _Done:
    """Result of a run of the planner: merges, other runs, mirrors, and why the others failed."""

    started: Sequence[str] = ()
    begun: Sequence[str] = ()
    refused: Sequence[str] = ()
    published: Sequence[str] = ()
    unpublished: Sequence[str] = ()


def _act(
    plan: FleetPlan,
    members: Sequence[Member],
    settings: Settings,
    context: Context,
    runs: PlannedRuns,
) -> _Done:
    """Start the runs, then publish the mirrors, which takes longer."""
    from firnline.operations.fleet.mirrors import NotPublished, publish_mirrors
    from firnline.operations.mirror.words import sentence

    started, refused = start_merges(plan.starts, settings.tables, context, runs)
    begun, others = start_chores(plan.chores, settings.tables, runs)
    refused += others
    wanted = frozenset(plan.mirrors)
    due = [member for member in members if member.name in wanted]
    published: list[str] = []
    failed: list[str] = []
    if not due:
        return _Done(started, begun, refused)
    for each in publish_mirrors(due, run_identity(context), settings.fleet.concurrency):
        if isinstance(each, NotPublished):
            _LOG.error("%s: the mirror was not published: %s", each.table, each.message)
            failed.append(f"{each.table}: {each.message}")
        else:
            _LOG.info("%s", sentence(each.to_json()))
            for warning in each.warnings:
                _LOG.warning("%s: %s", each.table, warning)
            published.append(each.table)
    return _Done(started, begun, refused, published, failed)


def members_of(tables: Sequence[TableSettings], operations: frozenset[Operation]) -> list[Member]:
    """Return what opens the tables; each Airflow connection is looked up once.

    In this thread: a thousand tables of one connection are one request to Airflow.

    Args:
        tables: the tables.
        operations: those to look at, of the tables for which the planner starts them; without any
            only mirrors are looked at.
    """
    from firnline.operations.fleet.run import Member

    known: dict[tuple[str | None, str], StoreAccess | FirnlineError | None] = {}
    for table in tables:
        if _access_key(table) not in known:
            try:
                known[_access_key(table)] = store_access(table)
            except FirnlineError as error:
                known[_access_key(table)] = error
    return [
        Member(t.name, partial(_open, t, known[_access_key(t)]), operations & planned_by_fleet(t))
        for t in tables
    ]


def _access_key(table: TableSettings) -> tuple[str | None, str]:
    """Return what the access depends on: a connection fits the tables of one kind of store."""
    return table.connection_id, Root.parse(table.root).scheme


def _open(table: TableSettings, access: StoreAccess | FirnlineError | None) -> Table:
    from firnline.table import open_table

    if isinstance(access, FirnlineError):
        raise access
    return open_table(table, access)


@dataclasses.dataclass(frozen=True)
class _Wanted:
    """A run to start."""

    name: str
    """Of the table, or of operation and table, as figures and errors name it."""
    run: RunOf
    prefix: str
    """Of the id of the run."""
    conf: Mapping[str, Any]
    note: str

    @property
    def run_id(self) -> str:
        """Return the id of the run."""
        return self.run.run_id(self.prefix)


def start_merges(
    starts: Sequence[Start],
    tables: Mapping[str, TableSettings],
    context: Context,
    runs: PlannedRuns,
) -> tuple[list[str], list[str]]:
    """Start the merges, in their order; return the tables, and what Airflow refused.

    The id of each run is made of that of this run: a retry starts nothing twice.
    """
    from firnline.operations.fleet.run import STARTED

    prefix, wanted = f"{STARTED}{context['run_id']}", []
    for start in starts:
        conf: dict[str, Any] = {DRY_RUN: False}
        if start.max_bytes is not None:
            conf["max_bytes"] = str(start.max_bytes)
        name = start.need.table
        wanted.append(_Wanted(name, run_of("merge", tables[name]), prefix, conf, _note(start)))
    made, there, refused = _start(wanted, runs)
    begun = {*made, *there}
    started = [each for each in wanted if each.name in begun]
    _remember([each for each in started if each.run.conf], tables, runs)
    return [each.name for each in started], refused


def _remember(
    started: Sequence[_Wanted], tables: Mapping[str, TableSettings], runs: PlannedRuns
) -> None:
    """Remember merges of the DAG for all tables: as many of each table as may be under way."""
    if not started:
        return
    before = {name: ids for name, ids in runs.begun().items() if name in tables}
    for each in started:
        ids = [known for known in before.get(each.name, []) if known != each.run_id]
        before[each.name] = [*ids, each.run_id][-tables[each.name].merge.slots :]
    runs.remember(before)


def start_chores(
    chores: Sequence[Chore], tables: Mapping[str, TableSettings], runs: PlannedRuns
) -> tuple[list[str], list[str]]:
    """Start what else is due; return what and of which table, and what Airflow refused.

    The id of each run is the time at which it was due: it is started once, also if it failed.
    """
    from firnline.operations.fleet.run import STARTED

    wanted = []
    for chore in chores:
        if chore.reason:
            continue
        due, run = chore.due, run_of(chore.due.operation, tables[chore.table])
        conf = {} if due.operation == "verify" else {DRY_RUN: False}
        name, why = _chore_name(due.operation, chore.table), f"Started by {FLEET}: {due.why}."
        wanted.append(_Wanted(name, run, f"{STARTED}{due.run}", conf, why))
    made, _, refused = _start(wanted, runs)
    return made, refused


def _chore_name(operation: str, table: str) -> str:
    return f"{operation} of {table}"


def _start(wanted: Sequence[_Wanted], runs: PlannedRuns) -> tuple[list[str], list[str], list[str]]:
    """Start runs; return the names of those made and of those there already, and the refusals."""
    made: list[str] = []
    there: list[str] = []
    refused: list[str] = []
    for each in wanted:
        try:
            conf = {**each.run.conf, **each.conf}
            if runs.start(each.run.dag_id, each.run_id, conf, each.note):
                made.append(each.name)
            else:
                _LOG.info("%s: an earlier try of this run has started it", each.name)
                there.append(each.name)
        except EnvironmentFaultError as error:
            _LOG.error("%s: %s", each.name, error)
            refused.append(f"{each.name}: {error.message}")
    return made, there, refused


def _note(start: Start) -> str:
    need = start.need
    return (
        f"Started by {FLEET}: {need.parts_in:,} parts become {need.parts_out:,}, every full scan "
        f"saves {need.saved:,} requests for {about_size(start.bytes)} rewritten."
    )


def plan_lines(figures: Mapping[str, Any]) -> list[str]:
    """Return the plan as lines of a log, from its figures as they are cut for XCom."""
    counts = {
        name: _count(figures, name)
        for name in ("starts", "waiting", "unreadable", "mirrors", "due")
    }
    todo = f"{counts['starts']} to merge, {counts['waiting']} wait, {figures['idle']} have"
    cost = about_size(figures["bytes"])
    lines = [
        f"{figures['tables']} tables: {todo} nothing to do, {counts['unreadable']} unreadable",
        f"{figures['saved']:,} requests of a full scan saved for {cost} rewritten",
    ]
    if figures["budget_bytes"] is not None:
        spent = figures["spent_bytes"] + figures["under_way_bytes"]
        budget = about_size(figures["budget_bytes"])
        lines.append(f"{about_size(spent)} of the budget of {budget} a day are spent or under way")
    lines += [f"merge {_row_text(row)}{_bound_text(row)}" for row in figures["starts"]]
    lines += [f"not now: {_row_text(row)}: {row['reason']}" for row in figures["waiting"]]
    lines += [_due_text(row) for row in figures["due"]]
    lines += [f"publish the mirror of {name}" for name in figures["mirrors"]]
    unreadable = figures["unreadable"]
    lines += [f"{row['table']}: {row['message']}; {row['next_step']}" for row in unreadable]
    for name, count in counts.items():
        more = count - len(figures[name])
        lines += [f"{name}: and {more} more"] if more > 0 else []
    return lines


def _due_text(row: Mapping[str, Any]) -> str:
    of = _chore_name(row["operation"], row["table"])
    return f"not now: {of}: {row['reason']}" if row["reason"] else f"start {of}: {row['why']}"


def _count(figures: Mapping[str, Any], name: str) -> int:
    return int(figures.get(f"{name}_in_all", len(figures[name])))


def _row_text(row: Mapping[str, Any]) -> str:
    saved = row["score"]
    score = "nothing rewritten" if saved is None else f"{saved:,.0f} requests per GiB"
    parts = f"{row['parts_in']:,} parts become {row['parts_out']:,}"
    first = ", its mirror waits for it" if row["ends_wait"] else ""
    return f"{row['table']}: {parts}, {about_size(row['bytes'])}, {score}{first}"


def _bound_text(row: Mapping[str, Any]) -> str:
    bound = row["max_bytes"]
    return "" if bound is None else f", at most {about_size(bound)} of it: the rest of the budget"


def _is_news(
    plan: FleetPlan, done: _Done, settings: Settings, context: Context, looked: Sequence[str]
) -> bool:
    """Return True if what is wrong is to be told: by a run of the clock only when it changes.

    Also tells the end of what was wrong before.
    """
    from firnline.clock import SystemClock

    if kind_of_run(context) != "scheduled" or context["ti"].try_number > 1:
        return True  # somebody has asked, or a try that was killed may have told nobody
    unpublished = [each.partition(": ")[0] for each in done.unpublished]
    now = troubles_of(plan.unreadable, unpublished, settings.unread)
    before = recall(KNOWN, dict[str, int], {})
    found = compare(before, now, looked, SystemClock().now_ms())
    if found.known != before:
        keep(KNOWN, found.known, "what fleet__merge has told of, and when (unix ms)")
    if found.over:
        well = f"all is well again with {some(found.over)}"
        _LOG.info(well)
        tell(settings.fleet.alerts, "the planner", {**context}, "recovered", well)
    return bool(found.new or done.refused)


def _failure(plan: FleetPlan, done: _Done, unread: Iterable[UnreadFile]) -> str | None:
    """Return the sentence with which the run fails; None for a run that did all."""
    said = [each.sentence for each in unread]
    if names := [table.table for table in plan.unreadable]:
        said.append(f"{len(names)} of {plan.tables} tables could not be read: {some(names)}")
    if refused := done.refused:
        runs = len(plan.starts) + sum(not chore.reason for chore in plan.chores)
        said.append(f"Airflow did not start {len(refused)} of {runs} runs: {some(refused)}")
    if failed := done.unpublished:
        count = f"{len(failed)} of {len(plan.mirrors)}"
        said.append(f"{count} mirrors could not be published: {some(failed)}")
    if not said:
        return None
    return f"{'; '.join(said)}; all others were handled, the log of plan has each reason"
