"""``firnline properties``: the table's own properties compared with the settings."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from firnline.cli import output
from firnline.cli.confirm import DryRunOption, YesOption, agreed, refuse_silence
from firnline.cli.failures import when_stopped
from firnline.cli.options import (
    JsonOption,
    SettingsOption,
    ShowsByDefault,
    TableArgument,
    command,
    identity,
    looking,
    open_target,
    require_table,
)
from firnline.cli.progress import working

if TYPE_CHECKING:
    from firnline.operations.properties.run import AppliedReport
    from firnline.table import Table

commands = typer.Typer()
group = typer.Typer(cls=ShowsByDefault, no_args_is_help=True, rich_markup_mode=None)
commands.add_typer(
    group, name="properties", help="What a table says of itself: key, layout, times to live."
)


@command(
    group,
    "show",
    ["firnline properties show flights", "firnline properties show s3://lake/flights --json"],
)
def show(
    table: TableArgument,
    as_json: JsonOption = False,
    settings: SettingsOption = None,
) -> None:
    """Properties of a table, and where the settings say something else.

    What the table says is in force, whatever settings a process has; settings say what one wants
    it to be.
    """
    from firnline.operations.properties.pages import show_page

    opened = open_target(table, settings)
    require_table(opened)
    from firnline.operations.properties import run as properties

    with looking(opened, silent=as_json):
        found = properties.show(opened)
    output.show(found.to_json(), as_json, show_page)


@command(
    group,
    "apply",
    ["firnline properties apply flights --dry-run", "firnline properties apply flights"],
)
def apply(
    table: TableArgument,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
    as_json: JsonOption = False,
    settings: SettingsOption = None,
) -> None:
    """Make a table say what the settings say, in one transaction; no part is touched.

    Appends and runs that are under way go on by the properties of before: clean-up and sweep wait
    for them as long as those allow.
    """
    from firnline.operations.properties.pages import report_page

    opened = open_target(table, settings)
    require_table(opened)
    if not dry_run and not yes:
        plan = _run(opened, dry_run=True, as_json=as_json)
        if not plan.changes:
            output.show(plan.to_json(), as_json, report_page)
            return
        refuse_silence(f"to change the properties of {opened.settings.name}", as_json)
        output.show(plan.to_json(), False, report_page)
        if not agreed("Go on?"):
            output.line("Nothing was changed.")
            raise typer.Exit(1)
    report = _run(opened, dry_run=dry_run, as_json=as_json)
    output.show(report.to_json(), as_json, report_page)


def _run(table: Table, *, dry_run: bool, as_json: bool) -> AppliedReport:
    from firnline.operations.properties.run import run_apply

    name = table.settings.name
    stopped = f"stopped; unless it was just committing, the properties of {name} are as they were"
    with (
        when_stopped(stopped, next_step=f"see `firnline properties {name}`, or run it again"),
        working("changing", name, table.clock, silent=as_json),
    ):
        return run_apply(table, identity(table), dry_run=dry_run)
