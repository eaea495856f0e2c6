"""``firnline timeline``: draw the visible parts of a table by time and sequence."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from firnline.cli import output
from firnline.cli.drawing import ASCII, UNICODE, Glyphs, picture
from firnline.cli.options import (
    AtOption,
    JsonOption,
    SettingsOption,
    TableArgument,
    command,
    looking,
    open_target,
    read_state,
)
from firnline.errors import UsageError
from firnline.pages import Column

if TYPE_CHECKING:
    from firnline.operations.inspect.timeline import Record, Timeline
    from firnline.state.snapshot import Snapshot
    from firnline.table import Table

commands = typer.Typer()

_PIPE_WIDTH, _MOST_WIDTH, _LEAST_WIDTH = 100, 160, 48
_BESIDE = 4
"""Characters of a line besides the label and the cells."""
_TOLD = 12
"""Maximum records that are listed below the picture."""


@command(
    commands,
    "timeline",
    [
        "firnline timeline flights",
        "firnline timeline events --column ts --start 2026-01-05 --end 2026-01-06",
        "firnline timeline events --at 2026-01-31T12:00:00Z --json",
    ],
)
def timeline(
    table: TableArgument,
    column: Annotated[
        str | None,
        typer.Option(
            "--column",
            metavar="NAME",
            help="Column of times, dates or numbers; without it the time of partition_by, of "
            "ttl.column, or the first of sort_by or cluster_by.",
        ),
    ] = None,
    start: Annotated[
        str | None, typer.Option("--start", metavar="VALUE", help="First value to show.")
    ] = None,
    end: Annotated[
        str | None, typer.Option("--end", metavar="VALUE", help="First value not to show.")
    ] = None,
    at: AtOption = None,
    ascii_only: Annotated[
        bool, typer.Option("--ascii", help="Draw with plain characters only.")
    ] = False,
    as_json: JsonOption = False,
    settings: SettingsOption = None,
) -> None:
    """Draw what of a table is visible where: time against sequence.

    Bars are parts, as far as their statistics reach; hatched are deletes and replaces, which hide
    what lies below them. Large tables are drawn in summary.
    """
    opened = open_target(table, settings)
    snapshot = read_state(opened, at, silent=as_json)
    with looking(opened, silent=as_json):
        drawn = _plan(opened, snapshot, column, start, end)
    data = {"table": opened.settings.name, "root": opened.settings.root, **drawn.to_json()}
    glyphs = ASCII if ascii_only or not _has_unicode() else UNICODE
    output.show(data, as_json, lambda shown: _render(shown["table"], drawn, glyphs))


def _plan(
    table: Table,
    snapshot: Snapshot,
    column: str | None,
    start: str | None,
    end: str | None,
) -> Timeline:
    from firnline.operations.inspect.timeline import Bounds, plan_timeline
    from firnline.operations.replace.plan import time_column
    from firnline.properties.in_force import current, in_force

    settings = in_force(table.settings, current(snapshot.properties), any_key=True)
    name = column or time_column(settings)
    if name is None:
        raise UsageError(
            f"neither {settings.name} nor its settings name a column of times",
            next_step="name it with --column",
        )
    if not snapshot.live:
        raise UsageError(
            f"{settings.name} has no live part to draw", next_step="see `firnline snapshot`"
        )
    bounds = Bounds(cells=_width() - _label_width(snapshot) - _BESIDE)
    return plan_timeline(snapshot, name, bounds, start, end, _ops(table, snapshot))


def _label_width(snapshot: Snapshot) -> int:
    """Return the maximum width of a label: one or two sequences and the number of parts."""
    number = len(str(snapshot.seq))
    return max(len("visible rows"), 2 * number + 1 + len(f"  {len(snapshot.live):,} parts"))


def _ops(table: Table, snapshot: Snapshot) -> dict[int, str]:
    """Return operations by sequence, for the records; from the history if not in the log."""
    from firnline.state.history import history

    ops = {c.x.seq: c.x.op for c in snapshot.contents.values() if c.x is not None}
    if all(delete.seq in ops for delete in snapshot.deletes.values()):
        return ops
    return {header.seq: header.op for header in history(table)} | ops


def _width() -> int:
    width = output.console().width if sys.stdout.isatty() else _PIPE_WIDTH
    return max(_LEAST_WIDTH, min(width, _MOST_WIDTH))


def _has_unicode() -> bool:
    return (sys.stdout.encoding or "ascii").lower().startswith("utf")


def _render(table: str, drawn: Timeline, glyphs: Glyphs) -> None:
    screen = output.console()
    axis = drawn.axis
    low, high = (
        axis.text(end).partition(".")[0] if axis.is_time else axis.text(end)
        for end in (axis.low, axis.high)
    )
    output.line(f"{table}: {drawn.column} from {low} to {high}, the newest sequence on top")
    output.line()
    for line in picture(drawn, glyphs):
        line.rstrip()
        screen.print(line, no_wrap=True, overflow="ignore", crop=False)
    output.line()
    _tell_records([record for layer in drawn.layers for record in layer.records])
    for sentence in [*_legend(drawn, glyphs), *_left_out(drawn)]:
        output.line(sentence)


def _tell_records(records: Sequence[Record]) -> None:
    from firnline.predicate.tree import parse_json
    from firnline.predicate.words import in_words

    if not records:
        return
    columns = [
        Column("seq", number=True),
        Column("op"),
        Column("when", dispensable=1),
        Column("hides, in earlier appends", wrap=True),
    ]
    rows = [
        [str(record.seq), record.op, output.when(record.t), in_words(parse_json(record.where))]
        for record in records[:_TOLD]
    ]
    output.table(columns, rows)
    if len(records) > _TOLD:
        output.line(f"and {len(records) - _TOLD:,} more")
    output.line()


def _legend(drawn: Timeline, glyphs: Glyphs) -> list[str]:
    seen, partly, hidden = glyphs.shades
    parts = [f"{seen} part"]
    shades = {s for layer in drawn.layers for lane in layer.lanes for b in lane for s in b.shades}
    parts += [f"{partly} some rows hidden"] * (1 in shades)
    parts += [f"{hidden} hidden"] * (2 in shades)
    whole = {record.whole for layer in drawn.layers for record in layer.records}
    parts += [f"{glyphs.hatch * 2} hides all below"] * (True in whole)
    parts += [f"{glyphs.sparse * 2}hides some below"] * (False in whole)
    dense = any(layer.density for layer in drawn.layers)
    parts += [f"{glyphs.levels[0]}{glyphs.levels[-1]} few to many parts"] * dense
    return ["   ".join(parts)]


def _left_out(drawn: Timeline) -> list[str]:
    sentences: list[str] = []
    if drawn.unknown_parts:
        sentences.append(
            f"{drawn.unknown_parts:,} parts with {drawn.unknown_rows:,} rows do not say between "
            f"which values of {drawn.column} they lie, and are not drawn."
        )
    if drawn.outside:
        sentences.append(f"{drawn.outside:,} parts lie outside and are not drawn.")
    return sentences
