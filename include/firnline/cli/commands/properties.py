"""``firnline properties``: the table's own properties compared with the settings."""

from __future__ import annotations

import typer

from firnline.cli import output
from firnline.cli.confirm import YesOption
from firnline.cli.operate import operate, works
from firnline.cli.options import (
    JsonOption,
    SettingsOption,
    ShowsByDefault,
    TableArgument,
    command,
    looking,
    open_target,
    require_table,
)
from firnline.operations.operation import Work
from firnline.operations.options import PropertiesOptions
from firnline.operations.registry import APPLY_PROPERTIES

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
    options: PropertiesOptions,
    yes: YesOption = False,
    as_json: JsonOption = False,
    settings: SettingsOption = None,
) -> None:
    """Make a table say what the settings say, in one transaction; no part is touched.

    Appends and runs that are under way go on by the properties of before: clean-up and sweep wait
    for them as long as those allow.
    """
    opened = open_target(table, settings)
    progress = works("changing")
    operate(
        APPLY_PROPERTIES.load(), Work(opened), options, as_json=as_json, progress=progress, yes=yes
    )
