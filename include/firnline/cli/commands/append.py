"""``firnline append``: append Parquet files to a table, all of them or none."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from firnline.cli import output
from firnline.cli.engine import refuse_unusable
from firnline.cli.failures import when_stopped
from firnline.cli.mirrored import publish
from firnline.cli.options import (
    JsonOption,
    SettingsOption,
    TableArgument,
    command,
    identity,
    open_target,
)
from firnline.cli.progress import appending
from firnline.errors import UsageError
from firnline.operations.mirror.ended import however_it_ends
from firnline.paths import UNNAMED
from firnline.units import about_size, counted

if TYPE_CHECKING:
    from firnline.appends.append import AppendResult
    from firnline.table import Table

commands = typer.Typer()


@command(
    commands,
    "append",
    [
        "firnline append file:///tmp/t a.parquet b.parquet",
        "firnline append s3://lake/events day.parquet --partition d=2026-01-31",
        "firnline append flights day.parquet --no-new-columns",
        "firnline append events day.parquet --mirror",
        "firnline append events day.parquet --once",
        "firnline append events day.parquet --key 2026-01-31",
    ],
    writes=True,
)
def append(  # noqa: PLR0913, PLR0917 - one per option
    table: TableArgument,
    files: Annotated[
        list[Path], typer.Argument(metavar="FILES", help="Parquet files on this machine.")
    ],
    partition: Annotated[
        str | None,
        typer.Option(
            "--partition",
            metavar="PATH",
            help="Partition of all rows, as d=2026-01-31; only for a table without partition_by. "
            "Where the rows have such a column, its values have to agree.",
        ),
    ] = None,
    no_new_columns: Annotated[
        bool,
        typer.Option(
            "--no-new-columns", help="Refuse files with a column that the table does not have."
        ),
    ] = False,
    once: Annotated[
        bool,
        typer.Option(
            "--once",
            help="Append nothing if files with these names and contents were appended so before, "
            "within the table's append.once.",
        ),
    ] = False,
    key: Annotated[
        str | None,
        typer.Option(
            "--key",
            metavar="KEY",
            help="Append nothing if an append with this key was there before, within the table's "
            "append.once, whatever its files were.",
        ),
    ] = None,
    writer: Annotated[
        str,
        typer.Option(
            "--writer",
            metavar="NAME",
            help="Who writes, as billing-service; `firnline parts` and `firnline history` show it.",
        ),
    ] = UNNAMED,
    scratch: Annotated[
        Path | None,
        typer.Option(
            "--scratch",
            metavar="FOLDER",
            help="Local disk to stage parts on; without it $TMPDIR.",
        ),
    ] = None,
    mirror: Annotated[
        bool,
        typer.Option(
            "--mirror", help="Publish the table's mirror at once, instead of with the next run."
        ),
    ] = False,
    as_json: JsonOption = False,
    settings: SettingsOption = None,
) -> None:
    """Append Parquet files: all of their rows or none.

    Columns go by name; new ones are added to the table and named, missing ones are null. A root
    without a table gets one. A file that is given twice is refused. Safe beside merges and other
    appends. With --once or --key a command that was stopped, or whose outcome is not known, may be
    run again: the rows are there once.
    """
    from firnline.appends.append import Appender
    from firnline.appends.claims import key_of_files

    if once and key is not None:
        raise UsageError(
            "--once and --key each name the files", next_step="keep one; nothing was written"
        )
    opened = open_target(table, settings)
    if scratch is not None:
        refuse_unusable(scratch)
    name = opened.settings.name
    if mirror:
        from firnline.operations.mirror.after import refuse_unmirrored

        refuse_unmirrored(opened.settings, "--mirror")
    with (
        when_stopped(
            f"stopped; either all of the rows were appended to {name} or none",
            next_step=f"look with `firnline parts {table}` before you append them again",
        ),
        appending(name, opened.clock, silent=as_json) as tell,
    ):
        result = Appender(opened, scratch=scratch, writer=writer).append_files(
            files,
            partition,
            key=key_of_files(files, partition) if once else key,
            new_columns=not no_new_columns,
            on_progress=tell,
        )

    def publish_it() -> None:
        if mirror:
            publish(opened, identity(opened, commits=False), silent=as_json)

    with however_it_ends(publish_it):
        output.show(describe(opened, result, len(files)), as_json, _render)


def describe(table: Table, result: AppendResult, files: int) -> dict[str, Any]:
    """Return the result of an append; ``t`` in unix milliseconds, sizes in bytes."""
    parts = [
        {"key": part.key, "partition": part.partition, "rows": part.rows, "bytes": part.bytes}
        for part in result.parts
    ]
    return {
        "table": table.settings.name,
        "root": table.settings.root,
        "append_id": result.append_id,
        "log_file": result.log_key,
        "repeated": result.repeated,
        "t": result.t,
        "files": files,
        "rows": result.rows,
        "bytes": result.bytes,
        "parts": parts,
        "new_columns": result.new_columns,
        "untyped": result.untyped,
        "requests": result.requests,
    }


def _render(data: dict[str, Any]) -> None:
    name, number = data["table"], output.number
    files = counted(data["files"], "file")
    if data["repeated"]:
        output.line(
            f"Nothing appended to {name}: this was appended already, on {output.when(data['t'])}."
        )
        return
    if data["log_file"] is None:
        output.line(f"Nothing to append to {name}: {files} without a row.")
        return
    if not data["rows"]:
        output.line(f"Table {name} has its columns now, and no row: {files} without one.")
        return
    partitions = len({part["partition"] for part in data["parts"]})
    output.line(
        f"Appended {counted(data['rows'], 'row')} of {files} to {name}: "
        f"{counted(len(data['parts']), 'part')} in {counted(partitions, 'partition')}, "
        f"{about_size(data['bytes'])}, {number(data['requests']['put'])} PUT."
    )
    if data["new_columns"]:
        added = ", ".join(f"{column} {kind}" for column, kind in data["new_columns"].items())
        output.line(
            f"{counted(len(data['new_columns']), 'new column')} in {name}: {added}; null in the "
            "rows that were there before."
        )
    if data["untyped"]:
        output.line(_left_out(data["untyped"]))


def _left_out(untyped: dict[str, int]) -> str:
    """Return what has no type yet and was left out, and what was lost by that."""
    sentence = f"Left out, since they hold only nulls and have no type yet: {', '.join(untyped)}"
    lost = sum(untyped.values())
    return f"{sentence}; {counted(lost, 'empty value')} became null." if lost else f"{sentence}."
