"""A relocation, as every door takes it."""

from __future__ import annotations

from firnline.operations import registry
from firnline.operations.operation import Operation
from firnline.operations.options import RelocateOptions
from firnline.operations.relocate.pages import report_page
from firnline.operations.relocate.run import run_relocate


def _stopped(table: str, _: RelocateOptions) -> tuple[str, str]:
    return f"nobody takes what lies at {table} for a table yet", "run the same command again"


OPERATION = Operation(
    about=registry.RELOCATE, act=run_relocate, report_page=report_page, stopped=_stopped
)
