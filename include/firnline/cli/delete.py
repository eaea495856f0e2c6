"""``firnline delete``: the rows that a condition is true for go."""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from firnline.cli import output
from firnline.cli.engine import EngineKind, engine_for
from firnline.cli.failures import when_stopped
from firnline.cli.merge import MasterOption, identity, requests_text
from firnline.cli.options import (
    JsonOption,
    SettingsOption,
    TableArgument,
    command,
    open_target,
    require_table,
)
from firnline.cli.plan import PartitionsOption
from firnline.cli.progress import reading
from firnline.errors import RunFailedError, UsageError

if TYPE_CHECKING:
    from firnline.kernel.engine import Engine
    from firnline.operations.delete.plan import Mode
    from firnline.operations.delete.run import DeleteOptions
    from firnline.table import Table

commands = typer.Typer()

EngineOption = Annotated[
    EngineKind, typer.Option("--engine", help="Read and write in this process, or by Spark.")
]
ScratchOption = Annotated[
    Path | None,
    typer.Option(
        "--scratch",
        metavar="FOLDER",
        help="Local disk to stage on, about three times the bytes of the largest group per "
        "kernel; without it $TMPDIR.",
    ),
]
YesOption = Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")]


@command(
    commands,
    "delete",
    [
        "firnline delete flights --where \"carrier = 'UA' and distance < 200\" --dry-run",
        "firnline delete flights --where \"tailnum = 'N14228'\" --partitions '*-01' --yes",
        "firnline delete flights --where 'arr_delay is null' --lazy --yes",
    ],
)
def delete(  # noqa: PLR0913, PLR0917 - one per option
    table: TableArgument,
    where: Annotated[
        str,
        typer.Option(
            "--where",
            metavar="SQL",
            help="Rows to delete: and, or, not over comparisons of columns with literals, in "
            "DuckDB's dialect; or the same as JSON.",
        ),
    ],
    partitions: PartitionsOption = None,
    eager: Annotated[
        bool | None,
        typer.Option(
            "--eager/--lazy",
            help="Rewrite the parts now, or hide the rows from readers until the next merge; "
            "without it the table's setting `deletes`.",
        ),
    ] = None,
    yes: YesOption = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the plan only.")] = False,
    engine: EngineOption = EngineKind.LOCAL,
    master: MasterOption = None,
    scratch: ScratchOption = None,
    as_json: JsonOption = False,
    settings: SettingsOption = None,
) -> None:
    """Delete rows by a condition.

    One transaction, all or nothing. A row goes where the condition is true, not where it is null.
    Rows of appends that are under way go too, when they began before. Under Airflow the DAG
    delete_where__TABLE does the same.
    """
    opened = open_target(table, settings)
    require_table(opened)
    from firnline.operations.delete.run import DeleteOptions, preview

    mode: Mode | None = None if eager is None else "eager" if eager else "lazy"
    options = DeleteOptions(where=where, partitions=tuple(partitions or ()), mode=mode)
    with engine_for(opened, engine, master, scratch) as factory:
        if dry_run or not yes:
            data = {"table": opened.settings.name, **preview(opened, options).to_json()}
            if dry_run:
                output.show(data, as_json, _render_plan)
                return
            ask(opened, data, as_json, _render_plan)
        _delete(opened, factory, options, as_json)


def ask(
    table: Table, data: dict[str, Any], as_json: bool, render: Callable[[dict[str, Any]], None]
) -> None:
    """Show a plan and wait for a yes. Raises UsageError where nobody can be asked."""
    if as_json or not sys.stdin.isatty():
        raise UsageError(
            f"nobody can be asked whether rows of {table.settings.name} may go",
            next_step="look with --dry-run, then give --yes",
        )
    output.show(data, False, render)
    with when_stopped("stopped; nothing was changed", next_step="run the same command again"):
        sys.stdout.write("Do it? Type yes: ")
        sys.stdout.flush()
        if sys.stdin.readline().strip().lower() == "yes":
            return
    output.line("Nothing was changed.")
    raise typer.Exit(1)


