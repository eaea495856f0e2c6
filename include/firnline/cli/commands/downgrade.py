"""``firnline downgrade``: convert a table to pure log version 1."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from firnline.cli import output
from firnline.cli.confirm import YesOption, look_first
from firnline.cli.engine import EngineKind, MasterOption, engine_for, scratch_folder
from firnline.cli.failures import when_stopped
from firnline.cli.options import (
    JsonOption,
    SettingsOption,
    TableArgument,
    command,
    identity,
    open_target,
    require_table,
)
from firnline.cli.output import requests_text
from firnline.cli.progress import working
from firnline.operations.operation import Work
from firnline.operations.options import DowngradeOptions
from firnline.units import counted

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
    from firnline.operations.downgrade.run import preview, run_downgrade

    if not look_first(
        opened,
        lambda: preview(opened, options),
        _render_plan,
        asks=f"to downgrade {opened.settings.name}",
        question="Go on?",
        dry_run=options.dry_run,
        yes=yes,
        as_json=as_json,
    ):
        return
    stopped = f"stopped; what is committed stays, and {opened.settings.name} reads as before"
    with (
        engine_for("downgrade", opened, engine, master, scratch) as factory,
        when_stopped(stopped, next_step="run the same command again to go on"),
        working("downgrading", opened.settings.name, opened.clock, silent=as_json),
    ):
        report = run_downgrade(Work(opened, identity(opened), factory), options)
    output.show(report.to_json(), as_json, _render)


def _render_plan(data: dict[str, Any]) -> None:
    from firnline.units import about_size

    if not data["is_v1"]:
        output.pairs(
            [
                ("table", data["table"]),
                (
                    "rewrite",
                    (
                        f"{counted(data['parts_in'], 'part')} with deletes pending, "
                        f"{about_size(data['bytes_in'])}"
                    ),
                ),
                (
                    "fold",
                    (
                        f"{counted(data['logs'], 'log file')} into one, "
                        f"{counted(data['live'], 'part')}"
                    ),
                ),
            ]
        )
        return
    text = f"{data['table']} is a table of log version 1."
    if data["left_overs"]:
        text += (
            f" {counted(data['left_overs'], 'folded log file')}, "
            f"{counted(data['dead'], 'dead part')} "
            f"and the history can be deleted from {output.when(data['due'])} on."
        )
    output.line(text)


def _render(data: dict[str, Any]) -> None:
    from firnline.units import about_duration

    number = output.number
    rows = [
        (
            "rewritten",
            (
                f"{counted(data['parts_rewritten'], 'part')}, {number(data['rows_deleted'])} "
                "rows deleted"
            ),
        ),
        ("transactions", ", ".join(map(number, data["transactions"])) or "none"),
        ("deleted", counted(data["objects_deleted"], "object")),
        ("requests", requests_text(data["requests"])),
        ("time", about_duration(round(data["seconds"] * 1000))),
    ]
    output.pairs(rows)
    output.line()
    if data["waits_until"] is not None:
        output.line(
            f"{data['table']} is a table of log version 1. Run this again after "
            f"{output.when(data['waits_until'])}: it then deletes what is left over."
        )
    else:
        output.line(f"{data['table']} is a table of log version 1; nothing is left over.")
