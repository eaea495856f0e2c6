"""``firnline analyze``: state in the log what the footers of parts say of their columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from firnline.cli import output
from firnline.cli.failures import when_stopped
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
from firnline.operations.options import AnalyzeOptions
from firnline.units import counted

if TYPE_CHECKING:
    from firnline.table import Table

commands = typer.Typer()


@command(
    commands,
    "analyze",
    [
        "firnline analyze flights --dry-run",
        "firnline analyze flights --partitions 'sched_dep_month=2013-*'",
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
    after a column was added there, or on parts of other clients. Appends and merges state the same
    by themselves. Safe beside everything else, and to stop at any time: the next run goes on.
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
        counting("analyzing", name, table.clock, silent=as_json, unit="footer") as tell,
    ):
        try:
            report = run_analyze(table, options, identity(table), tell)
        except AnalyzeFailedError as error:
            report, failure = error.report, error
    output.show(report.to_json(), as_json, _render_report)
    if failure is not None:
        raise failure


def _render_plan(data: dict[str, Any]) -> None:
    _render_without(data["table"], data)
    if not data["parts"]:
        output.line(f"The log has the statistics of {data['table']} that footers can have.")
        return
    columns = [output.Column("column", wrap=True), output.Column("parts that lack it", number=True)]
    rows = [[name, output.number(count)] for name, count in data["lacking"].items() if count]
    output.table(columns, rows)
    output.line()
    columns = [output.Column("partition", wrap=True), output.Column("footers", number=True)]
    partitions = list(data["partitions"].items())
    output.table(
        columns, ([name or "-", output.number(count)] for name, count in partitions[:SHOWN])
    )
    if len(partitions) > SHOWN:
        output.line(f"… and {output.number(len(partitions) - SHOWN)} more: --json lists them")
    output.line()
    output.line(
        f"The footers of {counted(data['parts'], 'part')} of {data['table']} would be read, with "
        f"about {counted(data['requests'], 'request')}."
    )


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


def _render_report(data: dict[str, Any]) -> None:
    from firnline.units import about_duration

    number = output.number
    _render_without(data["table"], data["plan"])
    if not data["plan"]["parts"]:
        output.line(f"The log has the statistics of {data['table']} that footers can have.")
        return
    if data["failures"]:
        render_failures(data)
    output.pairs(
        [
            ("columns", ", ".join(data["plan"]["columns"])),
            ("parts that state more", number(data["parts"])),
            ("footers without them", number(data["parts_without"])),
            ("replaced meanwhile", number(data["parts_gone"])),
            ("transactions", ", ".join(map(number, data["transactions"])) or "-"),
            ("requests", requests_text(data["requests"])),
            ("time", about_duration(round(data["seconds"] * 1000))),
        ]
    )
