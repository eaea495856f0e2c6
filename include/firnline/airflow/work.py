"""Operations as DAG tasks see them: params, plan, run, and pages for log and note.

Each operation has a subclass of ``Work``; ``firnline.airflow.tasks`` and ``submit`` make tasks of
it, ``firnline.airflow.dags`` the DAG. Imported at every parse: methods import what they need.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar, cast

from firnline.airflow.figures import figure_lines
from firnline.airflow.once import AGAIN, again_param
from firnline.airflow.params import flag_param, form_params, form_values
from firnline.airflow.runs import operation_of
from firnline.airflow.said import changed_sentence
from firnline.errors import UsageError
from firnline.operations import operation as operations
from firnline.operations.dag_ids import TABLE
from firnline.operations.operation import Figures, Plan
from firnline.settings.load import TableSettings

if TYPE_CHECKING:
    from airflow.sdk import Context, Param

    from firnline.log.txn_file import RunIdentity
    from firnline.operations.operation import AnyDag
    from firnline.pages import Page
    from firnline.settings.sections import Operation as DagName
    from firnline.table import Table

OptionsT = TypeVar("OptionsT")
"""An operation's options; subclasses name them in quotes and import them in their methods."""

_BY_ITSELF = frozenset({"scheduled", "asset_triggered"})


class Work(Generic[OptionsT]):
    """One kind of work on a table. Stateless: all DAGs of an operation share one."""

    about: ClassVar[AnyDag]
    """The operation, as ``firnline.operations.registry`` describes it."""
    dry_run_text: ClassVar[str] = (
        "Only plan: what would be done is in the log of `plan` and its XCom."
    )
    """Effect of a dry run, and the task whose log shows its plan."""

    @property
    def operation(self) -> DagName:
        """Return the part of the DAG's id before ``__``."""
        return self.about.dag

    @property
    def noun(self) -> str:
        """Return the noun for messages: ``a merge``."""
        return self.about.noun

    @property
    def once(self) -> bool:
        """Return ``AboutDag.once``."""
        return self.about.once

    def params(self, known: TableSettings | None = None) -> dict[str, Param]:
        """Return the params besides ``again`` and ``dry_run``; Airflow checks their form.

        Args:
            known: the table, if the form is of one table.
        """
        return form_params(self.about.options, known)

    def options(self, params: Mapping[str, Any], *, dry_run: bool) -> OptionsT:
        """Return the operation's options. Raises UsageError for a value that is not valid.

        Args:
            params: all params of the run, defaults included.
            dry_run: the result of ``is_dry_run``.
        """
        values = form_values(self.about.options, params)
        if not self.about.only_looks:
            values["dry_run"] = dry_run
        options: OptionsT = self.about.options(**values)
        return options

    def preview(self, table: Table, options: OptionsT) -> Plan:
        """Return the plan without acting. Raises FirnlineError. Not for read-only work."""
        return cast("Plan", self.about.load().plan(table, options))

    def is_idle(self, plan: Plan) -> bool:
        """Return True if a run ends with this plan."""
        return plan.nothing_to_do

    def plan_figures(self, plan: Plan) -> dict[str, Any]:
        """Return the plan as plain data; it is cut for XCom afterwards."""
        return plan.to_json()

    def plan_page(self, table: Table, figures: Mapping[str, Any]) -> Page:
        """Return the plan as the command line draws it, of all figures, as none is cut yet."""
        return self.about.load().page_of_plan(table, figures)

    def report_page(self, figures: Mapping[str, Any]) -> Page:
        """Return the report as the command line draws it, of all figures, as none is cut yet."""
        return self.about.load().report_page(figures)

    # --- params of a run --------------------------------------------------------------------------

    def all_params(self, known: TableSettings | None = None) -> dict[str, Param]:
        """Return ``params``, plus ``again`` if the work is done once, and ``dry_run``."""
        own = {**self.params(known), **({AGAIN: again_param()} if self.once else {})}
        return own if self.about.only_looks else {**own, "dry_run": self._dry_run_param()}

    def parse_params(self, context: Context) -> OptionsT:
        """Return the options of this run. Overridden if they come from an earlier task.

        Raises:
            UsageError: a param is unknown or its value is not valid.
        """
        self.refuse_unknown(context)
        params: Mapping[str, Any] = context["params"]
        return self.options(params, dry_run=self.is_dry_run(context))

    def permit(self, context: Context, settings: TableSettings) -> None:
        """Raise UsageError if the table's settings do not permit this run to act.

        Called by the acting task immediately before it acts.
        """

    def refuse_unknown(self, context: Context) -> None:
        """Raise UsageError for unknown params: Airflow accepts them, even a mistyped dry_run."""
        dag = operation_of({**context})
        names_table = dag is not None and dag.table is None
        known = [*([TABLE] if names_table else []), *self.all_params()]
        unknown = sorted(set(context["dag_run"].conf or {}) - set(known))
        if not unknown:
            return
        use = f"use {', '.join(known)}" if known else "leave the configuration empty"
        raise UsageError(f"{self.noun} has no param {', '.join(unknown)}", next_step=use)

    def is_dry_run(self, context: Context) -> bool:
        """Return True if this run only plans.

        The param's default applies to manual runs and backfills: a run that a schedule or an asset
        event started is not a dry run unless its conf says so.
        """
        told = "dry_run" in (context["dag_run"].conf or {})
        if not told and began_by_itself(context):
            return False
        return bool(context["params"].get("dry_run", False))

    def _dry_run_param(self) -> Param:
        why = " On unless you say otherwise: what is deleted stays deleted."
        return flag_param(
            self.about.destroys,
            "Dry run",
            self.dry_run_text + (why if self.about.destroys else ""),
        )


