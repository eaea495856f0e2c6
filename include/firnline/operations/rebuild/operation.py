"""A rebuild, as every door takes it."""

from __future__ import annotations

from firnline.operations import registry
from firnline.operations.operation import Operation
from firnline.operations.options import RebuildOptions
from firnline.operations.rebuild.pages import plan_page, report_page
from firnline.operations.rebuild.run import preview, run_rebuild


def _stopped(table: str, _: RebuildOptions) -> tuple[str, str]:
    return f"the log of {table} is written wholly or not at all", "run the same command again"


OPERATION = Operation(
    about=registry.REBUILD,
    preview=preview,
    act=run_rebuild,
    plan_page=plan_page,
    report_page=report_page,
    stopped=_stopped,
)
