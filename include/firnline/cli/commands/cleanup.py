"""``firnline cleanup``: delete replaced objects whose grace is over."""

from __future__ import annotations

from functools import partial

import typer

from firnline.cli.operate import operate
from firnline.cli.options import (
    JsonOption,
    SettingsOption,
    TableArgument,
    command,
    open_target,
)
from firnline.cli.progress import deleting
from firnline.operations.operation import Work
from firnline.operations.options import CleanupOptions
from firnline.operations.registry import CLEANUP

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
    opened = open_target(table, settings)
    operate(
        CLEANUP.load(),
        Work(opened),
        options,
        as_json=as_json,
        progress=partial(deleting, "cleaning up"),
    )