def _delete(
    table: Table, engine: Callable[[], Engine], options: DeleteOptions, as_json: bool
) -> None:
    from firnline.operations.delete.run import DeleteFailedError, run_delete

    name = table.settings.name
    stopped = f"stopped; the rows of {name} went together or not at all"
    try:
        with (
            when_stopped(stopped, next_step="see `firnline history`, or run it again"),
            reading("deleting from", name, table.clock, silent=as_json) as tell,
        ):
            report = run_delete(table, engine, options, identity(table), tell)
    except DeleteFailedError as error:
        show_failures(error.report.to_json(), as_json)
        if as_json:
            raise
        raise RunFailedError(
            f"nothing was deleted from {name}, for the reasons above",
            next_step="mend or drop the parts that are named, or hide the rows at once with --lazy",
        ) from error
    output.show(report.to_json(), as_json, _render)


def show_failures(data: dict[str, Any], as_json: bool) -> None:
    """Which partitions could not be read, and why."""
    output.show(data, as_json, _render_failures)


def _render_failures(data: dict[str, Any]) -> None:
    columns = [output.Column("partition"), output.Column("not read because", wrap=True)]
    output.table(columns, ([f["partition"] or "-", f["message"]] for f in data["failures"]))
    output.line()


def parts(count: int) -> str:
    """``1 part``, ``2 parts``."""
    return f"{output.number(count)} part{'' if count == 1 else 's'}"


def groups_table(data: dict[str, Any]) -> None:
    """Parts to read by partition, and what is left alone."""
    from firnline.units import about_size

    number = output.number
    by_partition: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0])
    for found in data["groups"]:
        row = by_partition[found["partition"]]
        row[0] += found["parts"]
        row[2] += found["bytes"]
    for found in data["dropped"]:
        by_partition[found["partition"]][1] += found["parts"]
    if by_partition:
        columns = [
            output.Column("partition", wrap=True),
            *(output.Column(title, number=True) for title in ("to read", "to drop", "bytes")),
        ]
        output.table(
            columns,
            (
                [name or "-", number(read), number(dropped), about_size(size)]
                for name, (read, dropped, size) in sorted(by_partition.items())
            ),
        )
        output.line()
    if data["left_alone"]:
        columns = [
            output.Column("left alone", number=True),
            output.Column("because each", wrap=True),
        ]
        output.table(columns, ([number(n), why] for why, n in data["left_alone"].items()))
        output.line()


def _render_plan(data: dict[str, Any]) -> None:
    from firnline.units import about_size

    number, name = output.number, data["table"]
    groups_table(data)
    if data["only_record"] and data["by_winners"]:
        output.line(f"No row of {name} can match, and nothing would be changed.")
        return
    if data["only_record"]:
        output.line(
            f"No part of {name} would be touched. The delete record is committed all the same: it "
            "hides matching rows, also those of appends that are under way."
        )
        return
    read = (
        f"{parts(data['parts_to_read'])} of {name} would be read (about "
        f"{about_size(data['bytes_in'])}), and rewritten where rows match"
    )
    whole = (
        f"{parts(data['parts_to_drop'])} of {name} would be dropped unread: all of "
        f"{number(data['rows_to_drop'])} rows match"
    )
    found = [read] * bool(data["parts_to_read"]) + [whole] * bool(data["parts_to_drop"])
    output.line(f"{'; '.join(found)}.")


def _render(data: dict[str, Any]) -> None:
    from firnline.units import about_duration

    number, counts = output.number, defaultdict(int, data["counts"])
    rows = [
        ("deleted", _deleted(data, counts)),
        (
            "parts",
            (
                f"{number(data['parts_read'])} read, {number(data['parts_rewritten'])} of them "
                f"rewritten, {number(data['parts_dropped'])} dropped unread, "
                f"{number(data['parts_excluded'])} excluded by statistics"
            ),
        ),
        ("transaction", "none" if data["transaction"] is None else number(data["transaction"])),
        ("record", _record(data)),
        ("requests", requests_text(data["requests"])),
        ("time", about_duration(round(data["seconds"] * 1000))),
    ]
    output.pairs(rows)


def _record(data: dict[str, Any]) -> str:
    if data["delete"] is None:
        return "none: the rows that readers saw are gone, and appends under way come after it"
    return f"{data['delete']}: hides such rows of appends that began before"


def _deleted(data: dict[str, Any], counts: dict[str, int]) -> str:
    number = output.number
    if data["mode"] == "lazy":
        return (
            f"rows of up to {number(data['parts_hidden'])} parts are hidden from readers; the "
            "next merge removes and counts them"
        )
    return f"{number(counts['rows_deleted'])} rows"
