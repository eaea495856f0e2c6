"""What a DAG's tasks need to know of an operation: its params, its plan, how it runs, what to say.

One subclass of ``Work`` per operation; ``firnline.airflow.tasks`` and ``submit`` make tasks of
it, ``firnline.airflow.dags`` the DAG. Imported at every parse: methods import what they need.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Protocol, TypeVar, cast

from airflow.sdk import Param

from firnline.airflow.figures import figure_lines
from firnline.airflow.once import AGAIN, again_param
from firnline.errors import UsageError
from firnline.operations.operation import Figures
from firnline.settings.load import TableSettings

if TYPE_CHECKING:
    from airflow.sdk import Context

    from firnline.kernel.engine import Engine
    from firnline.log.txn_file import RunIdentity
    from firnline.operations.operation import Operation
    from firnline.settings.sections import Operation as DagName
    from firnline.table import Table

OptionsT = TypeVar("OptionsT")
"""An operation's options; named in quotes where a subclass is made, and imported in its methods."""

_BY_ITSELF = frozenset({"scheduled", "asset_triggered"})


class Plan(Figures, Protocol):
    """What every planner returns; with ``seq`` in ``to_json`` where it stands on a transaction."""

    @property
    def nothing_to_do(self) -> bool:
        """Return True if the run can end here."""
        ...


class Work(ABC, Generic[OptionsT]):
    """One kind of work on a table. Stateless: all DAGs of an operation share one."""

    about: ClassVar[Operation[Any]]
    """The operation, as ``firnline.operations.registry`` describes it."""

    @property
    def operation(self) -> DagName:
        """The DAG's id before ``__``."""
        return self.about.dag

    @property
    def noun(self) -> str:
        """For messages: ``a merge``."""
        return self.about.noun

    @property
    def once(self) -> bool:
        """See ``Operation.once``."""
        return self.about.once

    def params(self) -> dict[str, Param]:
        """Typed params besides ``again`` and ``dry_run``, of a form that Airflow checks itself."""
        return {}

    @abstractmethod
    def options(self, params: Mapping[str, Any], *, dry_run: bool) -> OptionsT:
        """The operation's options. Raises UsageError where the form is right and the value not.

        Args:
            params: all params of the run, defaults included.
            dry_run: what ``is_dry_run`` made of the param of that name.
        """

    def preview(self, table: Table, options: OptionsT) -> Plan:
        """Return the plan; nothing is done. Raises FirnlineError. Not of work that only looks."""
        plan = self.about.load().preview
        assert plan is not None, f"{self.noun} of {table.settings.name} is not planned"
        return cast("Plan", plan(table, options))

    def is_idle(self, plan: Plan) -> bool:
        """Whether a run ends with this plan."""
        return plan.nothing_to_do

    def plan_figures(self, plan: Plan) -> dict[str, Any]:
        """The plan as plain data; what is too long for XCom is cut afterwards."""
        return plan.to_json()

    def plan_lines(self, figures: Mapping[str, Any]) -> list[str]:
        """The plan for the task's log."""
        return figure_lines(figures)

    def report_lines(self, figures: Mapping[str, Any]) -> list[str]:
        """What was done, for the task's log."""
        return figure_lines(figures)

    # --- what a run was asked for -----------------------------------------------------------------

    def all_params(self) -> dict[str, Param]:
        """``params``, ``again`` where the work is done once, and ``dry_run``."""
        own = {**self.params(), **({AGAIN: again_param()} if self.once else {})}
        return own if self.about.only_looks else {**own, "dry_run": self._dry_run_param()}

    def parse_params(self, context: Context) -> OptionsT:
        """The options of this run. Overridden where they come from an earlier task, not a param.

        Raises:
            UsageError: a param that there is not, or one whose value cannot be meant.
        """
        conf = context["dag_run"].conf or {}
        self.refuse_unknown(conf)
        params: Mapping[str, Any] = context["params"]
        return self.options(params, dry_run=self.is_dry_run(context))

    def permit(self, context: Context, settings: TableSettings) -> None:
        """Raise UsageError where the table's settings do not let this run act.

        Called by the task that acts, right before it does.
        """

    def refuse_unknown(self, conf: Mapping[str, Any]) -> None:
        """Raises UsageError: Airflow lets unknown params pass, and a mistyped dry_run would act."""
        known = list(self.all_params())
        unknown = sorted(set(conf) - set(known))
        if not unknown:
            return
        use = f"use {', '.join(known)}" if known else "leave the configuration empty"
        raise UsageError(f"{self.noun} has no param {', '.join(unknown)}", next_step=use)

    def is_dry_run(self, context: Context) -> bool:
        """Whether this run only looks.

        The param's default is for people (and their backfills): a run that the clock or an event
        started is no dry run, unless it was told so.
        """
        dag_run = context["dag_run"]
        told = "dry_run" in (dag_run.conf or {})
        if not told and str(getattr(dag_run.run_type, "value", dag_run.run_type)) in _BY_ITSELF:
            return False
        return bool(context["params"].get("dry_run", False))

    def _dry_run_param(self) -> Param:
        why = " On unless you say otherwise: what is deleted stays deleted."
        return Param(
            self.about.destroys,
            type="boolean",
            title="Dry run",
            description_md="Only plan: what would be done is in the log of `plan` and its XCom."
            + (why if self.about.destroys else ""),
        )


class InTaskWork(Work[OptionsT]):
    """Work that a task does itself: without Spark, no JVM starts."""

    def run(
        self,
        table: Table,
        options: OptionsT,
        run: RunIdentity,
        on_progress: Callable[[Any], None],
    ) -> Figures:
        """Do it. Raises FirnlineError; one with a ``report`` has that reported all the same."""
        return self.about.load().run(table, _no_engine, options, run, on_progress)

    def verdict(self, report: Any) -> None:  # noqa: ANN401 - of the operation
        """Raises FirnlineError where what was found fails the run, after it was reported."""

    def changed(self, figures: Mapping[str, Any]) -> bool:
        """Whether something happened; if not, the task skips itself and tells no asset."""
        return bool(figures.get("transactions")) or not self.about.changes_table


class SparkWork(Work[OptionsT]):
    """Work of a program in ``spark_jobs/``."""

    @property
    def job(self) -> str:
        """File name in ``spark_jobs/``."""
        return f"{self.about.name}.py"

    def job_options(self, options: OptionsT) -> str:
        """Options as JSON, for the job's environment."""
        import msgspec

        return msgspec.json.encode(options).decode()

    def job_arguments(self, options: OptionsT) -> list[str]:  # noqa: ARG002 - for subclasses
        """Further arguments of the job, over its usual ones: for everybody to read."""
        return []

    def confidential(self, options: OptionsT) -> str | None:  # noqa: ARG002 - for subclasses
        """What to do instead, where these options must stand in no argument list; None: they may.

        In cluster mode the driver's environment is not ours, and arguments are all there is.
        """
        return None


def _no_engine() -> Engine:
    raise AssertionError("work of a task opens no part")


def pool_of(work: Work[Any], table: TableSettings) -> str:
    """The pool of one slot that whatever does this work holds."""
    from firnline.operations.pools import pool_of_dag

    pool = pool_of_dag(f"{work.operation}__{table.name}")
    if pool is None:
        raise LookupError(f"firnline.operations.pools gives {work.operation} no pool")
    return pool
