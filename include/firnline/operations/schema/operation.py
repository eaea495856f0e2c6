"""A change of columns, lazy or in parts, or the repair of a schema, as every door takes it."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from firnline.errors import RunFailedError
from firnline.operations import registry
from firnline.operations.operation import Operation
from firnline.operations.options import LazyOptions, SchemaFixOptions
from firnline.operations.schema import lazy
from firnline.operations.schema.pages import (
    failures_page,
    lazy_plan_page,
    lazy_report_page,
    plan_page,
    report_page,
)
from firnline.operations.schema.run import SchemaFixReport, preview, run_schema_fix


def _stopped(table: str, options: SchemaFixOptions) -> tuple[str, str]:
    done = "changed" if options.evolution is not None else "repaired"
    return (
        f"{table} is {done} as a whole or as it was",
        f"see `firnline schema show {table}`, or run it again",
    )


def _lazy_stopped(table: str, _: LazyOptions) -> tuple[str, str]:
    return (
        f"unless it was just committing, the columns of {table} are as they were",
        f"see `firnline schema show {table}`, or run it again",
    )


def _in_short(table: str, _: SchemaFixReport, *, other: str) -> RunFailedError:
    return RunFailedError(
        f"nothing was changed in {table}, for the reasons above",
        next_step=f"repair what is named, or {other}",
    )


OPERATION = Operation(
    about=registry.SCHEMA_FIX,
    preview=preview,
    act=run_schema_fix,
    plan_page=plan_page,
    report_page=report_page,
    failure_page=failures_page,
    stopped=_stopped,
    in_short=partial(_in_short, other="ask for another type or for --rename"),
)
EVOLVE = replace(
    OPERATION,
    about=registry.EVOLVE_PARTS,
    plan_page=partial(plan_page, evolves=True),
    report_page=partial(report_page, evolves=True),
    in_short=partial(_in_short, other="run it with --lazy"),
)
LAZY = Operation(
    about=registry.EVOLVE,
    preview=lazy.preview,
    act=lazy.run_lazily,
    plan_page=lazy_plan_page,
    report_page=lazy_report_page,
    stopped=_lazy_stopped,
)
