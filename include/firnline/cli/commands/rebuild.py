"""``firnline rebuild``: rebuild a lost log from parts and transactions."""

from __future__ import annotations

from functools import partial

import typer

from firnline.cli import output
from firnline.cli.confirm import YesOption
from firnline.cli.operate import operate
from firnline.cli.options import (
    JsonOption,
    SettingsOption,
    TableArgument,
    command,
    open_target,
)
from firnline.cli.progress import footers
from firnline.operations.operation import Work
from firnline.operations.options import RebuildOptions
from firnline.operations.registry import REBUILD

commands = typer.Typer()


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
    progress = partial(footers, "rebuilding")
    with output.nothing_to_do(opened.settings.name, as_json):
        operate(REBUILD.load(), Work(opened), options, as_json=as_json, progress=progress, yes=yes)
