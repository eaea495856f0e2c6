"""A removal of partitions, as every door takes it."""

from __future__ import annotations

import msgspec

from firnline.operations import registry
from firnline.operations.common_pages import dropped_page
from firnline.operations.drop.pages import plan_page
from firnline.operations.drop.plan import DropPlan
from firnline.operations.drop.run import preview, run_drop
from firnline.operations.operation import Data, Operation
from firnline.operations.options import DropOptions
from firnline.table import Table


def _stopped(table: str, _: DropOptions) -> tuple[str, str]:
    return (
        f"the partitions of {table} went together or not at all",
        f"see `firnline drop {table}` for those that are there",
    )


def _confirmed(options: DropOptions, plan: DropPlan) -> DropOptions:
    return msgspec.structs.replace(options, expected=plan.versions)


def _beside(table: Table) -> Data:
    return {"now": table.clock.now_ms()}


OPERATION = Operation(
    about=registry.DROP,
    preview=preview,
    act=run_drop,
    confirmed=_confirmed,
    beside=_beside,
    plan_page=plan_page,
    report_page=dropped_page,
    stopped=_stopped,
)
