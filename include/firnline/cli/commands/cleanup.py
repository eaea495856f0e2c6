"""``firnline cleanup``: delete replaced objects whose grace is over."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

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
    require_table,
)
from firnline.cli.output import requests_text
from firnline.cli.progress import deleting
from firnline.cli.rendering import not_all_deleted, show_undeleted
from firnline.operations.operation import Work
from firnline.operations.options import CleanupOptions
from firnline.pages import Column
from firnline.units import counted

if TYPE_CHECKING:
    from firnline.table import Table

commands = typer.Typer()


@command(
    commands,
    "cleanup",
    [
        "firnline cleanup flights --dry-run",
        "firnline cleanup flights --max-deletes 100000",
    ],
)
def cleanup(
    table: TableArgument,
    options: CleanupOptions,
    as_json: JsonOption = False,
    settings: SettingsOption = None,
) -> None:
    """Delete what was replaced, once its grace is over.

    Data parts, log files that others carry, old transactions. Nothing that a reader may still use
    goes: cleanup.grace of the settings. States before that can no longer be read. Under Airflow
    the DAG tombstone_cleanup__TABLE does the same.
    """
    from firnline.operations.cleanup.run import preview

    opened = open_target(table, settings)
    require_table(opened)
    if options.dry_run:
        with looking(opened, silent=as_json):
            plan = preview(opened, options)
        data = {"table": opened.settings.name, "root": opened.settings.root, **plan.to_json()}
        output.show(data, as_json, _render_plan)
    else:
        _clean_up(opened, options, as_json)


def _clean_up(table: Table, options: CleanupOptions, as_json: bool) -> None:
    """Run the clean-up and print the report, even after failures. Raises RunFailedError."""
    from firnline.operations.cleanup.run import CleanupFailedError, run_cleanup

    name = table.settings.name
    stopped = f"stopped; what was deleted had no reader any more, {name} reads as before"

    output.show_run(
        lambda tell: run_cleanup(Work(table, identity(table), tell=tell), options),
        deleting("cleaning up", name, table.clock, silent=as_json),
        as_json,
        _render,
        stopped=(stopped, "run the same command again to go on"),
        failed=(CleanupFailedError,),
        shorten=lambda report: not_all_deleted(counted(report.failed, "object"), name),
    )


def _render_plan(data: dict[str, Any]) -> None:
    from firnline.units import about_size

    count = data["parts"] + data["log_files"] + data["txn_files"] + data["claims"]
    if count:
        output.line(
            f"{counted(count, 'object')} would be deleted, {about_size(data['bytes'])}: "
            f"{counted(data['parts'], 'data part')}, {counted(data['log_files'], 'log file')}, "
            f"{counted(data['txn_files'], 'old transaction')}{_claims(data)}."
        )
    else:
        output.line(f"Nothing to clean up in {data['table']}.")
    _render_waiting(data["waiting"])


def _claims(data: dict[str, Any]) -> str:
    """Return what a table without keys of appends is not told of."""
    return f", {counted(data['claims'], 'old claim')} of keys" if data["claims"] else ""


def _render(data: dict[str, Any]) -> None:
    from firnline.units import about_duration, about_size

    number = output.number
    count = data["parts"] + data["log_files"] + data["txn_files"] + data["claims"]
    show_undeleted(data["failures"], data["failed"])
    if not count and not data["failed"]:
        output.line(f"Nothing to clean up in {data['table']}.")
    else:
        output.pairs(
            [
                ("deleted", counted(data["parts"], "data part")),
                ("", counted(data["log_files"], "log file")),
                ("", f"{counted(data['txn_files'], 'old transaction')}{_claims(data)}"),
                ("bytes", about_size(data["bytes"])),
                ("readable", f"after {output.when(data['purged'])}" if data["purged"] else "?"),
                ("transaction", ", ".join(map(number, data["transactions"])) or "none"),
                *([("checkpoint", data["checkpoint"])] if data["checkpoint"] else []),
                *(("warning", warning) for warning in data["warnings"]),
                ("requests", requests_text(data["requests"])),
                ("time", about_duration(round(data["seconds"] * 1000))),
            ]
        )
    _render_waiting(data["waiting"])


def _render_waiting(waiting: list[dict[str, Any]]) -> None:
    from firnline.units import about_size

    if not waiting:
        return
    output.line()
    columns = [
        Column("waits", number=True),
        Column("what"),
        Column("bytes", number=True, dispensable=1),
        Column("from", dispensable=2),
        Column("until"),
        Column("because", wrap=True),
    ]
    rows = [
        [
            output.number(one["count"]),
            one["what"],
            about_size(one["bytes"]),
            "-" if one["first_ms"] is None else output.when(one["first_ms"]),
            "-" if one["last_ms"] is None else output.when(one["last_ms"]),
            one["reason"],
        ]
        for one in waiting
    ]
    output.table(columns, rows)
