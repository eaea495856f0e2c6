"""A delete, as every door takes it."""

from __future__ import annotations

from firnline.errors import RunFailedError
from firnline.operations import registry
from firnline.operations.common_pages import failures_page
from firnline.operations.delete.pages import plan_page, report_page
from firnline.operations.delete.run import DeleteReport, preview, run_delete
from firnline.operations.operation import Operation
from firnline.operations.options import DeleteOptions
from firnline.operations.runner import what_helps


def _stopped(table: str, _: DeleteOptions) -> tuple[str, str]:
    return (
        f"the rows of {table} went together or not at all",
        f"see `firnline history {table}`, or run it again",
    )


def _in_short(table: str, report: DeleteReport) -> RunFailedError:
    return RunFailedError(
        f"nothing was deleted from {table}, for the reasons above",
        next_step=what_helps(
            report.failures, " and run it again, or hide the rows at once with --lazy"
        ),
    )


OPERATION = Operation(
    about=registry.DELETE,
    preview=preview,
    act=run_delete,
    plan_page=plan_page,
    report_page=report_page,
    failure_page=failures_page,
    stopped=_stopped,
    in_short=_in_short,
)
