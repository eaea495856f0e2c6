"""``firnline sweep``: list objects that no log file names; delete them with --delete."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from firnline.cli import output
from firnline.cli.options import (
    JsonOption,
    SettingsOption,
    TableArgument,
    command,
    identity,
    looking,
    open_target,
)
from firnline.cli.output import requests_text
from firnline.cli.progress import deleting
from firnline.cli.rendering import not_all_deleted, show_undeleted
from firnline.errors import UsageError
from firnline.operations.operation import Work
from firnline.operations.options import SweepOptions
from firnline.pages import Column
from firnline.units import counted

if TYPE_CHECKING:
    from firnline.table import Table

commands = typer.Typer()
_SHOWN = 50


@command(
    commands,
    "sweep",
    [
        "firnline sweep flights",
        "firnline sweep flights --older-than 7d --delete",
        "firnline sweep flights --delete --key flights/_data/d=1/old.parquet",
    ],
    writes=True,
)
def sweep(
    table: TableArgument,
    options: SweepOptions,
    delete: Annotated[
        bool, typer.Option("--delete", help="Delete the orphans; without it they are only listed.")
    ] = False,
    as_json: JsonOption = False,
    settings: SettingsOption = None,
) -> None:
    """List objects that no log file names; with --delete delete them.

    Dead runs and appends leave them behind, also as uploads that were never completed. Younger
    ones than orphan_grace (24h at least) may belong to somebody who is still at work. Under
    Airflow the DAG orphan_sweep asks before it deletes.
    """
    from firnline.operations.sweep.run import preview

    if options.approved and not delete:
        raise UsageError(
            "--key names what --delete may delete, and a list has all orphans",
            next_step="add --delete, or leave --key out",
        )
    opened = open_target(table, settings)
    options = msgspec.structs.replace(options, dry_run=not delete)
    if delete:
        _sweep(opened, options, as_json)
    else:
        with looking(opened, silent=as_json):
            plan = preview(opened, options)
        data = {"table": opened.settings.name, "root": opened.settings.root, **plan.to_json()}
        output.show(data, as_json, _render_plan)


def _sweep(table: Table, options: SweepOptions, as_json: bool) -> None:
    """Run the sweep and print the report, even after failures. Raises RunFailedError."""
    from firnline.operations.sweep.run import SweepFailedError, run_sweep

    name = table.settings.name
    stopped = f"stopped; what was deleted was named by nobody, {name} reads as before"

    output.show_run(
        lambda tell: run_sweep(Work(table, identity(table), tell=tell), options),
        deleting("sweeping", name, table.clock, silent=as_json),
        as_json,
        _render,
        stopped=(stopped, "run the same command again to go on"),
        failed=(SweepFailedError,),
        shorten=lambda report: not_all_deleted(counted(report.failed, "orphan"), name),
    )


def _render_plan(data: dict[str, Any]) -> None:
    from firnline.units import about_duration, about_size

    number, orphans = output.number, data["orphans"]
    if orphans:
        columns = [
            Column("orphan", wrap=True),
            Column("what"),
            Column("bytes", number=True),
            Column("age", number=True),
        ]
        rows = [
            [
                one["key"],
                one["kind"],
                "?" if one["kind"] == "upload" else about_size(one["bytes"]),
                about_duration(one["age"]),
            ]
            for one in orphans[:_SHOWN]
        ]
        count, whole = len(orphans) + data["more"], data["bytes"] + data["more_bytes"]
        output.table(columns, rows, [f"{number(count)} in all", "", about_size(whole), ""])
        output.line()
        if count > _SHOWN:
            output.line(f"The first {_SHOWN} are shown; --json lists {number(len(orphans))}.")
        output.line(f"`firnline sweep {data['table']} --delete` deletes them.")
        foreign = sum(one["kind"] == "foreign" for one in orphans)
        if foreign:
            output.line(
                f"But {number(foreign)} with names that firnline does not give: "
                "those go only by --key."
            )
    else:
        output.line(f"No orphans in {data['table']}.")
    _render_young(data, about_duration(data["grace"]))


def _render_young(data: dict[str, Any], grace: str) -> None:
    from firnline.units import about_size

    if data["prepared"]:
        output.line(
            f"{counted(data['prepared'], 'part')} of prepared changes wait for a decision: see "
            f"`firnline rewrite {data['table']} --prepared`."
        )
    if data.get("endings"):
        output.line(
            f"{counted(len(data['endings']), 'prepared change')} would end: nobody decided in time."
        )
    if data.get("discarded"):
        output.line(
            f"{counted(data['discarded'], 'part')} of prepared changes deleted: nobody decided in "
            "time."
        )
    if data.get("waiting"):
        from firnline.operations.sweep.run import WAITING

        size = about_size(data["waiting_bytes"])
        output.line(f"{counted(data['waiting'], 'orphan')} ({size}) {WAITING}.")
    if data["young"]:
        output.line(
            f"{counted(data['young'], 'object')} ({about_size(data['young_bytes'])}) that nobody "
            f"names, not older than {grace}: somebody may still be at work there."
        )


def _render(data: dict[str, Any]) -> None:
    from firnline.units import about_duration, about_size

    number = output.number
    show_undeleted(data["failures"], data["failed"])
    if not data["orphans"]:
        output.line(f"No orphans in {data['table']}.")
        for why, count in data["left"].items():
            output.line(f"{counted(count, 'orphan')} {why}.")
    else:
        output.pairs(
            [
                ("orphans", f"{number(data['orphans'])}, {about_size(data['orphan_bytes'])}"),
                ("deleted", f"{number(data['deleted'])}, {about_size(data['bytes'])}"),
                ("of them uploads", number(data["uploads_aborted"])),
                *((f"left: {number(count)}", why) for why, count in data["left"].items()),
                ("requests", requests_text(data["requests"])),
                ("time", about_duration(round(data["seconds"] * 1000))),
            ]
        )
    if data["gone"]:
        output.line(f"{counted(data['gone'], 'key')} given that is not an orphan (any more).")
    _render_young(data, "orphan_grace")
