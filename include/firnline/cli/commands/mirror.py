"""``firnline mirror``: publish the table in a format that other engines read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from firnline.cli import output
from firnline.cli.failures import when_stopped
from firnline.cli.operate import operate
from firnline.cli.options import (
    JsonOption,
    SettingsOption,
    TableArgument,
    command,
    looking,
    open_target,
    require_table,
)
from firnline.cli.progress import mirroring
from firnline.errors import UsageError
from firnline.operations.operation import Work
from firnline.operations.options import MirrorOptions
from firnline.operations.registry import MIRROR

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
    """Publish the table's newest state for engines that read Delta or Iceberg tables.

    For tables with a mirror among their settings. With mirror: [delta] other engines open the
    table's root as a Delta table, and none of them can write to it; with iceberg they find it in a
    catalog. No part is copied: a mirror is a little metadata for each new state. Safe beside
    everything else, and to stop at any time: the next run goes on.
    """
    if check and options.dry_run:
        raise UsageError(
            "--check publishes nothing, with or without --dry-run",
            next_step="give one of the two",
        )
    opened = open_target(table, settings)
    if check:
        require_table(opened)
        _check(opened, as_json)
    else:
        operate(
            MIRROR.load(),
            Work(opened),
            options,
            as_json=as_json,
            progress=mirroring,
            publishes=False,
        )


def _check(table: Table, as_json: bool) -> None:
    from firnline.operations.mirror.check import run_checks
    from firnline.operations.mirror.pages import checks_page

    with (
        when_stopped("stopped; a check changes nothing", next_step="run it again"),
        looking(table, silent=as_json),
    ):
        checks = run_checks(table)
    data: dict[str, Any] = {"table": table.settings.name, "delta": None, "iceberg": None}
    data |= {report.format: report.to_json() for report in checks.reports}
    data["errors"] = {name: str(error) for name, error in checks.errors.items()}
    data["same"] = checks.same
    output.show(data, as_json, checks_page)
    checks.refuse()
