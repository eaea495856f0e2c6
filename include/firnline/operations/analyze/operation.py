"""An analyze, as every door takes it."""

from __future__ import annotations

from firnline.operations import registry
from firnline.operations.analyze.pages import plan_page, report_page
from firnline.operations.analyze.run import preview, run_analyze
from firnline.operations.operation import Operation
from firnline.operations.options import AnalyzeOptions


def _stopped(table: str, _: AnalyzeOptions) -> tuple[str, str]:
    return (
        f"the statistics of {table} that were committed stay",
        "run the same command again: it goes on with the other parts",
    )


OPERATION = Operation(
    about=registry.ANALYZE,
    preview=preview,
    act=run_analyze,
    plan_page=plan_page,
    report_page=report_page,
    stopped=_stopped,
)
