"""``firnline repartition``: move rows of partitions of a former layout."""

from __future__ import annotations

from functools import partial

import typer

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
from firnline.operations.options import RepartitionOptions
from firnline.operations.registry import REPARTITION

commands = typer.Typer()


@command(
    commands,
    "repartition",
    [
        "firnline repartition flights --dry-run",
        "firnline repartition flights --partitions 'sched_dep_day=2013-01-*'",
    ],
)
def repartition(
    table: TableArgument,
    options: RepartitionOptions,
    engine: EngineOption = EngineKind.LOCAL,
    master: MasterOption = None,
    scratch: ScratchOption = None,
    as_json: JsonOption = False,
    settings: SettingsOption = None,
) -> None:
    """Move rows of partitions of a former layout to those of partition_by.

    No row changes: one transaction for each source partition, so that readers see every row once
    at any time. Safe beside appends, readers and merges, and to stop at any time; what is done is
    not done again. After a change of partition_by: `firnline properties apply`, then this.
    """
    opened = open_target(table, settings)
    with engine_for("repartition", opened, engine, master, scratch) as factory:
        progress = partial(reading, "repartitioning")
        operate(
            REPARTITION.load(),
            Work(opened, engine=factory),
            options,
            as_json=as_json,
            progress=progress,
        )
