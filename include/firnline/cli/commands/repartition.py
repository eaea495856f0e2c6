"""``firnline repartition``: move rows of partitions of a former layout."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import typer

from firnline.cli import output
from firnline.cli.engine import EngineKind, EngineOption, MasterOption, ScratchOption, engine_for
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
from firnline.cli.progress import reading
from firnline.errors import RunFailedError
from firnline.operations.operation import Work
from firnline.operations.options import RepartitionOptions
from firnline.operations.repartition.pages import plan_page, report_page
from firnline.units import counted

if TYPE_CHECKING:
    from firnline.kernel.engine import Engine
    from firnline.table import Table

commands = typer.Typer()
SHOWN = 20
"""Maximum partitions that are printed; ``--json`` has all of a plan, and 1,000 of a report."""


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
    require_table(opened)
    if options.dry_run:
        from firnline.operations.repartition.run import preview

        with looking(opened, silent=as_json):
            plan = preview(opened, options)
        data = {"table": opened.settings.name, **plan.to_json()}
        output.show(data, as_json, plan_page)
        return
    with engine_for("repartition", opened, engine, master, scratch) as factory:
        _repartition(opened, factory, options, as_json)


def _repartition(
    table: Table, engine: Callable[[], Engine], options: RepartitionOptions, as_json: bool
) -> None:
    """Run it and print the report, even with failed partitions. Raises RunFailedError."""
    from firnline.operations.repartition.run import RepartitionFailedError, run_repartition

    name = table.settings.name
    stopped = f"stopped; partitions of {name} that are moved stay so, the others are as they were"

    output.show_run(
        lambda tell: run_repartition(Work(table, identity(table), engine, tell), options),
        reading("repartitioning", name, table.clock, silent=as_json),
        as_json,
        report_page,
        stopped=(stopped, "run the same command again to go on"),
        failed=(RepartitionFailedError,),
        shorten=lambda report: RunFailedError(
            f"{counted(len({f.partition for f in report.failures}), 'partition')} of {name} could "
            "not be moved, for the reasons above",
            next_step="repair what is named and run it again",
        ),
    )
