"""A repartition, as every door takes it."""

from __future__ import annotations

from firnline.errors import RunFailedError
from firnline.operations import registry
from firnline.operations.operation import Operation
from firnline.operations.options import RepartitionOptions
from firnline.operations.repartition.pages import plan_page, report_page
from firnline.operations.repartition.run import RepartitionReport, preview, run_repartition
from firnline.units import counted


def _stopped(table: str, _: RepartitionOptions) -> tuple[str, str]:
    return (
        f"partitions of {table} that are moved stay so, the others are as they were",
        "run the same command again to go on",
    )


def _in_short(table: str, report: RepartitionReport) -> RunFailedError:
    failed = counted(len({failure.partition for failure in report.failures}), "partition")
    return RunFailedError(
        f"{failed} of {table} could not be moved, for the reasons above",
        next_step="repair what is named and run it again",
    )


OPERATION = Operation(
    about=registry.REPARTITION,
    preview=preview,
    act=run_repartition,
    plan_page=plan_page,
    report_page=report_page,
    stopped=_stopped,
    in_short=_in_short,
)
