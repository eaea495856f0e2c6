"""A change of properties, as every door takes it."""

from __future__ import annotations

from firnline.log.txn_file import RunIdentity
from firnline.operations import registry
from firnline.operations.operation import Operation, Work
from firnline.operations.options import PropertiesOptions
from firnline.operations.properties.pages import report_page
from firnline.operations.properties.run import AppliedReport, run_apply
from firnline.table import Table


def _preview(table: Table, _: PropertiesOptions) -> AppliedReport:
    return run_apply(table, RunIdentity(), dry_run=True)


def _act(work: Work, options: PropertiesOptions) -> AppliedReport:
    return run_apply(work.table, work.identity, dry_run=options.dry_run)


def _stopped(table: str, _: PropertiesOptions) -> tuple[str, str]:
    return (
        f"unless it was just committing, the properties of {table} are as they were",
        f"see `firnline properties {table}`, or run it again",
    )


OPERATION = Operation(
    about=registry.APPLY_PROPERTIES,
    preview=_preview,
    act=_act,
    plan_page=report_page,
    report_page=report_page,
    stopped=_stopped,
)
