"""A drop of a table, as every door takes it."""

from __future__ import annotations

import msgspec

from firnline.errors import RunFailedError
from firnline.operations import registry
from firnline.operations.common_pages import not_all_deleted
from firnline.operations.drop_table.pages import plan_page, report_page
from firnline.operations.drop_table.plan import DropTablePlan
from firnline.operations.drop_table.run import DropTableReport, preview, run_drop_table
from firnline.operations.operation import Operation
from firnline.operations.options import DropTableOptions
from firnline.units import counted


def _stopped(table: str, _: DropTableOptions) -> tuple[str, str]:
    return (
        f"{table} is as it was, or dropped, or what is left of it is no table that reads",
        "run the same command again: it goes on where this run was",
    )


def _confirmed(options: DropTableOptions, plan: DropTablePlan) -> DropTableOptions:
    return msgspec.structs.replace(options, agreed=plan.agreed)


def _named(options: DropTableOptions, name: str) -> DropTableOptions:
    return msgspec.structs.replace(options, name=name)


def _in_short(table: str, report: DropTableReport) -> RunFailedError:
    return not_all_deleted(counted(report.failed, "object"), table)


OPERATION = Operation(
    about=registry.DROP_TABLE,
    preview=preview,
    act=run_drop_table,
    confirmed=_confirmed,
    named=_named,
    plan_page=plan_page,
    report_page=report_page,
    stopped=_stopped,
    in_short=_in_short,
)
