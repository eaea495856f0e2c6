"""A check, as every door takes it."""

from __future__ import annotations

from firnline.errors import FindingsError
from firnline.operations import registry
from firnline.operations.operation import Operation
from firnline.operations.options import VerifyOptions
from firnline.operations.verify.pages import report_page
from firnline.operations.verify.run import VerifyReport, refuse_findings, run_verify


def _stopped(_table: str, _: VerifyOptions) -> tuple[str, str]:
    return "a check changes nothing", "run it again"


def _in_short(table: str, _: VerifyReport) -> FindingsError:
    return FindingsError(f"{table} is not in order", next_step="see the findings above")


OPERATION = Operation(
    about=registry.VERIFY,
    act=run_verify,
    verdict=refuse_findings,
    report_page=report_page,
    stopped=_stopped,
    in_short=_in_short,
)
