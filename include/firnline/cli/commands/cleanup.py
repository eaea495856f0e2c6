"""``firnline cleanup``: delete replaced objects whose grace is over."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from firnline.cli import output
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
from firnline.cli.progress import deleting
from firnline.operations.cleanup.pages import plan_page, report_page
from firnline.operations.common_pages import not_all_deleted
from firnline.operations.operation import Work
from firnline.operations.options import CleanupOptions
from firnline.units import counted

if TYPE_CHECKING:
    from firnline.table import Table

commands = typer.Typer()


@command(
    commands,
    "cleanup",
    [
        "firnline cleanup flights --dry-run",
        "firnline cleanup flights --max-deletes 100000",
    ],
)
def cleanup(
    table: TableArgument,
    options: CleanupOptions,
    as_json: JsonOption = False,
    settings: SettingsOption = None,
) -> None:
    """Delete what was replaced, once its grace is over.

    Data parts, log files that others carry, old transactions. Nothing that a reader may still use
    goes: cleanup.grace of the settings. States before that can no longer be read. Under Airflow
    the DAG tombstone_cleanup__TABLE does the same.
    """
    from firnline.operations.cleanup.run import preview

    opened = open_target(table, settings)
    require_table(opened)
    if options.dry_run:
        with looking(opened, silent=as_json):
            plan = preview(opened, options)
        data = {"table": opened.settings.name, "root": opened.settings.root, **plan.to_json()}
        output.show(data, as_json, plan_page)
    else:
        _clean_up(opened, options, as_json)


def _clean_up(table: Table, options: CleanupOptions, as_json: bool) -> None:
    """Run the clean-up and print the report, even after failures. Raises RunFailedError."""
    from firnline.operations.cleanup.run import CleanupFailedError, run_cleanup

    name = table.settings.name
    stopped = f"stopped; what was deleted had no reader any more, {name} reads as before"

    output.show_run(
        lambda tell: run_cleanup(Work(table, identity(table), tell=tell), options),
        deleting("cleaning up", name, table.clock, silent=as_json),
        as_json,
        report_page,
        stopped=(stopped, "run the same command again to go on"),
        failed=(CleanupFailedError,),
        shorten=lambda report: not_all_deleted(counted(report.failed, "object"), name),
    )
