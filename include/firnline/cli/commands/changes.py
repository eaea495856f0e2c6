"""``firnline changes``: the rows that were inserted, deleted and replaced since a position."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import closing
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
from firnline.cli.progress import counting
from firnline.errors import UsageError
from firnline.pages import Column
from firnline.units import counted

if TYPE_CHECKING:
    from firnline.read.changes import Changes, Summary

SHOWN = 20
"""Default number of rows on the screen."""
_TITLES = {"insert": "inserted", "delete": "deleted", "update_after": "updated"}
"""Operations that are counted; an update is counted by its row after."""

commands = typer.Typer()


@command(
    commands,
    "changes",
    [
        "firnline changes flights --since 41 --count",
        "firnline changes flights --since 2026-01-31T12:00:00Z --where \"carrier = 'UA'\"",
        "firnline changes flights --since 41 --until 42 --to changes.parquet",
    ],
)
def changes(  # noqa: PLR0913, PLR0917 - a command's options are its parameters
    table: TableArgument,
    since: Annotated[
        str | None,
        typer.Option(
            "--since",
            metavar="TIME|SEQ|POSITION",
            help="Begin after a time, a transaction, or at the position that an earlier call has "
            "printed. Without it: all rows of now, as inserts.",
        ),
    ] = None,
    until: Annotated[
        str | None,
        typer.Option("--until", metavar="TIME|SEQ|POSITION", help="End there; without it now."),
    ] = None,
    columns: Annotated[
        str | None,
        typer.Option("--columns", metavar="A,B", help="Only these columns, in this order."),
    ] = None,
    where: Annotated[
        str | None,
        typer.Option("--where", metavar="SQL", help="Only changed rows that fulfil it."),
    ] = None,
    partition: Annotated[
        str | None, typer.Option("--partition", metavar="GLOB", help="Only these partitions.")
    ] = None,
    limit: Annotated[
        int | None,
        typer.Option(
            "--limit",
            metavar="N",
            min=0,
            max=MOST_ROWS,
            help="Maximum number of rows on the screen; without it 20.",
        ),
    ] = None,
    count: Annotated[
        bool,
        typer.Option("--count", help="Only how many rows changed, by transaction and reason."),
    ] = False,
    target: Annotated[
        str | None, typer.Option("--to", metavar="FILE", help="New .parquet file for all rows.")
    ] = None,
    as_json: JsonOption = False,
    settings: SettingsOption = None,
) -> None:
    """Rows inserted, deleted and replaced since a position, and by which transaction.

    Merges and all that only moves rows change nothing. Reaches back as far as cleanup.grace. The
    position that it prints is where the next call continues: it misses nothing, repeats nothing.
    """
    from firnline.read.changes import changes as find_changes

    if target is not None:
        if count or limit is not None:
            raise UsageError(
                "--to writes all rows, and --count and --limit are for the screen",
                next_step="leave one of them out",
            )
        check_new(Path(target), "Parquet", (".parquet",), "let it end in .parquet")
    opened = open_target(table, settings)
    with looking(opened, silent=as_json):
        feed = find_changes(
            opened,
            since=since,
            until=until,
            columns=None if columns is None else [name.strip() for name in columns.split(",")],
            where=where,
            partitions=() if partition is None else partition,
        )
    if count:
        _count(feed, as_json)
    elif target is None:
        _show(feed, SHOWN if limit is None else limit, as_json)
    else:
        _write(feed, Path(target), as_json)


def _head(feed: Changes) -> dict[str, Any]:
    return {
        "table": feed.table.settings.name,
        "root": feed.table.settings.root,
        "seq": feed.seq,
        "position": feed.position,
    }


def _show(feed: Changes, limit: int, as_json: bool) -> None:
    from firnline.read.difference import ADDED, SEQUENCE, change_texts, change_values

    names, tasks, store = list(feed.columns), feed.tasks, feed.table.store
    values: Generator[Sequence[Any]] = (
        change_values(tasks, store, feed.limits(), feed.columns)
        if as_json
        else change_texts(tasks, store, feed.limits(), names)
    )
    with looking(feed.table, silent=as_json), closing(values):
        rows = list(islice(values, limit + 1))
    more, shown = len(rows) > limit, rows[:limit]
    data = {**_head(feed), "columns": [*ADDED, *names], "more": more, "rows": shown}

    def render(_: dict[str, Any]) -> None:
        if shown:
            added = [Column(n.lstrip("_"), number=n == SEQUENCE) for n in ADDED]
            output.table(
                [*added, *(Column(name, wrap=True) for name in names)],
                [[*(v or "" for v in row[: len(ADDED)]), *row[len(ADDED) :]] for row in shown],
            )
            output.line()
        if more:
            first = f"The first {counted(limit, 'changed row')}; --limit shows more"
            output.line(f"{first}, --count how many there are, --to keeps them.")
        else:
            output.line(f"{counted(len(shown), 'changed row')}.")
        _position(feed)

    output.show(data, as_json, render)


def _position(feed: Changes) -> None:
    output.line(f"Up to transaction {output.number(feed.seq)}; the next call continues with")
    output.plain(f"  --since {feed.position}")


def _count(feed: Changes, as_json: bool) -> None:
    with looking(feed.table, silent=as_json):
        steps = feed.summary()
    data = {
        **_head(feed),
        "steps": [
            {"sequence": one.sequence, "reason": one.reason, "rows": dict(one.rows)}
            for one in steps
        ],
    }
    output.show(data, as_json, lambda _: _render_count(feed, steps))


def _render_count(feed: Changes, steps: list[Summary]) -> None:
    if steps:
        columns = [Column("seq", number=True), Column("reason")]
        columns += [Column(title, number=True) for title in _TITLES.values()]
        total = {name: sum(one.rows.get(name, 0) for one in steps) for name in _TITLES}
        output.table(
            columns,
            [
                ["-" if one.sequence is None else output.number(one.sequence), one.reason]
                + [output.number(one.rows.get(name, 0)) for name in _TITLES]
                for one in steps
            ],
            ["", "in all", *(output.number(number) for number in total.values())],
        )
        output.line()
    else:
        output.line(f"No row of {feed.table.settings.name} has changed.")
    _position(feed)


def _write(feed: Changes, path: Path, as_json: bool) -> None:
    import pyarrow.parquet as pq

    rows = 0
    name, clock = feed.table.settings.name, feed.table.clock
    with (
        when_stopped(f"stopped; {path} was not written", next_step="run the same command again"),
        counting("reading changes of", name, clock, silent=as_json, unit="row") as tell,
        written(path) as part,
    ):
        reader = feed.arrow_reader()
        with pq.ParquetWriter(part, reader.schema) as writer:
            for batch in reader:
                writer.write_batch(batch)
                rows += batch.num_rows
                tell(rows, None)
    data = {**_head(feed), "output": str(path), "rows": rows}

    def render(_: dict[str, Any]) -> None:
        output.line(f"{counted(rows, 'changed row')} in {path}")
        _position(feed)

    output.show(data, as_json, render)