def began_by_itself(context: Context) -> bool:
    """Return True for a run that a schedule or an asset event started, and no person."""
    run_type = context["dag_run"].run_type
    return str(getattr(run_type, "value", run_type)) in _BY_ITSELF


class InTaskWork(Work[OptionsT]):
    """Work that a task does itself, without Spark; no JVM starts."""

    def run(
        self,
        table: Table,
        options: OptionsT,
        run: RunIdentity,
        on_progress: Callable[[Any], None],
    ) -> Figures:
        """Do the work. Raises FirnlineError; if it has a ``report``, the report is still logged."""
        # Whoever had to agree was asked by a task of the run.
        work = operations.Work(table, run, tell=on_progress, consent=operations.decided)
        report: Figures = self.about.load().run(work, options)
        return report

    def verdict(self, report: Any) -> None:  # noqa: ANN401 - each operation has its own
        """Raise FirnlineError if the findings fail the run; called after they were reported."""
        self.about.load().judge(report)

    def changed(self, figures: Mapping[str, Any]) -> bool:
        """Return True if something changed; if not, the task skips itself without asset event."""
        return bool(figures.get("transactions")) or not self.about.changes_table


class SparkWork(Work[OptionsT]):
    """Work that a program in ``spark_jobs/`` does; its report is made from the table's history."""

    @property
    def job(self) -> str:
        """Return the file name in ``spark_jobs/``."""
        return f"{self.about.name}.py"

    def job_options(self, options: OptionsT) -> str:
        """Return the options as JSON for the job's environment."""
        import msgspec

        return msgspec.json.encode(options).decode()

    def approved_by(self, options: OptionsT) -> str:  # noqa: ARG002 - for subclasses
        """Return who approved the run; empty if nobody had to."""
        return ""

    def report_lines(self, figures: Mapping[str, Any]) -> list[str]:
        """Return what the history says of the run, as lines for the log."""
        return figure_lines(figures)

    def report_sentence(self, figures: Mapping[str, Any]) -> str:
        """Return what the history says of the run in one sentence, for its note."""
        return changed_sentence(self.about.name, figures)

    def completes(self, options: OptionsT) -> bool:  # noqa: ARG002 - for subclasses
        """Return True if the run has completed once its job has succeeded."""
        return True

    def confidential(self, options: OptionsT) -> str | None:  # noqa: ARG002 - for subclasses
        """Return the alternative if the options must not be arguments; None if they may be.

        In cluster mode the driver's environment cannot be set: only arguments reach the driver.
        """
        return None
