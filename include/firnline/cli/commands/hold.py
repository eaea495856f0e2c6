"""``firnline hold``: rows that nobody may remove until a person says so."""

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
from firnline.operations.options import EndHoldOptions, HoldOptions
from firnline.operations.registry import END_HOLD, HOLD

commands = typer.Typer()
group = typer.Typer(cls=ShowsByDefault, no_args_is_help=True, rich_markup_mode=None)
commands.add_typer(group, name="hold", help="Legal holds: rows that nobody may remove.")


@command(group, "show", ["firnline hold flights", "firnline hold show s3://lake/flights --json"])
def show(
    table: TableArgument,
    as_json: JsonOption = False,
    settings: SettingsOption = None,
) -> None:
    """Legal holds in force: which rows, since when, by whom and why, and what they cover."""
    from firnline.operations.hold.pages import list_page

    opened = open_target(table, settings)
    require_table(opened)
    from firnline.operations.hold.run import list_holds

    with looking(opened, silent=as_json):
        found = list_holds(opened)
    output.show(found.to_json(), as_json, list_page)


@command(
    group,
    "put",
    [
        "firnline hold put flights case-17 --where \"customer_id = 4711\" --why 'Miller v. Acme'",
        "firnline hold put flights audit-2025 --partitions 'day=2025-*' --why 'tax audit'",
    ],
)
def put(
    table: TableArgument,
    options: HoldOptions,
    yes: YesOption = False,
    as_json: JsonOption = False,
    settings: SettingsOption = None,
) -> None:
    """Keep rows from whatever would remove them, until `firnline hold end`.

    TTL, delete and clean-up leave them and say so; drop, erase, rewrite, update, replace and
    restore refuse to touch parts that may have some. Merges go on: they only move rows.
    """
    opened = open_target(table, settings)
    progress = works("holding")
    operate(HOLD.load(), Work(opened), options, as_json=as_json, progress=progress, yes=yes)


@command(group, "end", ["firnline hold end flights case-17 --why 'settled on 3 May'"])
def end(
    table: TableArgument,
    options: EndHoldOptions,
    yes: YesOption = False,
    as_json: JsonOption = False,
    settings: SettingsOption = None,
) -> None:
    """End a legal hold: its rows may be removed again."""
    opened = open_target(table, settings)
    progress = works("ending a hold of")
    operate(END_HOLD.load(), Work(opened), options, as_json=as_json, progress=progress, yes=yes)
