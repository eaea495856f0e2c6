"""``firnline restore``: undo transactions in some partitions."""

from __future__ import annotations

import sys
from typing import Annotated

import typer
from msgspec.structs import replace

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
from firnline.cli.progress import restoring
from firnline.errors import UsageError
from firnline.operations.operation import Work
from firnline.operations.options import RestoreOptions
from firnline.operations.restore.pages import plan_page, report_page

commands = typer.Typer()


@command(
    commands,
    "restore",
    [
        "firnline restore flights --to 41 --dry-run",
        "firnline restore flights --to 41 --partition 'sched_dep_month=2013-01' --yes",
    ],
)
def restore(
    table: TableArgument,
    options: RestoreOptions,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")] = False,
    as_json: JsonOption = False,
    settings: SettingsOption = None,
) -> None:  # fmt: skip
    """Undo drops, rewrites, deletes, replaces and merges of partitions.

    All transactions after SEQ are undone in the partitions that are chosen: they hold the rows of
    the state right after SEQ, and what was appended since stays, as if nobody had touched it. With
    --exact it goes, too. It is a new transaction, which can be undone itself. Parts that clean-up
    has deleted cannot come back, nor what an erase took away.
    """
    from firnline.operations.restore.run import preview, run_restore

    opened = open_target(table, settings)
    require_table(opened)
    name = opened.settings.name
    if options.dry_run or not yes:
        with looking(opened, silent=as_json):
            plan = preview(opened, options)
        output.show({"table": name, **plan.to_json()}, as_json, plan_page)
        if options.dry_run or plan.nothing_to_do:
            return
        if as_json or not sys.stdin.isatty():
            raise UsageError(
                f"nobody can be asked whether {name} may be changed",
                next_step="look with --dry-run, then give --yes",
            )
        if not typer.confirm("Restore?"):
            output.line("Nothing was restored.")
            raise typer.Exit(1)
        # What was confirmed is what was shown.
        options = replace(options, newest=plan.seq)
    stopped = f"stopped; unless it was just committing, {name} is as it was"
    with (
        when_stopped(stopped, next_step=f"see `firnline history {name}`, and run it again"),
        restoring(name, opened.clock, silent=as_json) as tell,
    ):
        report = run_restore(Work(opened, identity(opened), tell=tell), options)
    output.show(report.to_json(), as_json, report_page)
