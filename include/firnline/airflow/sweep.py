"""The sweep of orphans after approval, as the work of ``graphs.orphan_sweep``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from airflow.sdk import Param

from firnline.airflow.access import open_in_task
from firnline.airflow.approvals import (
    ANSWER_WITHIN,
    LISTED,
    answer_within,
    answer_within_param,
    approved_by,
    code,
    refuse_approver,
)
from firnline.airflow.failures import airflow_failures
from firnline.airflow.figures import shortened
from firnline.airflow.params import form_params, form_values
from firnline.airflow.runs import run_identity
from firnline.airflow.tasks import PlanOperation, log_page
from firnline.airflow.work import InTaskWork
from firnline.operations.operation import Work
from firnline.operations.options import SweepOptions
from firnline.operations.registry import SWEEP
from firnline.settings.load import TableSettings
from firnline.units import about_duration, about_size, counted

if TYPE_CHECKING:
    from airflow.sdk import Context

    from firnline.log.txn_file import RunIdentity
    from firnline.operations.sweep.plan import SweepPlan
    from firnline.operations.sweep.run import SweepReport
    from firnline.pages import Page
    from firnline.table import Table

MOST_APPROVED = 5_000
"""Maximum keys of one approval: they pass through Airflow's database."""
_KINDS = {
    "part": ("part", " that no log file names"),
    "foreign": ("object", " with another name than firnline gives"),
    "probe": ("probe", " of the store"),
    "upload": ("abandoned upload", ""),
}


@dataclass(frozen=True, slots=True)
class Approved:
    """The options of a sweep and the name of the approver."""

    options: SweepOptions
    by: str


class SweepWork(InTaskWork["Approved"]):
    """Deletes objects that no log file names, after a person has seen the list."""

    about = SWEEP

    def params(self, known: TableSettings | None = None) -> dict[str, Param]:
        """Return the params: the minimum age, and the time to wait for an answer."""
        return {
            **form_params(SweepOptions, known),
            ANSWER_WITHIN: answer_within_param(),
        }

    def options(self, params: Mapping[str, Any], *, dry_run: bool) -> Approved:
        """Return the options.

        Raises:
            UsageError: ``older_than`` is not a duration, or ``answer_within`` is out of bounds.
        """
        answer_within(params)  # checked before the approval task starts
        values = form_values(SweepOptions, params)
        return Approved(SweepOptions(**values, dry_run=dry_run), "")

    def preview(self, table: Table, options: Approved) -> SweepPlan:
        """Return the plan: the objects that no log file names."""
        from firnline.operations.sweep.run import preview

        return preview(table, options.options)

    def run(
        self,
        table: Table,
        options: Approved,
        run: RunIdentity,
        on_progress: Callable[[object], None],
    ) -> SweepReport:
        """Delete the approved objects that are still orphans."""
        import msgspec

        from firnline.operations.sweep.run import run_sweep

        by = msgspec.structs.replace(run, approved_by=options.by)
        return run_sweep(Work(table, by, tell=on_progress), options.options)

    def plan_figures(self, plan: SweepPlan) -> dict[str, Any]:  # type: ignore[override] # its own
        """Return totals, orphans by kind, and a row for each."""
        figures = plan.to_json()
        kinds = Counter(orphan.kind for orphan in plan.orphans[:MOST_APPROVED])
        asked = plan.orphans[:MOST_APPROVED]
        return {
            **figures,
            "orphans_asked": len(asked),
            "bytes_asked": sum(orphan.bytes for orphan in asked),
            "kinds": dict(kinds),
            "later": len(plan.orphans) - len(asked) + plan.more,
        }

    def plan_page(self, table: Table, figures: Mapping[str, Any]) -> Page:
        """Return the plan, with how many orphans nobody is asked about yet."""
        page = super().plan_page(table, figures)
        if figures["later"]:
            later = f"{figures['later']:,} of them wait for another run"
            page.line(f"{later}: nobody is asked about more than {MOST_APPROVED:,} at once.")
            page.in_short(f"{page.sentence}, {later}")
        return page

    def question(
        self, table: TableSettings, figures: Mapping[str, Any], now_ms: int
    ) -> tuple[str, str]:
        """Return the question: what would be deleted, by kind, and the first objects."""
        since = now_ms - figures["planned_ms"]
        asked, size = figures["orphans_asked"], about_size(figures["bytes_asked"])
        text = [
            f"**{counted(asked, 'object')}, {size},** that no log file names, go for good at once:",
            "",
            *(f"- {line}" for line in _kind_lines(figures)),
            "",
            "| object | size | age |",
            "|---|--:|---|",
        ]
        text += [
            f"| {code(row['key'])} | {about_size(row['bytes'])} | "
            f"{about_duration(row['age'] + since)} |"
            for row in figures["orphans"]
        ]
        more = asked - len(figures["orphans"])
        text += ["", f"and {more:,} more: the XCom `{LISTED}` of `plan` has all keys."] * (more > 0)
        if figures["later"]:
            text += ["", f"{counted(figures['later'], 'further orphan')}: for another run."]
        ends = len(figures.get("endings", ()))
        if ends:
            text += [
                "",
                f"{counted(ends, 'prepared change')}, on which nobody decided in time: ends.",
            ]
        what = counted(asked, "orphan") if asked or not ends else "what was prepared and left"
        return f"Delete {what} of table {table.name}?", "\n".join(text)


