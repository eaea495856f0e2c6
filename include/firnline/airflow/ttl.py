"""A TTL that asks where it would remove too much of a table, as the work of ``graphs.ttl``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from airflow.sdk import Param
from msgspec import structs

from firnline.airflow.approvals import (
    ANSWER_WITHIN,
    Approve,
    answer_within,
    answer_within_param,
    approver,
    code,
    refuse_approver,
)
from firnline.airflow.work import InTaskWork
from firnline.airflow.works import TtlWork
from firnline.operations.options import TtlOptions
from firnline.operations.registry import TTL
from firnline.settings.load import TableSettings
from firnline.units import about_size, counted

if TYPE_CHECKING:
    from airflow.sdk import Context

    from firnline.log.txn_file import RunIdentity
    from firnline.operations.operation import Figures
    from firnline.table import Table


_NAMED = 20
"""Partitions that a question names."""


class AskingTtl(TtlWork):
    """The TTL of a DAG with a task that asks."""

    def params(self, known: TableSettings | None = None) -> dict[str, Param]:
        """Return the params: those of the options, and the time to wait for an answer."""
        return {**super().params(known), ANSWER_WITHIN: answer_within_param()}

    def options(self, params: Mapping[str, Any], *, dry_run: bool) -> TtlOptions:
        """Return the options. Raises UsageError if ``answer_within`` is out of bounds."""
        answer_within(params)  # checked before the approval task starts
        return super().options(params, dry_run=dry_run)

    def question(
        self,
        table: TableSettings,
        figures: Mapping[str, Any],
        now_ms: int,  # noqa: ARG002 - one signature for all
    ) -> tuple[str, str]:
        """Return the question: how much of the table would go, and its first partitions."""
        from firnline.operations.drop.pages import share_text

        share, most = share_text(figures["fraction"]), share_text(figures["max_removed_fraction"])
        what = f"{counted(figures['parts'], 'part')} with {counted(figures['rows'], 'row')}"
        rows = figures["partitions"][:_NAMED]
        past = (
            f"**{what}, {about_size(figures['bytes'])},** are past the time to live of the table. "
            f"{_hidden(figures['hides'])}"
            f"That is **{share}** of it, more than `ttl.max_removed_fraction` allows without a "
            f"question ({most}). A wrong unit in `ttl.keep` or a wrong column does that, too."
        )
        text = [
            past,
            "",
            "| partition | parts | rows | size |",
            "|---|--:|--:|--:|",
            *(
                f"| {code(row['partition'] or '-')} | {row['parts']:,} | {row['rows']:,} | "
                f"{about_size(row['bytes'])} |"
                for row in rows
            ),
        ]
        return f"Drop {share} of table {table.name}?", "\n".join(text)


def _hidden(hides: Mapping[str, Any] | None) -> str:
    """Return the sentences about rows of parts that stay, if there are any."""
    from firnline.operations.common_pages import held_rows

    if hides is None:
        return ""
    rows = "Rows" if hides["rows"] is None else f"About {counted(hides['rows'], 'row')}"
    parts = counted(hides["parts"], "part")
    holds = [code(name) for name in hides["holds"]]
    held = f"{held_rows(holds)} " if holds else ""
    return (
        f"{rows} of {parts} that would stay, with {code(hides['column'])} before "
        f"{hides['before']}, would be hidden. {held}"
    )


@dataclass(frozen=True, slots=True)
class Approved:
    """The options of a TTL, and who has agreed to what goes; None: nobody was asked."""

    options: TtlOptions
    by: str | None


class ApprovedTtl(InTaskWork[Approved]):
    """The run after the task that asks: as much may go as a person has agreed to."""

    about = TTL
    asking = AskingTtl()

    def params(self, known: TableSettings | None = None) -> dict[str, Param]:
        """Return the params of the DAG."""
        return self.asking.params(known)

    def options(self, params: Mapping[str, Any], *, dry_run: bool) -> Approved:
        """Return the options. Raises UsageError as ``AskingTtl``."""
        return Approved(self.asking.options(params, dry_run=dry_run), None)

    def parse_params(self, context: Context) -> Approved:
        """Return the options, with the fraction that a person has agreed to."""
        asked, by = super().parse_params(context), approver(context)
        if by is None:
            return asked
        shown = context["ti"].xcom_pull(task_ids="plan")["fraction"]
        return Approved(structs.replace(asked.options, agreed=shown), by)

    def permit(self, context: Context, settings: TableSettings) -> None:
        """Raise UsageError if the approver is not permitted to approve."""
        by = approver(context)
        if by is not None:
            refuse_approver(self.asking, settings, context, by)

    def run(
        self,
        table: Table,
        options: Approved,
        run: RunIdentity,
        on_progress: Callable[[Any], None],
    ) -> Figures:
        """Drop what is past; the transaction names who has agreed."""
        by = run if options.by is None else structs.replace(run, approved_by=options.by)
        return self.asking.run(table, options.options, by, on_progress)


class ApproveMuch(Approve):
    """Asks only if more would go than ``ttl.max_removed_fraction`` allows.

    XCom: as of ``Approve``; ``approved`` is false where nobody was asked.
    """

    def execute(self, context: Context) -> Any:  # noqa: ANN401 - nothing, where it parks the task
        """Ask, or end at once. Raises TaskAwaitingInput: Airflow's way to park a task."""
        if not self.figures(context)["too_much"]:
            return {"approved": False, "by": None, "timed_out": False}
        return super().execute(context)
