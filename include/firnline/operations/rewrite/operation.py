"""A rewrite, as every door takes it."""

from __future__ import annotations

from firnline.errors import FirnlineError, RunFailedError, TooMuchRemovedError
from firnline.operations import registry
from firnline.operations.operation import Data, Operation, Work
from firnline.operations.options import RewriteOptions
from firnline.operations.prepared.pages import prepared_page
from firnline.operations.rewrite.pages import plan_page, report_page
from firnline.operations.rewrite.prepare import PrepareReport, run_either
from firnline.operations.rewrite.report import RewriteReport
from firnline.operations.rewrite.run import preview
from firnline.operations.runner import what_helps
from firnline.pages import Page
from firnline.units import counted


def _stopped(table: str, options: RewriteOptions) -> tuple[str, str]:
    if options.prepare:
        return f"{table} is as it was", "run the same command again"
    return (
        f"partitions of {table} that are committed stay, the others are as they were",
        f"see `firnline history {table}`, then run it again",
    )


def _in_short(table: str, report: RewriteReport | PrepareReport) -> FirnlineError:
    assert isinstance(report, RewriteReport)  # a prepare fails as a whole
    failed = len({failure.partition for failure in report.failures})
    what = f"{failed} of {counted(report.partition_count, 'partition')} of {table} not rewritten"
    if report.refused:
        return TooMuchRemovedError(
            f"{what}: too many rows would vanish",
            next_step="see whether --where says which rows stay, not which go; then give --force",
        )
    return RunFailedError(
        f"{what}, for the reasons above",
        next_step=what_helps(report.failures, " and run it again for those partitions"),
    )


def _commits_nothing(_: Work, options: RewriteOptions) -> bool:
    return options.prepare


def _page(data: Data) -> Page:
    return prepared_page(data) if "evidence" in data else report_page(data)


OPERATION = Operation(
    about=registry.REWRITE,
    preview=preview,
    act=run_either,
    asks_nobody=_commits_nothing,
    plan_page=plan_page,
    report_page=_page,
    failure_page=report_page,
    stopped=_stopped,
    in_short=_in_short,
)
