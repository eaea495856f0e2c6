"""``firnline repartition``: move rows of partitions of a former layout."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

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
from firnline.cli.output import requests_text
from firnline.cli.progress import reading
from firnline.errors import RunFailedError
from firnline.operations.operation import Work
from firnline.operations.options import RepartitionOptions
from firnline.pages import Column
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
        output.show(data, as_json, _render_plan)
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
        _render,
        stopped=(stopped, "run the same command again to go on"),
        failed=(RepartitionFailedError,),
        shorten=lambda report: RunFailedError(
            f"{counted(len({f.partition for f in report.failures}), 'partition')} of {name} could "
            "not be moved, for the reasons above",
            next_step="repair what is named and run it again",
        ),
    )


def _render_plan(data: dict[str, Any]) -> None:
    from firnline.units import about_size

    number, name = output.number, data["table"]
    layout = ", ".join(data["layout"])
    if not data["partitions"]:
        output.line(f"Nothing to move in {name}: all partitions are of the layout {layout}.")
        return
    columns = [
        Column("partition", wrap=True),
        *(Column(title, number=True) for title in ("parts", "bytes")),
    ]
    rows = [
        [one["partition"] or "-", number(one["parts"]), about_size(one["bytes"])]
        for one in data["partitions"][:SHOWN]
    ]
    output.table(columns, rows)
    if len(data["partitions"]) > len(rows):
        output.line(f"and {number(len(data['partitions']) - len(rows))} more; --json has them")
    output.line()
    output.line(
        f"{counted(data['parts_in'], 'part')} of {counted(len(data['partitions']), 'partition')} "
        f"would be moved to partitions by {layout}: about {about_size(data['bytes_in'])} to read "
        f"and to write, and at least {counted(data['requests'], 'request')} besides reading "
        "the log."
    )


def _render(data: dict[str, Any]) -> None:
    from firnline.units import about_duration, about_size

    number, counts = output.number, data["counts"]
    if data["failures"]:
        columns = [Column("partition"), Column("as it was because", wrap=True)]
        output.table(columns, ([f["partition"] or "-", f["message"]] for f in data["failures"]))
        output.line()
    if data["partitions"]:
        _table(data)
    if not data["transactions"]:
        layout = ", ".join(data["layout"])
        output.line(f"Nothing was moved in {data['table']}, whose layout is {layout}.")
    else:
        sizes = (about_size(counts.get(f"bytes_{end}", 0)) for end in ("in", "out"))
        output.pairs(
            [
                ("rows", number(counts.get("rows_out", 0))),
                ("parts", f"{number(counts['parts_in'])} → {number(counts.get('parts_out', 0))}"),
                ("bytes", " → ".join(sizes)),
                ("transactions", number(len(data["transactions"]))),
                ("requests", requests_text(data["requests"])),
                ("time", about_duration(round(data["seconds"] * 1000))),
            ]
        )
    if data["parts_left"]:
        output.line(
            f"{counted(data['parts_left'], 'part')} of "
            f"{counted(data['partitions_left'], 'partition')} of a former layout are left; run it "
            "again once no writer uses that layout any more."
        )


def _table(data: dict[str, Any]) -> None:
    number = output.number
    columns = [
        Column("moved", wrap=True),
        *(Column(title, number=True) for title in ("to partitions", "parts", "rows")),
    ]
    rows = [
        [
            one["partition"] or "-",
            number(one["targets"]),
            f"{number(one['parts_in'])} → {number(one['parts_out'])}",
            number(one["rows"]),
        ]
        for one in data["partitions"][:SHOWN]
    ]
    output.table(columns, rows)
    if len(data["transactions"]) > len(rows):
        output.line(f"and {number(len(data['transactions']) - len(rows))} more; --json has them")
    output.line()
