"""``firnline restore``: undo transactions in some partitions."""

from __future__ import annotations

from typing import Annotated

import typer

from firnline.cli.operate import operate
from firnline.cli.options import (
    JsonOption,
    SettingsOption,
    TableArgument,
    command,
    open_target,
)
from firnline.cli.progress import restoring
from firnline.operations.operation import Work
from firnline.operations.options import RestoreOptions
from firnline.operations.registry import RESTORE

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
    opened = open_target(table, settings)
    operate(RESTORE.load(), Work(opened), options, as_json=as_json, progress=restoring, yes=yes)
