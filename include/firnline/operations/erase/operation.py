"""An erase, as every door takes it."""

from __future__ import annotations

from firnline.errors import RunFailedError
from firnline.operations import registry
from firnline.operations.erase.pages import partly_page, plan_page, report_page
from firnline.operations.erase.run import EraseReport, preview, run_erase
from firnline.operations.operation import Operation
from firnline.operations.options import EraseOptions
from firnline.operations.runner import what_helps
from firnline.units import counted


def _stopped(table: str, _: EraseOptions) -> tuple[str, str]:
    return (
        f"the rows of {table} went together or not at all",
        f"see `firnline certificate {table}`, or run it again",
    )


def _in_short(table: str, report: EraseReport) -> RunFailedError:
    return RunFailedError(
        f"{counted(report.parts_failed, 'part')} of {table} may hold keys still, for the "
        "reasons above",
        next_step=what_helps(report.failures, " and erase again"),
    )


def _secret(report: EraseReport) -> str | None:
    if report.secret is None:
        return None
    return f"secret of certificate {report.certificate}, which is stored nowhere: {report.secret}"


OPERATION = Operation(
    about=registry.ERASE,
    preview=preview,
    act=run_erase,
    plan_page=plan_page,
    report_page=report_page,
    failure_page=partly_page,
    stored_nowhere=_secret,
    stopped=_stopped,
    in_short=_in_short,
)
