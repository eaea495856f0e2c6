"""A lazy change of columns, as every door takes it."""

from __future__ import annotations

from firnline.operations import registry
from firnline.operations.evolve.pages import plan_page, report_page
from firnline.operations.evolve.run import preview, run_lazily
from firnline.operations.operation import Operation
from firnline.operations.options import LazyOptions


def _stopped(table: str, _: LazyOptions) -> tuple[str, str]:
    return (
        f"unless it was just committing, the columns of {table} are as they were",
        f"see `firnline schema show {table}`, or run it again",
    )


OPERATION = Operation(
    about=registry.EVOLVE,
    preview=preview,
    act=run_lazily,
    plan_page=plan_page,
    report_page=report_page,
    stopped=_stopped,
)
