"""``firnline analyze``: state in the log what parts say of their columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from firnline.cli import output
from firnline.cli.failures import when_stopped, with_report
from firnline.cli.options import (
    JsonOption,
    SettingsOption,
    TableArgument,
    command,
    identity,
    looking,
    open_target,
    require_table,
)
from firnline.cli.output import requests_text
from firnline.cli.rendering import SHOWN, render_failures
from firnline.operations.operation import Work
from firnline.operations.options import AnalyzeOptions
from firnline.units import counted

if TYPE_CHECKING:
    from firnline.table import Table

commands = typer.Typer()
_ORDER = "(sort order)"
"""Stands among the columns that parts lack statistics of."""


@command(
    commands,
    "analyze",
    [
        "firnline analyze flights --dry-run",
        "firnline analyze flights --partitions 'sched_dep_month=2013-*'",
        "firnline analyze flights --hashes",
    ],
)
def analyze(
    table: TableArgument,
    options: AnalyzeOptions,
    as_json: JsonOption = False,
    settings: SettingsOption = None,
) -> None:
    """Fill in the statistics of parts from their footers; no part is rewritten.

    Of the columns of partition, order, key and ttl, and those of the setting statistics: use it
    after a column was added there, or on parts of other clients. Of a table with sort_by it also
    states what footers say that rows are sorted by. With --hashes it also reads the columns of
    bucket fields and hash clusters, so that conditions on them skip parts of imports and of older
    versions. Appends and merges state the same by themselves. Safe beside everything else, and to
    stop at any time: the next run goes on.
    """
    opened = open_target(table, settings)
    require_table(opened)
    if options.dry_run:
        from firnline.operations.analyze.run import preview

        with looking(opened, silent=as_json):
            plan = preview(opened, options)
        output.show({"table": opened.settings.name, **plan.to_json()}, as_json, _render_plan)
    else:
        _run(opened, options, as_json)


def _run(table: Table, options: AnalyzeOptions, as_json: bool) -> None:
    from firnline.cli.progress import counting
    from firnline.operations.analyze.run import AnalyzeFailedError, run_analyze

    name, failure = table.settings.name, None
    with (
        when_stopped(
            f"stopped; the statistics of {name} that were committed stay",
            next_step="run the same command again: it goes on with the other parts",
        ),
        counting("analyzing", name, table.clock, silent=as_json, unit="part") as tell,
    ):
        try:
            report = run_analyze(Work(table, identity(table), tell=tell), options)
        except AnalyzeFailedError as error:
            report, failure = error.report, error
    with with_report(failure):
        output.show(report.to_json(), as_json, _render_report)
    if failure is not None:
        raise failure


def _render_plan(data: dict[str, Any]) -> None:
    _render_without(data["table"], data)
    if not data["parts"]:
        output.line(_complete(data["table"], data))
        return
    columns = [output.Column("column", wrap=True), output.Column("parts that lack it", number=True)]
    lacking = {**data["lacking"], **data["lacking_hashes"]}
    lacking[_ORDER] = data["parts_without_order"]
    rows = [[name, output.number(count)] for name, count in lacking.items() if count]
    output.table(columns, rows)
    output.line()
    columns = [output.Column("partition", wrap=True), output.Column("parts", number=True)]
    partitions = list(data["partitions"].items())
    output.table(
        columns, ([name or "-", output.number(count)] for name, count in partitions[:SHOWN])
    )
    if len(partitions) > SHOWN:
        output.line(f"… and {output.number(len(partitions) - SHOWN)} more: --json lists them")
    output.line()
    what = "footers"
    if data["parts_to_hash"]:
        what = f"footers, and of {data['parts_to_hash']:,} the columns to hash,"
    output.line(
        f"The {what} of {counted(data['parts'], 'part')} of {data['table']} would be read, with "
        f"about {counted(data['requests'], 'request')}."
    )


def _complete(table: str, plan: dict[str, Any]) -> str:
    if plan["lacking_hashes"] and not plan["parts_not_hashed"]:
        return f"The log has the statistics of {table} that footers can have, and its hash ranges."
    return f"The log has the statistics of {table} that footers can have."


def _render_without(table: str, plan: dict[str, Any]) -> None:
    """Print which columns are not looked for, and why."""
    names = plan["columns_without_bounds"]
    if names:
        output.line(
            f"No footer has bounds of {', '.join(names)}, by the type: only appends and merges "
            "state them."
        )
    names = plan["columns_not_kept"]
    if names:
        output.line(
            f"Only the settings name {', '.join(names)}: `firnline properties apply {table}` makes "
            "the table keep their bounds; then run this again."
        )
    names = plan["columns_unknown"]
    if names:
        output.line(
            f"{table} has no column {', '.join(names)}, which the setting statistics names: "
            "correct it there, unless rows to come bring it."
        )

    if plan["parts_not_hashed"]:
        output.line(
            f"{counted(plan['parts_not_hashed'], 'part')} state no hash range of "
            f"{', '.join(plan['lacking_hashes'])}: with --hashes these columns are read."
        )


def _render_report(data: dict[str, Any]) -> None:
    from firnline.units import about_duration

    number = output.number
    _render_without(data["table"], data["plan"])
    if not data["plan"]["parts"]:
        output.line(_complete(data["table"], data["plan"]))
        return
    if data["failures"]:
        render_failures(data)
    output.pairs(
        [
            ("columns", ", ".join([*data["plan"]["columns"], *_more(data["plan"])]) or "-"),
            ("parts that state more", number(data["parts"])),
            ("parts without them", number(data["parts_without"])),
            ("replaced meanwhile", number(data["parts_gone"])),
            ("transactions", ", ".join(map(number, data["transactions"])) or "-"),
            ("requests", requests_text(data["requests"])),
            ("time", about_duration(round(data["seconds"] * 1000))),
        ]
    )


def _more(plan: dict[str, Any]) -> list[str]:
    order = [_ORDER] if plan["parts_without_order"] else []
    return [*order, *(name for name, parts in plan["lacking_hashes"].items() if parts)]
