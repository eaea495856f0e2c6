"""``firnline mirror``: publish the table in a format that other engines read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from firnline.cli import output
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
from firnline.errors import UsageError
from firnline.operations.options import MirrorOptions
from firnline.units import counted

if TYPE_CHECKING:
    from firnline.table import Table

commands = typer.Typer()


@command(
    commands,
    "mirror",
    [
        "firnline mirror flights",
        "firnline mirror flights --dry-run",
        "firnline mirror flights --check",
    ],
)
def mirror(
    table: TableArgument,
    options: MirrorOptions,
    check: Annotated[
        bool,
        typer.Option(
            "--check",
            help="Compare what the mirror shows with the log; exit code 1 if they differ.",
        ),
    ] = False,
    as_json: JsonOption = False,
    settings: SettingsOption = None,
) -> None:
    """Publish the table's newest state for engines that read Delta tables.

    For tables with mirror: [delta]. Other engines open the table's root as a Delta table, and none
    of them can write to it. No part is copied: the mirror is one more object for each new state.
    Safe beside everything else, and to stop at any time: the next run goes on.
    """
    if check and options.dry_run:
        raise UsageError(
            "--check publishes nothing, with or without --dry-run",
            next_step="give one of the two",
        )
    opened = open_target(table, settings)
    require_table(opened)
    if check:
        _check(opened, as_json)
    else:
        _publish(opened, options, as_json)


def _publish(table: Table, options: MirrorOptions, as_json: bool) -> None:
    from firnline.cli.progress import counting
    from firnline.operations.mirror.run import run_mirror

    stopped = when_stopped(
        "stopped; the mirror shows the state that it showed, or the newest one",
        next_step="run the same command again",
    )
    with stopped, counting("looking for deleted rows", table.clock, silent=as_json) as tell:
        report = run_mirror(table, options, identity(table, commits=False), tell)
    output.show(report.to_json(), as_json, _render)


def _check(table: Table, as_json: bool) -> None:
    from firnline.operations.mirror.check import refuse_differences, run_check

    with when_stopped("stopped; a check changes nothing", next_step="run it again"):
        report = run_check(table)
    output.show(report.to_json(), as_json, _render_check)
    refuse_differences(report)


def _render(data: dict[str, Any]) -> None:
    from firnline.operations.mirror.words import sentence
    from firnline.units import about_duration

    delta, number = data["delta"], output.number
    output.line(sentence(data))
    pairs = [
        ("version", "none" if delta["version"] is None else number(delta["version"])),
        ("shows transaction", "none" if delta["shown"] is None else number(delta["shown"])),
        ("newest transaction", number(delta["seq"])),
        ("files", number(delta["files"])),
    ]
    if delta["vectors"]:
        pairs.append(("files with hidden rows", number(delta["vectors"])))
    if delta["hold"] is not None:
        pairs.append(("waits since", output.when(delta["hold"]["since_ms"])))
    if data["checkpoint"] is not None:
        pairs.append(("checkpoint", number(data["checkpoint"])))
    if data["expired"]:
        pairs.append(("expired", counted(data["expired"], "object")))
    pairs += [("warning", warning) for warning in data["warnings"]]
    pairs += [
        ("requests", requests_text(data["requests"])),
        ("time", about_duration(round(data["seconds"] * 1000))),
    ]
    output.pairs(pairs)


def _render_check(data: dict[str, Any]) -> None:
    number = output.number
    state = "shows the newest state" if data["same"] else "differs from the log"
    output.line(f"The mirror of {data['table']} {state}.")
    pairs = [
        ("version", "none" if data["version"] is None else number(data["version"])),
        ("shows transaction", "none" if data["shown"] is None else number(data["shown"])),
        ("newest transaction", number(data["seq"])),
        ("live parts", number(data["parts"])),
        ("of them missing", number(data["missing"])),
        ("dead parts shown", number(data["dead"])),
    ]
    if data["unhidden"]:
        pairs.append(("parts with other hidden rows", number(data["unhidden"])))
    if data["columns_differ"]:
        pairs.append(("columns", "differ"))
    if data["hold"] is not None:
        pairs.append(("waits", data["hold"]["reason"]))
        pairs.append(("since", output.when(data["hold"]["since_ms"])))
    pairs.append(("requests", requests_text(data["requests"])))
    output.pairs(pairs)
