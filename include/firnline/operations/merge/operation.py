"""A merge, as every door takes it."""

from __future__ import annotations

from firnline.errors import RunFailedError
from firnline.operations import registry
from firnline.operations.merge.pages import plan_page, report_page
from firnline.operations.merge.run import MergeReport, preview, run_merge
from firnline.operations.operation import Data, Operation
from firnline.operations.options import MergeOptions
from firnline.operations.runner import what_helps
from firnline.table import Table
from firnline.units import counted


def _stopped(table: str, _: MergeOptions) -> tuple[str, str]:
    return (
        f"what is committed stays, everything else in {table} is as it was",
        "run the same command again to go on",
    )


def _in_short(table: str, report: MergeReport) -> RunFailedError:
    return RunFailedError(
        f"{len(report.failures)} of {counted(report.groups, 'group')} of {table} could not be "
        "merged, for the reasons above",
        next_step=what_helps(report.failures),
    )


def _beside(table: Table) -> Data:
    return {"root": table.settings.root, "sql": table.settings.merge.sql}


OPERATION = Operation(
    about=registry.MERGE,
    preview=preview,
    act=run_merge,
    beside=_beside,
    plan_page=plan_page,
    report_page=report_page,
    stopped=_stopped,
    in_short=_in_short,
)
