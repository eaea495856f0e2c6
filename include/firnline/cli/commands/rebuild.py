"""``firnline rebuild``: rebuild a lost log from parts and transactions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

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
from firnline.cli.output import requests_text
from firnline.operations.operation import Work
from firnline.operations.options import RebuildOptions

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
        if options.dry_run:
            output.show(_plan(opened, options, as_json), as_json, _render_plan)
            return
        if not yes:
            plan = _plan(opened, options, as_json)  # ends here where the log is whole
            refuse_silence(f"to rebuild the log of {opened.settings.name}", as_json)
            output.show(plan, False, _render_plan)
            if not agreed("Write this log?"):
                output.line("Nothing was written.")
                raise typer.Exit(1)
        _rebuild(opened, options, as_json)


def _plan(table: Table, options: RebuildOptions, as_json: bool) -> dict[str, Any]:
    """Return the plan's figures. Raises NothingToDoError if the log is whole."""
    from firnline.operations.rebuild.run import preview

    name = table.settings.name
    with working("looking at", name, table.clock, silent=as_json):
        plan = preview(table, options)
    return {"table": name, **plan.to_json()}


def _rebuild(table: Table, options: RebuildOptions, as_json: bool) -> None:
    from firnline.operations.rebuild.run import run_rebuild

    name = table.settings.name
    stopped = f"stopped; the log of {name} is written wholly or not at all"
    with (
        when_stopped(stopped, next_step="run the same command again"),
        footers("rebuilding", name, table.clock, silent=as_json) as tell,
    ):
        report = run_rebuild(Work(table, identity(table), tell=tell), options)
    output.show(report.to_json(), as_json, _render)


def _render_plan(data: dict[str, Any]) -> None:
    from firnline.units import about_size

    number = output.number
    if data["history_lost"]:
        output.line(
            f"The history is lost, or a part of it: {data['history_lost']}. It may have removed "
            f"rows of {number(data['doubtful'])} live parts, which --revive brings back."
        )
        output.line()
    _pile("undecided: give --include or --exclude", data["undecided"])
    _pile("left out", data["left_out"])
    _pile("found, not named by any transaction", data["found"])
    _pile("copied, because a merge of another client is taken back", data["copied"])
    _pile("missing: these rows are lost", [{"key": key} for key in data["missing"]])
    output.pairs(
        [
            ("table", data["table"]),
            (
                "live parts",
                (
                    f"{number(data['parts'])}: {number(data['named'])} named, "
                    f"{number(len(data['found']))} found"
                ),
            ),
            ("rows", number(data["rows"])),
            ("bytes", about_size(data["bytes"])),
            ("dead parts", number(data["dead_parts"])),
            ("undecided", number(len(data["undecided"]))),
            ("left out", number(len(data["left_out"]))),
            ("missing", number(len(data["missing"]))),
        ]
    )


def _pile(title: str, objects: Sequence[dict[str, Any]]) -> None:
    if not objects:
        return
    columns = [
        output.Column(title, wrap=True),
        output.Column("rows", number=True),
        output.Column("because it", wrap=True),
    ]
    rows = [
        [found["key"], output.number(found.get("rows", 0)), found.get("reason", "has no object")]
        for found in objects[:SHOWN]
    ]
    output.table(columns, rows)
    if len(objects) > SHOWN:
        output.line(f"… and {output.number(len(objects) - SHOWN)} more")
    output.line()


def _render(data: dict[str, Any]) -> None:
    from firnline.units import about_duration

    _render_plan({"table": data["table"], **data["plan"]})
    output.pairs(
        [
            ("transaction", ", ".join(map(output.number, data["transactions"]))),
            ("requests", requests_text(data["requests"])),
            ("time", about_duration(round(data["seconds"] * 1000))),
        ]
    )
