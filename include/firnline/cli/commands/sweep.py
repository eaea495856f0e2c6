"""``firnline sweep``: list objects that no log file names; delete them with --delete."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import msgspec
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
)
from firnline.cli.progress import deleting
from firnline.errors import UsageError
from firnline.operations.common_pages import not_all_deleted
from firnline.operations.operation import Work
from firnline.operations.options import SweepOptions
from firnline.operations.sweep.pages import plan_page, report_page
from firnline.units import counted

if TYPE_CHECKING:
    from firnline.table import Table

commands = typer.Typer()
_SHOWN = 50


@command(
    commands,
    "sweep",
    [
        "firnline sweep flights",
        "firnline sweep flights --older-than 7d --delete",
        "firnline sweep flights --delete --key flights/_data/d=1/old.parquet",
    ],
    writes=True,
)
def sweep(
    table: TableArgument,
    options: SweepOptions,
    delete: Annotated[
        bool, typer.Option("--delete", help="Delete the orphans; without it they are only listed.")
    ] = False,
    as_json: JsonOption = False,
    settings: SettingsOption = None,
) -> None:
    """List objects that no log file names; with --delete delete them.

    Dead runs and appends leave them behind, also as uploads that were never completed. Younger
    ones than orphan_grace (24h at least) may belong to somebody who is still at work. Under
    Airflow the DAG orphan_sweep asks before it deletes.
    """
    from firnline.operations.sweep.run import preview

    if options.approved and not delete:
        raise UsageError(
            "--key names what --delete may delete, and a list has all orphans",
            next_step="add --delete, or leave --key out",
        )
    opened = open_target(table, settings)
    options = msgspec.structs.replace(options, dry_run=not delete)
    if delete:
        _sweep(opened, options, as_json)
    else:
        with looking(opened, silent=as_json):
            plan = preview(opened, options)
        data = {"table": opened.settings.name, "root": opened.settings.root, **plan.to_json()}
        output.show(data, as_json, plan_page)


def _sweep(table: Table, options: SweepOptions, as_json: bool) -> None:
    """Run the sweep and print the report, even after failures. Raises RunFailedError."""
    from firnline.operations.sweep.run import SweepFailedError, run_sweep

    name = table.settings.name
    stopped = f"stopped; what was deleted was named by nobody, {name} reads as before"

    output.show_run(
        lambda tell: run_sweep(Work(table, identity(table), tell=tell), options),
        deleting("sweeping", name, table.clock, silent=as_json),
        as_json,
        report_page,
        stopped=(stopped, "run the same command again to go on"),
        failed=(SweepFailedError,),
        shorten=lambda report: not_all_deleted(counted(report.failed, "orphan"), name),
    )
