"""A TTL run, as every door takes it."""

from __future__ import annotations

from firnline.operations import registry
from firnline.operations.operation import Operation
from firnline.operations.options import TtlOptions
from firnline.operations.ttl.pages import plan_page, report_page
from firnline.operations.ttl.run import preview, run_ttl


def _stopped(table: str, _: TtlOptions) -> tuple[str, str]:
    return (
        f"what is past in {table} went in one transaction or not at all",
        "run the same command again",
    )


OPERATION = Operation(
    about=registry.TTL,
    preview=preview,
    act=run_ttl,
    plan_page=plan_page,
    report_page=report_page,
    stopped=_stopped,
)
