"""A clean-up, as every door takes it."""

from __future__ import annotations

from firnline.errors import RunFailedError
from firnline.operations import registry
from firnline.operations.cleanup.pages import plan_page, report_page
from firnline.operations.cleanup.run import CleanupReport, preview, run_cleanup
from firnline.operations.common_pages import not_all_deleted
from firnline.operations.operation import Data, Operation
from firnline.operations.options import CleanupOptions
from firnline.table import Table
from firnline.units import counted


def _stopped(table: str, _: CleanupOptions) -> tuple[str, str]:
    return (
        f"what was deleted had no reader any more, {table} reads as before",
        "run the same command again to go on",
    )


def _in_short(table: str, report: CleanupReport) -> RunFailedError:
    return not_all_deleted(counted(report.failed, "object"), table)


def _beside(table: Table) -> Data:
    return {"root": table.settings.root}


OPERATION = Operation(
    about=registry.CLEANUP,
    preview=preview,
    act=run_cleanup,
    beside=_beside,
    plan_page=plan_page,
    report_page=report_page,
    stopped=_stopped,
    in_short=_in_short,
)