class ApprovedSweep(SweepWork):
    """The sweep of the keys that a person approved, and of no others."""

    def parse_params(self, context: Context) -> Approved:
        """Return the param's age and the listed keys. Raises UsageError if nobody approved."""
        import msgspec

        asked, by = super().parse_params(context), approved_by(context)
        # A missing list means no keys, never all of them.
        keys = context["ti"].xcom_pull(task_ids="plan", key=LISTED) or ()
        return Approved(msgspec.structs.replace(asked.options, approved=tuple(keys)), by)

    def permit(self, context: Context, settings: TableSettings) -> None:
        """Raise UsageError if the approver is not permitted to approve."""
        refuse_approver(self, settings, context, approved_by(context))


class PlanSweep(PlanOperation):
    """Lists the orphans and passes on the keys that can be approved.

    XCom: figures; under ``LISTED`` the keys.
    """

    def execute(self, context: Context) -> dict[str, Any]:
        """List. Skips downstream tasks if there is nothing to ask.

        Unless it is a dry run, the mark that some orphans wait for is committed at once: it changes
        no row, and so needs no approval.
        """
        with airflow_failures():
            from firnline.clock import SystemClock
            from firnline.operations.sweep.run import plan_and_mark

            asked: Approved = self.work.parse_params(context)
            table = open_in_task(self.table.of_run(context))
            plan = plan_and_mark(table, asked.options, run_identity(context))
        whole = self.work.plan_figures(plan)
        figures = {
            **shortened(whole),
            "planned_ms": SystemClock().now_ms(),
            "dry_run": asked.options.dry_run,
        }
        page = self.work.plan_page(table, whole)
        log_page(page)
        keys = [orphan["key"] for orphan in plan.to_json()["orphans"][:MOST_APPROVED]]
        context["ti"].xcom_push(LISTED, keys)
        if plan.nothing_to_do:
            self._skip(context, figures, "nothing to do")
        if asked.options.dry_run:
            said = f"dry run, nothing deleted: {page.sentence}"
            self._skip(context, figures, "a dry run ends here", said)
        return figures


def _kind_lines(figures: Mapping[str, Any]) -> list[str]:
    """Return how many orphans there are of each kind."""
    found = ((count, *_KINDS[kind]) for kind, count in figures["kinds"].items())
    return [f"{counted(count, noun)}{more}" for count, noun, more in found]
