"""A removal of partitions, and a TTL run, as every door takes them."""

from __future__ import annotations

import msgspec

from firnline.operations import registry
from firnline.operations.common_pages import dropped_page
from firnline.operations.drop import ttl
from firnline.operations.drop.expired import TtlPlan
from firnline.operations.drop.pages import plan_page, ttl_plan_page, ttl_report_page
from firnline.operations.drop.plan import DropPlan
from firnline.operations.drop.run import preview, run_drop
from firnline.operations.operation import Data, Operation
from firnline.operations.options import DropOptions, TtlOptions
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


def _agreed(options: TtlOptions, plan: TtlPlan) -> TtlOptions:
    """Return the options of somebody who has seen how much would go."""
    agreed = plan.fraction if plan.is_too_much else 0.0
    return msgspec.structs.replace(options, agreed=agreed)


def _ttl_stopped(table: str, _: TtlOptions) -> tuple[str, str]:
    return (
        f"what is past in {table} went in one transaction or not at all",
        "run the same command again",
    )


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
TTL = Operation(
    about=registry.TTL,
    preview=ttl.preview,
    act=ttl.run_ttl,
    confirmed=_agreed,
    plan_page=ttl_plan_page,
    report_page=ttl_report_page,
    stopped=_ttl_stopped,
)
