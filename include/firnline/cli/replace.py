"""``firnline replace``: replace the rows of an interval by new ones."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from firnline.cli import output
from firnline.cli.confirm import YesOption, ask
from firnline.cli.engine import EngineKind, EngineOption, MasterOption, ScratchOption, engine_for
from firnline.cli.failures import when_stopped
from firnline.cli.options import JsonOption, SettingsOption, TableArgument, command, identity, open_target, require_table
from firnline.cli.output import counted, requests_text
from firnline.cli.progress import reading
from firnline.cli.rewriting import groups_table, show_failures
from firnline.errors import RunFailedError, UsageError

if TYPE_CHECKING:
    from firnline.kernel.engine import Engine
    from firnline.operations.replace.report import ReplaceOptions
    from firnline.table import Table

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
def replace(  # noqa: PLR0913, PLR0917 - one per option
    table: TableArgument,
    start: Annotated[
        str, typer.Option("--start", metavar="VALUE", help="Start of the interval, inclusive.")
    ],
    end: Annotated[
        str, typer.Option("--end", metavar="VALUE", help="End of the interval, exclusive.")
    ],
    files: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[FILES]",
            help="Parquet files with the new rows, or folders of them: here, or URLs in the "
            "table's bucket.",
        ),
    ] = None,
    nothing: Annotated[
        bool, typer.Option("--nothing", help="No new rows: the interval is empty afterwards.")
    ] = False,
    column: Annotated[
        str | None,
        typer.Option(
            "--column",
            metavar="NAME",
            help="Column of times, dates or numbers; without it the time of partition_by, of "
            "ttl.column, or the first of sort_by.",
        ),
    ] = None,
    where_equal: Annotated[
        list[str] | None,
        typer.Option(
            "--where-equal",
            metavar="COLUMN=VALUE",
            help="Only rows that have this value; may be repeated for other columns.",
        ),
    ] = None,
    partition: Annotated[
        str | None,
        typer.Option(
            "--partition",
            metavar="PATH",
            help="Partition of all new rows, as d=2026-01-31; only for a table without "
            "partition_by.",
        ),
    ] = None,
    eager: Annotated[
        bool | None,
        typer.Option(
            "--eager/--lazy",
            help="Rewrite the parts that the interval cuts now, or leave them to the next merge; "
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
    """Replace the rows of an interval by new ones.

    One transaction: readers see the old rows or the new ones. The interval need not go along with
    partitions or parts; parts wholly inside are dropped unread. Hours without a new row are empty
    afterwards; new rows outside of the interval are refused; rows without a time stay. Appends
    that began before are covered. Under Airflow the DAG replace__TABLE does the same.
    """
    opened = open_target(table, settings)
    if dry_run or nothing:
        require_table(opened)
    from firnline.operations.replace.run import ReplaceOptions, preview

    options = ReplaceOptions(
        column=column,
        start=start,
        end=end,
        equal=parse_equal(where_equal or ()),
        files=tuple(files or ()),
        nothing=nothing,
        partition=partition,
        mode=None if eager is None else "eager" if eager else "lazy",
    )
    with engine_for(opened, engine, master, scratch) as factory:
        if dry_run or (not yes and _is_there(opened)):
            data = {"table": opened.settings.name, **preview(opened, options).to_json()}
            if dry_run:
                output.show(data, as_json, _render_plan)
                return
            ask(opened, data, as_json, _render_plan)
        _replace(opened, factory, options, scratch, as_json)


def parse_equal(pairs: Sequence[str]) -> dict[str, str | int | float | bool]:
    """Parse ``client=1234`` to column and text. Raises UsageError."""
    found: dict[str, str | int | float | bool] = {}
    for pair in pairs:
        column, separator, value = pair.partition("=")
        if not separator or not column:
            raise UsageError(
                f"--where-equal {pair!r} is not COLUMN=VALUE",
                next_step="write it as --where-equal client=1234",
            )
        if column in found:
            raise UsageError(
                f"--where-equal names column {column!r} twice",
                next_step="name each column once; a row has one value in it",
            )
        found[column] = value
    return found


def _is_there(table: Table) -> bool:
    """Return True if the table exists; otherwise no rows would go and nobody is asked."""
    return next(iter(table.store.list(table.paths.log_dir)), None) is not None


def _replace(
    table: Table,
    engine: Callable[[], Engine],
    options: ReplaceOptions,
    scratch: Path | None,
    as_json: bool,
) -> None:
    from firnline.operations.replace.run import ReplaceFailedError, run_replace

    name = table.settings.name
    stopped = f"stopped; the interval of {name} was replaced as a whole or not at all"
    try:
        with (
            when_stopped(stopped, next_step="see `firnline history`, or run it again"),
            reading("replacing in", name, table.clock, silent=as_json) as tell,
        ):
            report = run_replace(table, engine, options, identity(table), tell, scratch=scratch)
    except ReplaceFailedError as error:
        show_failures(error.report.to_json(), as_json)
        if as_json:
            raise
        raise RunFailedError(
            f"nothing was replaced in {name}, for the reasons above",
            next_step="repair or drop the named parts, or leave them to merges with --lazy",
        ) from error
    output.show(report.to_json(), as_json, _render)


def _interval(data: dict[str, Any]) -> str:
    start, end = (str(data[name]).replace(".000000", "") for name in ("start", "end"))
    equal = "".join(f" where {column} = {value}" for column, value in data["equal"].items())
    return f"[{start}, {end}) of {data['column']}{equal}"


def _render_plan(data: dict[str, Any]) -> None:
    from firnline.units import about_size

    number = output.number
    groups_table(data)
    output.line(f"To replace {_interval(data)} in {data['table']}:")
    if data["parts_to_drop"]:
        output.line(
            f"{counted(data['parts_to_drop'], 'part')} would be dropped unread: all of "
            f"{number(data['rows_to_drop'])} rows lie inside."
        )
    if data["parts_to_read"]:
        output.line(
            f"{counted(data['parts_to_read'], 'part')} would be read (about "
            f"{about_size(data['bytes_in'])}), and rewritten where rows lie inside."
        )
    if data["parts_hidden"]:
        output.line(
            f"{counted(data['parts_hidden'], 'part')} would stay until the next merge; readers "
            "hide what lies inside at once."
        )
    if data["only_record"] and not data["parts_hidden"]:
        output.line(
            "No part would be touched. The record is committed all the same: it hides such rows of "
            "appends that are under way."
        )


def _render(data: dict[str, Any]) -> None:
    from firnline.units import about_duration, about_size

    number, counts = output.number, defaultdict(int, data["counts"])
    new = "nothing"
    if data["parts_new"]:
        rows = data["rows_new"]
        new = (
            f"{counted(rows, 'row')} in {counted(data['parts_new'], 'part')}, "
            f"{about_size(data['bytes_new'])}"
        )
    hidden = (
        f", and what up to {counted(data['parts_hidden'], 'part')} hold of it is hidden until a "
        "merge"
        if data["parts_hidden"]
        else ""
    )
    rows_told = [
        ("replaced", _interval(data)),
        ("by", new),
        ("deleted", f"{number(counts['rows_deleted'])} rows{hidden}"),
        (
            "parts",
            (
                f"{number(data['parts_dropped'])} dropped unread, {number(data['parts_read'])} "
                f"read, {number(data['parts_rewritten'])} of them rewritten, "
                f"{number(data['parts_excluded'])} excluded by statistics"
            ),
        ),
        ("transaction", number(data["transaction"])),
        ("record", f"{data['delete']}: hides such rows of appends that began before"),
        ("requests", requests_text(data["requests"])),
        ("time", about_duration(round(data["seconds"] * 1000))),
    ]
    output.pairs(rows_told)
