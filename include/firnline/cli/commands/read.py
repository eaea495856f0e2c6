"""``firnline read``: print the rows of a table, or write them to a file."""

from __future__ import annotations

import csv
import sys
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from firnline.cli import output
from firnline.cli.failures import when_stopped
from firnline.cli.files import check_new, written
from firnline.cli.options import (
    MOST_ROWS,
    JsonOption,
    SettingsOption,
    TableArgument,
    command,
    looking,
    open_target,
)
from firnline.cli.progress import sharing
from firnline.errors import UsageError
from firnline.pages import Column
from firnline.units import counted

if TYPE_CHECKING:
    from firnline.read.scan import Scan

SHOWN = 20
"""Default number of rows on the screen."""

commands = typer.Typer()


@command(
    commands,
    "read",
    [
        "firnline read flights --where \"carrier = 'UA' and dep_delay > 60\" --limit 5",
        "firnline read flights --limit 2 --vertical",
        "firnline read flights --columns carrier,dep_delay --output flights.parquet",
        "firnline read flights --at 2026-01-31T12:00:00Z --output - > then.csv",
    ],
)
def read(  # noqa: PLR0913, PLR0917 - a command's options are its parameters
    table: TableArgument,
    columns: Annotated[
        str | None,
        typer.Option("--columns", metavar="A,B", help="Only these columns, in this order."),
    ] = None,
    where: Annotated[
        str | None,
        typer.Option(
            "--where",
            metavar="SQL",
            help="Condition on the rows: and, or, not over comparisons of columns with literals. "
            "Parts that it excludes are not read.",
        ),
    ] = None,
    partition: Annotated[
        str | None, typer.Option("--partition", metavar="GLOB", help="Only these partitions.")
    ] = None,
    at: Annotated[
        str | None,
        typer.Option(
            "--at",
            metavar="TIME|SEQ",
            help="As of a time (2026-01-31T12:00:00Z, unix milliseconds) or transaction.",
        ),
    ] = None,
    limit: Annotated[
        int | None,
        typer.Option(
            "--limit",
            metavar="N",
            min=0,
            max=MOST_ROWS,
            help="Maximum number of rows; without it 20 on the screen, and all in a file.",
        ),
    ] = None,
    dedup: Annotated[
        bool,
        typer.Option(
            "--dedup/--all-rows",
            help="One row per primary key, where the table has one, or all rows.",
        ),
    ] = True,
    target: Annotated[
        str | None,
        typer.Option(
            "--output", metavar="FILE", help="New .parquet or .csv file for the rows; - prints CSV."
        ),
    ] = None,
    vertical: Annotated[
        bool,
        typer.Option("--vertical", help="One line for each value: for tables of many columns."),
    ] = False,
    as_json: JsonOption = False,
    settings: SettingsOption = None,
) -> None:
    """Visible rows of a table: on the screen, as Parquet, as CSV.

    Deletes that wait for a merge are applied, and of a table with a primary key there is one row
    per key. Rows come in no order.
    """
    from firnline.read.scan import scan

    _refuse_ignored(target, as_json=as_json, vertical=vertical)
    if target is not None and target != "-":
        step = "let it end in .parquet or .csv, or write - for CSV on standard output"
        check_new(Path(target), "Parquet or CSV", (".parquet", ".csv"), step)
    opened = open_target(table, settings)
    with looking(opened, silent=as_json):
        scanned = scan(
            opened,
            columns=None if columns is None else [name.strip() for name in columns.split(",")],
            where=where,
            at=at,
            dedup=None if dedup else False,
            partitions=() if partition is None else partition,
        )
    if target is None:
        _show(scanned, SHOWN if limit is None else limit, as_json, vertical=vertical)
    elif target == "-":
        _print_csv(scanned, limit)
    else:
        rows = _write(scanned, Path(target), limit, as_json=as_json)
        data = {"output": target, "rows": rows, **scanned.plan.to_json()}
        output.show(data, as_json, lambda _: output.line(f"{counted(rows, 'row')} in {target}"))


def _refuse_ignored(target: str | None, *, as_json: bool, vertical: bool) -> None:
    """Raise UsageError for options of which one would be ignored."""
    if as_json and target == "-":
        clash, why = "--output - and --json", "CSV and JSON would go to the same place"
    elif vertical and target is not None:
        clash, why = "--output and --vertical", "--vertical is for rows on the screen"
    elif vertical and as_json:
        clash, why = "--json and --vertical", "--vertical is for people"
    else:
        return
    raise UsageError(f"{clash} do not go together: {why}", next_step="leave one of them out")


def _write(scanned: Scan, path: Path, limit: int | None, *, as_json: bool) -> int:
    """Write the file under a temporary name, rename it, and return the number of rows."""
    from firnline.read.duckdb import write_file

    table = scanned.table
    with (
        when_stopped(f"stopped; {path} was not written", next_step="run the same command again"),
        written(path) as part,
        sharing("reading", table.settings.name, table.clock, silent=as_json) as tell,
    ):
        return write_file(scanned.plan.task, table.store, scanned.limits(), part, limit, tell)


def _print_csv(scanned: Scan, limit: int | None) -> None:
    from firnline.read.duckdb import texts

    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(scanned.columns)
    for row in texts(scanned.plan.task, scanned.table.store, scanned.limits(), limit):
        writer.writerow(row)
    sys.stdout.flush()


def _show(scanned: Scan, limit: int, as_json: bool, *, vertical: bool) -> None:
    from firnline.read.duckdb import json_rows, texts

    # Values as JSON has them, or as text; None for null. One row more says whether there are more.
    read_rows = json_rows if as_json else texts
    with looking(scanned.table, silent=as_json):
        rows: list[Sequence[Any]] = list(
            read_rows(scanned.plan.task, scanned.table.store, scanned.limits(), limit + 1)
        )
    more, shown = len(rows) > limit, list(islice(rows, limit))
    data: dict[str, Any] = {**scanned.plan.to_json(), "more": more, "rows": shown}

    def render(_: dict[str, Any]) -> None:
        if vertical:
            for number, row in enumerate(shown, start=1):
                output.line(f"row {number}", style="bold")
                output.pairs(zip(scanned.columns, row, strict=True))
        else:
            # The first ones stay; a wide table shows as many as fit.
            columns = [
                Column(name, wrap=True, dispensable=at) for at, name in enumerate(scanned.columns)
            ]
            output.table(columns, shown, others="--columns chooses, --vertical shows all")
        output.line()
        output.line(_summary(scanned, len(shown), more))

    output.show(data, as_json, render)


def _summary(scanned: Scan, shown: int, more: bool) -> str:
    plan, number = scanned.plan, output.number
    passed = sum(plan.passed_over.values())
    rows = f"the first {counted(shown, 'row')}" if more else f"{counted(shown, 'row')}"
    parts = f"{number(len(plan.task.parts))} of {counted(len(plan.task.parts) + passed, 'part')}"
    hint = "; --limit shows more, --output keeps them" if more else ""
    return f"{rows[:1].upper()}{rows[1:]} from {parts}{hint}."
