"""A downgrade, as every door takes it."""

from __future__ import annotations

from firnline.operations import registry
from firnline.operations.downgrade.pages import plan_page, report_page
from firnline.operations.downgrade.run import preview, run_downgrade
from firnline.operations.operation import Operation
from firnline.operations.options import DowngradeOptions


def _stopped(table: str, _: DowngradeOptions) -> tuple[str, str]:
    return (
        f"what is committed stays, and {table} reads as before",
        "run the same command again to go on",
    )


OPERATION = Operation(
    about=registry.DOWNGRADE,
    preview=preview,
    act=run_downgrade,
    plan_page=plan_page,
    report_page=report_page,
    stopped=_stopped,
)
