"""A restore, as every door takes it."""

from __future__ import annotations

import msgspec

from firnline.operations import registry
from firnline.operations.operation import Operation
from firnline.operations.options import RestoreOptions
from firnline.operations.restore.pages import plan_page, report_page
from firnline.operations.restore.plan import RestorePlan
from firnline.operations.restore.run import preview, run_restore


def _stopped(table: str, _: RestoreOptions) -> tuple[str, str]:
    return (
        f"unless it was just committing, {table} is as it was",
        f"see `firnline history {table}`, and run it again",
    )


def _confirmed(options: RestoreOptions, plan: RestorePlan) -> RestoreOptions:
    return msgspec.structs.replace(options, newest=plan.seq)


OPERATION = Operation(
    about=registry.RESTORE,
    preview=preview,
    act=run_restore,
    confirmed=_confirmed,
    plan_page=plan_page,
    report_page=report_page,
    stopped=_stopped,
)
