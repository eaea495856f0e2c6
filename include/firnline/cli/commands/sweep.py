"""``firnline sweep``: list objects that no log file names; delete them with --delete."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import msgspec
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
from firnline.errors import UsageError
from firnline.operations.operation import Work
from firnline.operations.options import SweepOptions
from firnline.operations.registry import SWEEP

commands = typer.Typer()


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
    if options.approved and not delete:
        raise UsageError(
            "--key names what --delete may delete, and a list has all orphans",
            next_step="add --delete, or leave --key out",
        )
    opened = open_target(table, settings)
    options = msgspec.structs.replace(options, dry_run=not delete)
    operate(
        SWEEP.load(), Work(opened), options, as_json=as_json, progress=partial(deleting, "sweeping")
    )
