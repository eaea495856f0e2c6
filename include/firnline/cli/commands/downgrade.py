"""``firnline downgrade``: convert a table to pure log version 1."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from firnline.cli import output
from firnline.cli.confirm import YesOption, agreed, refuse_silence
from firnline.cli.engine import EngineKind, MasterOption, engine_for, scratch_folder
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
from firnline.cli.progress import working
from firnline.operations.downgrade.pages import plan_page, report_page
from firnline.operations.operation import Work
from firnline.operations.options import DowngradeOptions

if TYPE_CHECKING:
    from firnline.table import Table

commands = typer.Typer()


@command(
    commands, "downgrade", ["firnline downgrade flights --dry-run", "firnline downgrade flights"]
)
def downgrade(
    table: TableArgument,
    options: DowngradeOptions,
    yes: YesOption = False,
    engine: Annotated[
        EngineKind, typer.Option("--engine", help="Rewrite parts in this process, or by Spark.")
    ] = EngineKind.LOCAL,
    master: MasterOption = None,
    scratch: Annotated[
        Path | None,
        typer.Option(
            "--scratch", parser=scratch_folder, metavar="FOLDER", help="Local disk to stage on."
        ),
    ] = None,
    as_json: JsonOption = False,
    settings: SettingsOption = None,
) -> None:
    """Make it a pure table of log version 1.

    Applies pending deletes to the parts, then folds the log into one file without anything of
    ours. Stop the table's DAGs first. Run it again after the grace: that deletes the folded log
    files, the dead parts and the history under _txn/ but the downgrade itself.
    """
    opened = open_target(table, settings)
    require_table(opened)
    if options.dry_run:
        _show_plan(opened, as_json)
        return
    if not yes:
        refuse_silence(f"to downgrade {opened.settings.name}", as_json)
        _show_plan(opened, as_json)
        if not agreed("Go on?"):
            output.line("Nothing was changed.")
            raise typer.Exit(1)
    from firnline.operations.downgrade.run import run_downgrade

    stopped = f"stopped; what is committed stays, and {opened.settings.name} reads as before"
    with (
        engine_for("downgrade", opened, engine, master, scratch) as factory,
        when_stopped(stopped, next_step="run the same command again to go on"),
        working("downgrading", opened.settings.name, opened.clock, silent=as_json),
    ):
        report = run_downgrade(Work(opened, identity(opened), factory), options)
    output.show(report.to_json(), as_json, report_page)


def _show_plan(table: Table, as_json: bool) -> None:
    from firnline.operations.downgrade.run import preview

    with looking(table, silent=as_json):
        plan = preview(table, DowngradeOptions())
    output.show({"table": table.settings.name, **plan.to_json()}, as_json, plan_page)
