"""``firnline ttl``: drop partitions and parts that are past their time to live."""

from __future__ import annotations

import typer

from firnline.cli.confirm import YesOption
from firnline.cli.operate import operate, works
from firnline.cli.options import (
    JsonOption,
    SettingsOption,
    TableArgument,
    command,
    open_target,
)
from firnline.operations.operation import Work
from firnline.operations.options import TtlOptions
from firnline.operations.registry import TTL

commands = typer.Typer()


@command(
    commands,
    "ttl",
    ["firnline ttl flights --dry-run", "firnline ttl flights --partitions 'region=eu/*' --yes"],
)
def ttl(
    table: TableArgument,
    options: TtlOptions,
    yes: YesOption = False,
    as_json: JsonOption = False,
    settings: SettingsOption = None,
) -> None:
    """Drop what is older than the table's ttl.keep.

    A partition goes when its whole span is past; by a column, a part goes when its statistics
    prove every row older. What cannot be dated is listed and stays. The objects stay until
    clean-up deletes them, after the grace. Under Airflow the DAG ttl__TABLE does the same.
    """
    opened = open_target(table, settings)
    progress = works("dropping from")
    operate(TTL.load(), Work(opened), options, as_json=as_json, progress=progress, yes=yes)
