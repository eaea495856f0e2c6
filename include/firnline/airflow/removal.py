"""Removal of partitions that a person picks: the work of ``graphs.remove_partitions``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from airflow.sdk import Param

from firnline.airflow.access import open_in_task
from firnline.airflow.approvals import (
    ANSWER_WITHIN,
    LISTED,
    Approve,
    answer_within,
    answer_within_param,
    approved_by,
    partition_table,
    refuse_approver,
)
from firnline.airflow.failures import airflow_failures
from firnline.airflow.figures import parts_text, time_text
from firnline.airflow.params import form_params, form_values
from firnline.airflow.tasks import PlanOperation, log_page
from firnline.airflow.work import InTaskWork
from firnline.operations.common_options import GLOB
from firnline.operations.fields import Option
from firnline.operations.operation import Work, decided
from firnline.operations.registry import DROP
from firnline.settings.load import TableSettings
from firnline.units import about_size, counted, format_duration

if TYPE_CHECKING:
    from airflow.sdk import Context

    from firnline.log.txn_file import RunIdentity
    from firnline.operations.drop.plan import DropPlan, PartitionInfo
    from firnline.operations.drop.run import DropReport
    from firnline.operations.options import DropOptions
    from firnline.pages import Page
    from firnline.table import Table

MOST_LISTED = 300
"""Maximum partitions in the form; a longer list cannot be used by a person."""
_NO_PARTITION = "(none)"
"""Name in the list for the single partition of a table without partitions."""


class Listing(msgspec.Struct, frozen=True, kw_only=True):
    """Options of the list to pick from; what is removed is picked."""

    partitions: Annotated[
        tuple[str, ...],
        Option(
            "Partitions",
            "Only these are listed to be picked from, as globs over partition paths such as "
            f"`{GLOB}`.",
            absent=f"the first {MOST_LISTED}",
            metavar="GLOB",
            example=GLOB,
            example_of="glob",
        ),
    ] = ()


@dataclass(frozen=True, slots=True)
class Confirmed:
    """The partitions that were picked and approved, and the approver."""

    options: DropOptions
    by: str


class RemoveWork(InTaskWork["Confirmed"]):
    """Drops the partitions that a person picked and confirmed."""

    about = DROP
    dry_run_text = "Only list: the partitions to pick from are in the log of `list` and its XCom."

    def params(self, known: TableSettings | None = None) -> dict[str, Param]:
        """Return the params: the partitions to list, and the time to wait for an answer."""
        return {**form_params(Listing, known), ANSWER_WITHIN: answer_within_param()}

    def parse_params(self, context: Context) -> Confirmed:
        """Return the choice and approval of this run; no param names them."""
        from firnline.operations.options import DropOptions

        rows = picked_rows(context)
        options = DropOptions(
            partitions=tuple(row["partition"] for row in rows),
            expected={row["partition"]: row["version"] for row in rows},
        )
        return Confirmed(options, approved_by(context))

    def permit(self, context: Context, settings: TableSettings) -> None:
        """Raise UsageError if the approver is not permitted to approve."""
        refuse_approver(self, settings, context, approved_by(context))

    def options(self, params: Mapping[str, Any], *, dry_run: bool) -> Confirmed:
        """Raise NotImplementedError: no param names the partitions to remove."""
        raise NotImplementedError("a removal takes what people picked")

    def preview(self, table: Table, options: Confirmed) -> DropPlan:
        """Return the plan of the drop."""
        return self.about.load().plan(table, options.options)

    def run(
        self,
        table: Table,
        options: Confirmed,
        run: RunIdentity,
        on_progress: Callable[[object], None],  # noqa: ARG002 - one transaction: nothing between
    ) -> DropReport:
        """Drop the confirmed partitions if they are unchanged since they were listed."""
        by = msgspec.structs.replace(run, approved_by=options.by)
        return self.about.load().run(Work(table, by, consent=decided), options.options)

    def question(
        self, table: TableSettings, figures: Mapping[str, Any], now_ms: int
    ) -> tuple[str, str]:
        """Return the question: what would be dropped, in total and by partition."""
        rows: Sequence[Mapping[str, Any]] = figures["rows"]
        total = f"{counted(len(rows), 'partition')} of table {table.name}"
        size = about_size(sum(row["bytes"] for row in rows))
        parts = parts_text(sum(row["parts"] for row in rows))
        go = f"**{counted(rows_of(rows), 'row')}, {size},** in {parts} go in one transaction."
        text = [
            f"{go} Queries that begin after it do not see them.",
            "",
            _way_back(table.name, figures, now_ms),
            "",
            *partition_table(rows, now_ms),
            "",
            "A partition that changes before the removal stops it: then nothing is removed.",
        ]
        return f"Remove {total}?", "\n".join(text)


def _way_back(table: str, figures: Mapping[str, Any], now_ms: int) -> str:
    """Return until when a removal that is approved now can be undone, and how."""
    grace = figures["grace_ms"]
    return (
        f"**They can be brought back for {format_duration(grace)}** after the removal, the grace "
        "of the clean-up, which then deletes their objects: approved now, until "
        f"{time_text(now_ms + grace)} UTC. The DAG `restore` does it with `table: {table}`, "
        "`partitions` and, as `to`, the number of the transaction before the removal "
        f"({figures['seq']}, if nothing else is committed until then); so does "
        f"`firnline restore {table} --to {figures['seq']}`."
    )


class ListPartitions(PlanOperation):
    """Lists the partitions to pick from; the last task of a dry run and of an empty table.

    XCom: totals and ``seq``; under ``LISTED`` a row for each partition, with its version.
    """

    def execute(self, context: Context) -> dict[str, Any]:
        """List. Skips downstream tasks if there is nothing to ask."""
        with airflow_failures():
            self.work.refuse_unknown(context)
            globs = Listing(**form_values(Listing, context["params"])).partitions
            answer_within(context["params"])  # checked before the approval task starts
            table = open_in_task(self.table.of_run(context))
            self.skip_done(context, table)
            seq = newest_transaction(table)
            found, grace_ms = chosen(table, globs)
        now = table.clock.now_ms()
        rows = [row_of(info) for info in found[:MOST_LISTED]]
        figures = {
            "seq": seq,
            "grace_ms": grace_ms,
            "partitions": len(found),
            "unlisted": len(found) - len(rows),
            "parts": sum(info.parts for info in found),
            "bytes": sum(info.bytes for info in found),
            "dry_run": self.work.is_dry_run(context),
        }
        context["ti"].xcom_push(LISTED, rows)
        page = list_page(table.settings.name, found, now)
        log_page(page)
        if not rows:
            self._skip(context, figures, "the table has no partition")
        if figures["dry_run"]:
            said = f"dry run, nothing removed: {page.sentence} to pick from"
            self._skip(context, figures, "a dry run ends here", said)
        self.skip_spare(context, figures)
        return figures


class ApproveRemoval(Approve):
    """Approval of the picked partitions, with their totals."""

    def figures(self, context: Context) -> dict[str, Any]:
        """Return the rows of the partitions that were picked."""
        listed = context["ti"].xcom_pull(task_ids="list")
        return {"rows": picked_rows(context), "seq": listed["seq"], "grace_ms": listed["grace_ms"]}


def picked_rows(context: Context) -> list[dict[str, Any]]:
    """Return the rows of ``list`` that ``pick`` picked, in the order of the list."""
    ti = context["ti"]
    picked = set(ti.xcom_pull(task_ids="pick")["picked"])
    return [row for row in ti.xcom_pull(task_ids="list", key=LISTED) if row["name"] in picked]


def chosen(table: Table, globs: Sequence[str]) -> tuple[list[PartitionInfo], int]:
    """Return the partitions that any glob matches, and the grace of the clean-up, milliseconds.

    Raises UsageError for a glob without match.
    """
    from firnline.operations.drop.run import survey
    from firnline.state.partitions import choose

    found = survey(table)
    infos = {info.partition: info for info in found.partitions}
    return [infos[name] for name in choose(infos, globs)], found.grace_ms


def newest_transaction(table: Table) -> int:
    """Return the number of the newest transaction, 0 if there is none. One LIST and one GET."""
    from firnline.state.history import history

    return next((header.seq for header in history(table, 1)), 0)


def list_page(table: str, found: Sequence[PartitionInfo], now_ms: int) -> Page:
    """Return the list as the command line draws it."""
    from firnline.operations.drop.pages import list_page

    partitions = [info.to_json() for info in found]
    return list_page({"table": table, "now": now_ms, "partitions": partitions})


def row_of(info: PartitionInfo) -> dict[str, Any]:
    """Return the row of one partition for the list and the form."""
    return {
        "name": info.partition or _NO_PARTITION,
        "partition": info.partition,
        "parts": info.parts,
        "rows": info.rows,
        "bytes": info.bytes,
        "newest_ms": info.newest_ms,
        "version": info.version,
    }


def rows_of(rows: Sequence[Mapping[str, Any]]) -> int | None:
    """Return the total number of rows; None if that of any partition is unknown."""
    known = [row["rows"] for row in rows]
    return None if None in known else sum(known)
