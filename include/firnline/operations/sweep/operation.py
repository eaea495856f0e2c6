"""A sweep of orphans, as every door takes it."""

from __future__ import annotations

from firnline.errors import RunFailedError
from firnline.operations import registry
from firnline.operations.common_pages import not_all_deleted
from firnline.operations.operation import Data, Operation
from firnline.operations.options import SweepOptions
from firnline.operations.sweep.pages import plan_page, report_page
from firnline.operations.sweep.run import SweepReport, preview, run_sweep
from firnline.table import Table
from firnline.units import counted


def _stopped(table: str, _: SweepOptions) -> tuple[str, str]:
    return (
        f"what was deleted was named by nobody, {table} reads as before",
        "run the same command again to go on",
    )


def _in_short(table: str, report: SweepReport) -> RunFailedError:
    return not_all_deleted(counted(report.failed, "orphan"), table)


def _beside(table: Table) -> Data:
    return {"root": table.settings.root}


OPERATION = Operation(
    about=registry.SWEEP,
    preview=preview,
    act=run_sweep,
    beside=_beside,
    plan_page=plan_page,
    report_page=report_page,
    stopped=_stopped,
    in_short=_in_short,
)
