"""``firnline analyze``: state in the log what parts say of their columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

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
from firnline.operations.analyze.pages import plan_page, report_page
from firnline.operations.operation import Work
from firnline.operations.options import AnalyzeOptions

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
        output.show({"table": opened.settings.name, **plan.to_json()}, as_json, plan_page)
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
    output.show(report.to_json(), as_json, report_page)
    if failure is not None:
        raise failure
