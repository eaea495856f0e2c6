"""``firnline replace``: replace the rows of an interval by new ones."""

from __future__ import annotations

from functools import partial

import typer

from firnline.cli.confirm import YesOption
from firnline.cli.engine import EngineKind, EngineOption, MasterOption, ScratchOption, engine_for
from firnline.cli.operate import operate
from firnline.cli.options import (
    JsonOption,
    SettingsOption,
    TableArgument,
    command,
    open_target,
)
from firnline.cli.progress import reading
from firnline.operations.operation import Work
from firnline.operations.options import ReplaceOptions
from firnline.operations.registry import REPLACE

commands = typer.Typer()


@command(
    commands,
    "replace",
    [
        "firnline replace flights day.parquet --start 2013-01-05 --end 2013-01-06 --dry-run",
        "firnline replace flights s3://lake/staged/05/ --start 2013-01-05 --end 2013-01-06 --yes",
        "firnline replace events --nothing --column n --start 7 --end 9 --where-equal client=12",
    ],
)
def replace(
    table: TableArgument,
    options: ReplaceOptions,
    yes: YesOption = False,
    engine: EngineOption = EngineKind.LOCAL,
    master: MasterOption = None,
    scratch: ScratchOption = None,
    as_json: JsonOption = False,
    settings: SettingsOption = None,
) -> None:
    """Replace the rows of an interval by new ones.

    One transaction: readers see the old rows or the new ones. The interval need not go along with
    partitions or parts; parts wholly inside are dropped unread. Hours without a new row are empty
    afterwards; new rows outside of the interval are refused; rows without a time stay. Appends
    that began before are covered. Under Airflow the DAG replace does the same.
    """
    opened = open_target(table, settings)
    with engine_for("replace", opened, engine, master, scratch) as factory:
        operate(
            REPLACE.load(),
            Work(opened, engine=factory, scratch=scratch),
            options,
            as_json=as_json,
            yes=yes,
            progress=partial(reading, "replacing in"),
        )
