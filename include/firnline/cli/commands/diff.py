"""``firnline diff``: parts and rows added and removed between two states of a table."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from firnline.cli import output
from firnline.cli.options import (
    JsonOption,
    SettingsOption,
    TableArgument,
    command,
    looking,
    moment,
    open_target,
    read_state,
)
from firnline.pages import Column
from firnline.units import about_size

commands = typer.Typer()
SHOWN = 50
"""Maximum partitions that are printed; ``--json`` has all, and every part."""


@command(
    commands,
    "diff",
    [
        "firnline diff flights 41",
        "firnline diff flights 41 42",
        "firnline diff flights 2026-01-31T12:00:00Z 2026-02-01T12:00:00Z --json",
    ],
)
def diff(
    table: TableArgument,
    before: Annotated[
        str,
        typer.Argument(
            metavar="A", help="First state: a time or the number of a transaction, as for --at."
        ),
    ],
    after: Annotated[
        str | None,
        typer.Argument(metavar="[B]", help="Second state, not before A; without it the newest."),
    ] = None,
    as_json: JsonOption = False,
    settings: SettingsOption = None,
) -> None:
    """Parts and rows that came and went between two states, per partition.

    A number stands for the state right after that transaction, 0 for the one before the first. Both
    states must lie behind the purge horizon. Rows are those of whole parts; rows that a delete
    hides in a part that stayed are not in them.
    """
    from firnline.operations.inspect.diff import compare
    from firnline.state.moment import reversed_ends

    opened = open_target(table, settings)
    state = read_state(opened, silent=as_json)
    with looking(opened, silent=as_json):
        start = moment(opened, before, state)
        end = None if after is None else moment(opened, after, state)
        if end is not None and end < start:
            raise reversed_ends(before, after)
    difference = compare(state.at(start), state if end is None else state.at(end))
    data = {
        "table": opened.settings.name,
        "root": opened.settings.root,
        "from": start,
        "to": end,
        **difference.to_json(),
    }
    output.show(data, as_json, _render)


def _render(data: dict[str, Any]) -> None:
    until = "now" if data["to"] is None else output.when(data["to"])
    span = f"between {output.when(data['from'])} and {until}"
    if data["partitions"]:
        columns = [
            Column("partition", wrap=True),
            *(Column(title, number=True) for title in ("parts", "rows", "bytes")),
        ]
        rows = [[one["partition"] or "-", *_cells(one)] for one in data["partitions"][:SHOWN]]
        output.table(columns, rows, [f"{len(data['partitions'])} in all", *_cells(data)])
        output.line()
    else:
        output.line(f"No part of {data['table']} came or went {span}.")
    if data["deletes"]:
        numbers = ", ".join(map(output.number, data["deletes"]))
        output.line(f"Deletes came besides, which hide rows: transactions {numbers}.")


def _cells(row: dict[str, Any]) -> list[str]:
    came, went, number = row["came"], row["went"], output.number
    return [
        f"+{number(came['parts'])} -{number(went['parts'])}",
        f"+{number(came['rows'])} -{number(went['rows'])}",
        f"+{about_size(came['bytes'])} -{about_size(went['bytes'])}",
    ]
