"""An operation as one task of a DAG that is not ours: what such a task is given, and its course.

The tasks of our own DAGs are told by the params of a run what to do, and a task before them has
planned it. Here the operator's own arguments say it, and the task plans itself: it gives the same
works a context in which both look as they do there. The course differs in three ways. A task with
nothing to do succeeds, so that the tasks after it run. It publishes the mirrors itself. And its
part of the history is told from that of other tasks of the same run by the id of the task.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, cast

from firnline.airflow.access import open_in_task
from firnline.airflow.dags import RETRIES, longest
from firnline.airflow.failures import airflow_failures
from firnline.airflow.figures import shortened
from firnline.airflow.mirror import publish
from firnline.airflow.once import AGAIN, once
from firnline.airflow.operators.given import Fields, Options, refuse_nothing, rendered
from firnline.airflow.overrides import task_overrides
from firnline.airflow.params import DRY_RUN
from firnline.airflow.runs import WORK, first_try, run_identity
from firnline.airflow.said import changed_sentence, say
from firnline.airflow.tables import TableInTheirDag
from firnline.airflow.tasks import MadePlan, conclude, history_figures, make_plan
from firnline.airflow.versions import AirflowSkipException, DownstreamTasksSkipped
from firnline.errors import EnvironmentFaultError, UsageError
from firnline.operations.dag_ids import TABLE, DagId

if TYPE_CHECKING:
    from airflow.sdk import BaseOperator, Context

    from firnline.airflow.work import Work
    from firnline.operations.operation import AnyDag
    from firnline.table import Table

_LOG = logging.getLogger(__name__)
_PLAN = "plan"
"""Id of the task that plans in our own DAGs, whose XCom the works ask for."""
_MOST = 1_000
"""Transactions at most among which a retry looks for what earlier tries have committed."""


class _Instance:
    """The instance of a task, which answers as if another task had planned before."""

    def __init__(self, real: Any) -> None:  # noqa: ANN401 - of any version
        self._real = real
        self.planned: dict[str, Any] | None = None
        self.figures: dict[str, Any] = {}
        """What was pushed last as the result of the task."""

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever the instance has
        return getattr(self._real, name)

    def xcom_pull(self, *args: Any, **named: Any) -> Any:  # noqa: ANN401 - as Airflow's
        """Return the plan for who asks the task before; else what Airflow has."""
        asked = named.get("task_ids", args[0] if args else None)
        if asked == _PLAN and named.get("key", "return_value") == "return_value":
            return self.planned
        return self._real.xcom_pull(*args, **named)

    def xcom_push(self, key: str, value: Any) -> None:  # noqa: ANN401 - as Airflow's
        """Push, and remember the result: a task that would be skipped in our DAGs returns it."""
        if key == "return_value":
            self.figures = value
        self._real.xcom_push(key, value)


class _Run:
    """A run whose configuration is what the operator was given.

    That of the real one is of the DAG's own params, which say nothing to us. It counts as one that
    was started by hand, since the data interval of a backfill is not what the operator works on.
    """

    run_type = "manual"

    def __init__(self, real: Any, conf: Options) -> None:  # noqa: ANN401 - of any version
        self._real = real
        self.conf = dict(conf)

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever the run has
        return getattr(self._real, name)


def their_context(about: AnyDag, options: Options, context: Context) -> Context:
    """Return the context in which a work of ours finds what it asks for.

    Args:
        about: the operation.
        options: rendered.
        context: Airflow's.
    """
    given = {name: value for name, value in options.items() if name != TABLE and value is not None}
    if given.pop(AGAIN, False):
        # A word of its own for each time that the task is cleared, and the same for its retries.
        given[AGAIN] = f"from try {first_try(context)} on"
    plain: dict[str, Any] = {
        **context,
        "ti": _Instance(context["ti"]),
        "dag_run": _Run(context["dag_run"], given),
        "params": given,
        WORK: DagId(about.dag, str(options[TABLE])),
    }
    return cast("Context", plain)


def arguments(
    work: Work[Any], table: TableInTheirDag, given: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, list[Any]]]:
    """Return arguments of a BaseOperator, and the assets that the DAG's author adds to ours.

    What the author says goes first, then ``default_args`` of the DAG, then the settings (section
    ``airflow``). The pool is the lock of the table: it is ours, whatever ``default_args`` say.

    Args:
        work: of the operator.
        table: of the operator.
        given: what the author says; ``default_args`` among it.

    Raises UsageError: another pool, or other slots.
    """
    more = {**given}
    assets = {name: list(more.pop(name, None) or ()) for name in ("inlets", "outlets")}
    taken = {*more, *(more.get("default_args") or {})}
    lock = table.lock(work.operation)
    for name, value in lock.items():
        refuse_other(work.noun, str(table.given), name, more.get(name, value), value)
    usual: dict[str, Any] = {
        "task_id": work.about.command,
        "execution_timeout": longest(table),
        **RETRIES,
        **task_overrides(work.operation, table.known),
    }
    if lock:
        usual.pop("pool", None)
    return {**{k: v for k, v in usual.items() if k not in taken}, **more, **lock}, assets


def refuse_other(noun: str, table: str, what: str, given: object, ours: object) -> None:
    """Raise UsageError for a pool, or a number of slots, that is not the lock of the table."""
    if given != ours:
        raise UsageError(
            f"{noun} of table {table} was given {what} {given!r}, and the lock of the table is "
            f"{what} {ours!r}",
            next_step=f"leave {what} out: the operator has it",
        )


def refuse_moved(task: BaseOperator, work: Work[Any], table: TableInTheirDag) -> None:
    """Raise EnvironmentFaultError if something has moved a task out of the pool of its table."""
    for name, ours in table.lock(work.operation).items():
        found = getattr(task, name)
        if found != ours:
            raise EnvironmentFaultError(
                f"the task {task.task_id} has {name} {found!r}, and the lock of table "
                f"{table.given} is {name} {ours!r}, so it would run beside others that hold it",
                next_step="take back what has changed it: a line of the DAG or a policy",
            )


def run_here(
    task: Any,  # noqa: ANN401 - an operator of ours
    context: Context,
    act: Callable[[Context, MadePlan | None], None],
) -> dict[str, Any]:
    """Plan, act if there is something to do, publish the mirrors; return the figures.

    Args:
        task: the operator, with ``work``, ``table`` and its rendered ``options``.
        context: Airflow's.
        act: does the work, given the context of it and the plan; what it skips in our DAGs it may
            skip.

    Raises an AirflowException with the sentence of a FirnlineError.
    """
    work, table = task.work, task.table
    with airflow_failures():
        refuse_moved(task, work, table)
        given = rendered(task.fields(), task.options)
        own = their_context(work.about, given, context)
        opened = open_in_task(table.of_run(own))
    try:
        made = None if work.about.only_looks else _plan(task, own, opened)
        if made is not None and made.ends:
            _end(task, own, opened, made)
        else:
            act(own, made)
    except (AirflowSkipException, DownstreamTasksSkipped):
        pass  # a task after it is to run, whether there was something to do or not
    if not (given.get(DRY_RUN) or work.about.only_looks):
        _publish(own, opened)
    return dict(cast("Any", own["ti"]).figures)


def _plan(task: Any, own: Context, opened: Table) -> MadePlan:  # noqa: ANN401 - an operator of ours
    """Plan, and have the works find it where they look for the task before them.

    Raises AirflowSkipException: the run was done before.
    """
    instance = cast("Any", own["ti"])
    with airflow_failures():
        options = task.work.parse_params(own)
        before = once(task.work, opened, own)
        if before is not None and before.is_done:
            own["ti"].xcom_push("return_value", {**before.figures, "dry_run": False})
            conclude(own, opened.settings.name, before.sentence)
            raise AirflowSkipException(before.sentence)
        made = make_plan(task.work, opened, options, own)
        if before is not None and made.idle and not _is_retry(own):
            before.record(())
        instance.planned = {**made.figures, **_since(opened, own, made.figures)}
    made.log()
    return made


def _is_retry(own: Context) -> bool:
    return own["ti"].try_number > first_try(own)


def _since(table: Table, own: Context, figures: Options) -> dict[str, int]:
    """Return the transaction before the first that tries of this task have committed.

    Requests: none in a first try, whose plan says it; then those of ``history_since`` since the run
    began.
    """
    began = getattr(own["dag_run"], "start_date", None)
    if not _is_retry(own) or began is None:
        return {}
    from firnline.state.history import history_since

    me = run_identity(own)
    found = history_since(table, int(began.timestamp() * 1000), _MOST)
    mine = [header.seq for header in found if header.run.is_run_of(me)]
    return {"seq": min([*mine, int(figures.get("seq", 0)) + 1]) - 1}


def _end(task: Any, own: Context, opened: Table, made: MadePlan) -> None:  # noqa: ANN401 - an operator of ours
    """Say that there is nothing to do, unless an earlier try has done it and could not say so."""
    name = opened.settings.name
    if not made.figures["dry_run"] and task.work.about.changes_table and _is_retry(own):
        with airflow_failures():
            figures = history_figures(own, opened, _PLAN)
        if figures["transactions"]:
            own["ti"].xcom_push("return_value", figures)
            task.table.report(own, task.work.about, figures)
            conclude(own, name, changed_sentence(task.work.about.name, figures))
            return
    own["ti"].xcom_push("return_value", made.figures)
    conclude(own, name, made.said)


def _publish(own: Context, opened: Table) -> None:
    """Publish the mirrors of a table, where it has any: also what an earlier try has committed."""
    figures = cast("Any", own["ti"]).figures
    changed = figures.get("transactions") or figures.get("log_files")
    if not opened.settings.mirrors or not (changed or _is_retry(own)):
        return
    with airflow_failures():
        published = shortened(publish(opened.settings, own))
    for warning in published["warnings"]:
        _LOG.warning("%s", warning)
    _LOG.info("%s", published["said"])


def report_history(task: Any, own: Context, sentence: Callable[[Options], str]) -> None:  # noqa: ANN401 - an operator of ours
    """Hand on what the history says of this task, after a job that leaves no report here."""
    with airflow_failures():
        opened = open_in_task(task.table.of_run(own))
        figures = history_figures(own, opened, _PLAN)
    own["ti"].xcom_push("return_value", figures)
    if not figures["transactions"]:
        say(own, "nothing was committed")
        return
    task.table.report(own, task.work.about, figures)
    for line in task.work.report_lines(figures):
        _LOG.info(line)
    conclude(own, opened.settings.name, sentence(figures))


def known_before(about: AnyDag, fields: Fields, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return arguments of ``partial`` with the pool of its table, by which copies are scheduled.

    Raises UsageError: one says nothing; the table is expanded, so each copy would need another
    pool; or another pool.
    """
    refuse_nothing(fields, given)
    if about.lock is None:
        return dict(given)
    if TABLE not in given:
        raise UsageError(
            f"{about.noun} holds a pool of its table, and all copies of a task have the same pool",
            next_step="give `table` to `partial`, with a task for each where there are several",
        )
    lock = TableInTheirDag.named(about, given[TABLE]).lock(about.dag)
    for name, value in lock.items():
        refuse_other(about.noun, str(given[TABLE]), name, given.get(name, value), value)
    return {**given, **lock}
