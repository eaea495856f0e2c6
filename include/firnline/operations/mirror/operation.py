"""A publication of mirrors, as every door takes it."""

from __future__ import annotations

from firnline.operations import registry
from firnline.operations.mirror.pages import report_page
from firnline.operations.mirror.run import run_mirror
from firnline.operations.operation import Operation
from firnline.operations.options import MirrorOptions


def _stopped(_table: str, _: MirrorOptions) -> tuple[str, str]:
    return (
        "the mirror shows the state that it showed, or the newest one",
        "run the same command again",
    )


OPERATION = Operation(
    about=registry.MIRROR, act=run_mirror, report_page=report_page, stopped=_stopped
)
