"""``firnline downgrade``: convert a table to pure log version 1."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from firnline.cli.confirm import YesOption
from firnline.cli.engine import EngineKind, MasterOption, engine_for
from firnline.cli.operate import operate, works
from firnline.cli.options import (
    JsonOption,
    SettingsOption,
    TableArgument,
    command,
    open_target,
)
from firnline.operations.operation import Work
from firnline.operations.options import DowngradeOptions
from firnline.operations.registry import DOWNGRADE

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
        typer.Option("--scratch", metavar="FOLDER", help="Local disk to stage on."),
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
    with engine_for("downgrade", opened, engine, master, scratch) as factory:
        operate(
            DOWNGRADE.load(),
            Work(opened, engine=factory),
            options,
            as_json=as_json,
            yes=yes,
            progress=works("downgrading"),
        )
