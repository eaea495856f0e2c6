"""A clone, as every door takes it."""

from __future__ import annotations

from firnline.operations import registry
from firnline.operations.clone.pages import report_page
from firnline.operations.clone.run import CloneReport, run_clone
from firnline.operations.operation import Operation, Work
from firnline.operations.options import CloneOptions


def _act(work: Work, options: CloneOptions) -> CloneReport:
    assert work.target is not None, "a clone makes a table"
    return run_clone(work, options, target=work.target)


def _stopped(table: str, _: CloneOptions) -> tuple[str, str]:
    return (
        f"the clone of {table} is no table yet, or the whole one",
        "run the same command again: it goes on where it was",
    )


OPERATION = Operation(about=registry.CLONE, act=_act, report_page=report_page, stopped=_stopped)
