"""A legal hold and its end, as every door takes them."""

from __future__ import annotations

from firnline.operations import registry
from firnline.operations.hold.pages import (
    end_plan_page,
    end_report_page,
    hold_plan_page,
    hold_report_page,
)
from firnline.operations.hold.run import preview_end, preview_hold, run_end, run_hold
from firnline.operations.operation import Operation
from firnline.operations.options import EndHoldOptions, HoldOptions


def _stopped(table: str, _: HoldOptions | EndHoldOptions) -> tuple[str, str]:
    return (
        f"unless it was just committing, the legal holds of {table} are as they were",
        f"see `firnline hold {table}`, or run it again",
    )


OPERATION = Operation(
    about=registry.HOLD,
    preview=preview_hold,
    act=run_hold,
    plan_page=hold_plan_page,
    report_page=hold_report_page,
    stopped=_stopped,
)
END = Operation(
    about=registry.END_HOLD,
    preview=preview_end,
    act=run_end,
    plan_page=end_plan_page,
    report_page=end_report_page,
    stopped=_stopped,
)
