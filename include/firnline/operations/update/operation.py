"""An update, as every door takes it."""

from __future__ import annotations

from firnline.errors import RunFailedError
from firnline.operations import registry
from firnline.operations.common_pages import failures_page
from firnline.operations.operation import Data, Operation, Work
from firnline.operations.options import UpdateOptions
from firnline.operations.prepared.pages import prepared_page
from firnline.operations.rewrite.prepare import PrepareReport
from firnline.operations.runner import what_helps
from firnline.operations.update.pages import plan_page, report_page
from firnline.operations.update.run import UpdateReport, preview, run_either
from firnline.pages import Page


def _stopped(table: str, options: UpdateOptions) -> tuple[str, str]:
    if options.prepare:
        return f"{table} is as it was", "run the same command again"
    return (
        f"the rows of {table} changed together or not at all",
        f"see `firnline history {table}` before you run it again: it would compute from new values",
    )


def _in_short(table: str, report: UpdateReport | PrepareReport) -> RunFailedError:
    assert not isinstance(report, PrepareReport)  # a prepare fails as a whole
    return RunFailedError(
        f"no row of {table} was updated, for the reasons above",
        next_step=what_helps(report.failures, " and run it again"),
    )


def _commits_nothing(_: Work, options: UpdateOptions) -> bool:
    return options.prepare


def _page(data: Data) -> Page:
    return prepared_page(data) if "evidence" in data else report_page(data)


OPERATION = Operation(
    about=registry.UPDATE,
    preview=preview,
    act=run_either,
    asks_nobody=_commits_nothing,
    plan_page=plan_page,
    report_page=_page,
    failure_page=failures_page,
    stopped=_stopped,
    in_short=_in_short,
)
