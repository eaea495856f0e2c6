"""A replace, as every door takes it."""

from __future__ import annotations

from firnline.errors import RunFailedError
from firnline.operations import registry
from firnline.operations.common_pages import failures_page
from firnline.operations.operation import Operation, Work
from firnline.operations.options import ReplaceOptions
from firnline.operations.replace.pages import plan_page, report_page
from firnline.operations.replace.run import ReplaceReport, preview, run_replace
from firnline.operations.runner import what_helps


def _stopped(table: str, _: ReplaceOptions) -> tuple[str, str]:
    return (
        f"the interval of {table} was replaced as a whole or not at all",
        f"see `firnline history {table}`, or run it again",
    )


def _in_short(table: str, report: ReplaceReport) -> RunFailedError:
    return RunFailedError(
        f"nothing was replaced in {table}, for the reasons above",
        next_step=what_helps(
            report.failures, " and run it again, or leave the rewriting to merges with --lazy"
        ),
    )


def _makes_it(options: ReplaceOptions) -> bool:
    """Return True if there are new rows, which may be the first ones."""
    return not options.nothing


def _no_table(work: Work, _: ReplaceOptions) -> bool:
    """Return True if there is no table yet, of which rows could go."""
    table = work.table
    return next(iter(table.store.list(table.paths.log_dir)), None) is None


OPERATION = Operation(
    about=registry.REPLACE,
    preview=preview,
    act=run_replace,
    begins=_makes_it,
    asks_nobody=_no_table,
    plan_page=plan_page,
    report_page=report_page,
    failure_page=failures_page,
    stopped=_stopped,
    in_short=_in_short,
)
