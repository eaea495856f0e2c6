"""``firnline restore``: undo transactions in some partitions."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from msgspec.structs import replace

from firnline.cli import output
from firnline.cli.confirm import refuse_silence
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
from firnline.cli.progress import restoring
from firnline.operations.operation import Work
from firnline.operations.options import RestoreOptions
from firnline.units import counted

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
        output.show({"table": name, **plan.to_json()}, as_json, _render_plan)
        if options.dry_run or plan.nothing_to_do:
            return
        refuse_silence(f"{name} may be changed", as_json)
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
    output.show(report.to_json(), as_json, _render)


def _render_plan(data: dict[str, Any]) -> None:
    if not data["partitions"]:
        output.line(f"{data['table']} is as it was after transaction {data['to']}.")
        return
    output.pairs(_rows(data))


def _rows(plan: dict[str, Any]) -> list[tuple[str, str]]:
    number = output.number
    names = [name or "-" for name in plan["partitions"]]
    more = f" and {number(len(names) - 3)} more" if len(names) > 3 else ""
    noun = "transaction" if len(plan["undone"]) == 1 else "transactions"
    return [
        ("restored", _figures(plan["restored"])),
        ("removed", _figures(plan["removed"])),
        ("stays", f"{counted(plan['kept_parts'], 'part')}"),
        ("partitions", f"{', '.join(names[:3])}{more}"),
        ("undone", f"{noun} {', '.join(map(number, plan['undone'])) or 'none'}"),
    ]


def _figures(found: dict[str, int]) -> str:
    from firnline.units import about_size

    size = about_size(found["bytes"])
    return f"{counted(found['parts'], 'part')}, {counted(found['rows'], 'row')}, {size}"


def _render(data: dict[str, Any]) -> None:
    from firnline.units import about_duration

    plan = data["plan"]
    if data["transaction"] is None:
        output.line(f"{data['table']} is as it was after transaction {plan['to']}.")
        return
    output.pairs(
        [
            *_rows(plan),
            ("transaction", output.number(data["transaction"])),
            ("requests", requests_text(data["requests"])),
            ("time", about_duration(round(data["seconds"] * 1000))),
        ]
    )
