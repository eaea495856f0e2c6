"""``firnline rebuild``: rebuild a lost log from parts and transactions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from firnline.cli import output
from firnline.cli.confirm import YesOption, agreed, refuse_silence
from firnline.cli.failures import when_stopped
from firnline.cli.options import (
    JsonOption,
    SettingsOption,
    TableArgument,
    command,
    identity,
    open_target,
)
from firnline.operations.operation import Work
from firnline.operations.options import RebuildOptions
from firnline.operations.rebuild.pages import plan_page, report_page

if TYPE_CHECKING:
    from firnline.table import Table

from firnline.cli.progress import footers, working

commands = typer.Typer()
SHOWN = 20
"""Maximum objects of one list that are printed; ``--json`` has all."""


@command(
    commands,
    "rebuild",
    [
        "firnline rebuild flights --dry-run",
        "firnline rebuild flights --yes",
        "firnline rebuild flights --exclude 'flights/_data/*/019*' --yes",
    ],
)
def rebuild(
    table: TableArgument,
    options: RebuildOptions,
    yes: YesOption = False,
    as_json: JsonOption = False,
    settings: SettingsOption = None,
) -> None:
    """Rebuild a table's log from its parts and its transactions.

    For a table whose _log/ was lost, wholly or in part, or in which a client of log version 1 has
    merged parts that were replaced meanwhile; refuses otherwise. Stop the table's writers and DAGs
    first. Nothing is deleted. Parts that no transaction names are listed with what is made of them.
    Where transactions are lost, too, rows may come back that they had removed: then nothing is
    written without --revive. Under Airflow the DAG rebuild does the same.
    """
    opened = open_target(table, settings)
    with output.nothing_to_do(opened.settings.name, as_json):
        if not options.dry_run and not yes:
            refuse_silence(f"to rebuild the log of {opened.settings.name}", as_json)
            _plan(opened, options, as_json)
            if not agreed("Write this log?"):
                output.line("Nothing was written.")
                raise typer.Exit(1)
        if options.dry_run:
            _plan(opened, options, as_json)
        else:
            _rebuild(opened, options, as_json)


def _plan(table: Table, options: RebuildOptions, as_json: bool) -> None:
    from firnline.operations.rebuild.run import preview

    name = table.settings.name
    with working("looking at", name, table.clock, silent=as_json):
        plan = preview(table, options)
    output.show({"table": table.settings.name, **plan.to_json()}, as_json, plan_page)


def _rebuild(table: Table, options: RebuildOptions, as_json: bool) -> None:
    from firnline.operations.rebuild.run import run_rebuild

    name = table.settings.name
    stopped = f"stopped; the log of {name} is written wholly or not at all"
    with (
        when_stopped(stopped, next_step="run the same command again"),
        footers("rebuilding", name, table.clock, silent=as_json) as tell,
    ):
        report = run_rebuild(Work(table, identity(table), tell=tell), options)
    output.show(report.to_json(), as_json, report_page)
