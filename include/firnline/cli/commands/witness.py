"""``firnline witness``: a line to note outside of the table's bucket."""

from __future__ import annotations

import typer

from firnline.cli import output
from firnline.cli.options import (
    JsonOption,
    SettingsOption,
    TableArgument,
    command,
    looking,
    open_target,
    require_table,
)
from firnline.errors import UsageError

commands = typer.Typer()


@command(
    commands,
    "witness",
    ["firnline witness flights", "firnline witness flights >> witnesses.txt"],
)
def witness(
    table: TableArgument, as_json: JsonOption = False, settings: SettingsOption = None
) -> None:
    """Print number and digest of the newest transaction.

    Each transaction holds the digest of the one before, so this line stands for the whole history.
    Keep it where nobody who can write to the bucket can change it: a notebook, a ticket.
    ``firnline verify --witness`` finds what was deleted, changed or put elsewhere since.
    """
    from firnline.state.history import newest_head
    from firnline.state.witness import Witness

    opened = open_target(table, settings)
    require_table(opened)
    with looking(opened, silent=as_json):
        head = newest_head(opened)
    if head is None:
        raise UsageError(
            f"table {opened.settings.name} has no transaction yet",
            next_step="appends alone have no order that could be chained; run a merge first",
        )
    line = str(Witness(opened.settings.name, head.seq, head.digest))
    data = {"table": opened.settings.name, "seq": head.seq, "digest": head.digest, "line": line}
    output.show(data, as_json, lambda shown: output.plain(shown["line"]))
