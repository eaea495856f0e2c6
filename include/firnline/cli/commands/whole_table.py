"""``firnline drop-table``: the end of a whole table, in two runs."""

from __future__ import annotations

from functools import partial

import msgspec
import typer

from firnline.cli.confirm import YesOption
from firnline.cli.operate import operate
from firnline.cli.options import (
    JsonOption,
    SettingsOption,
    TableArgument,
    command,
    found_table,
    open_found,
)
from firnline.cli.progress import deleting
from firnline.operations.operation import Work
from firnline.operations.options import DropTableOptions
from firnline.operations.registry import DROP_TABLE

commands = typer.Typer()


@command(
    commands,
    "drop-table",
    [
        "firnline drop-table flights --dry-run",
        "firnline drop-table flights",
        "firnline drop-table flights --yes --name flights",
    ],
)
def drop_table(
    table: TableArgument,
    options: DropTableOptions,
    yes: YesOption = False,
    as_json: JsonOption = False,
    settings: SettingsOption = None,
) -> None:
    """Drop a whole table; run again later, delete every object of it.

    Shows what the table holds and asks for its name. The first run drops all parts in one
    transaction, which a restore undoes. Run it again once cleanup.grace, append.ttl and commit_ttl
    are over: it deletes everything below the root, for good. What was appended in between, objects
    that firnline has not written and other tables below it stop it. No DAG does this.
    """
    found = found_table(table, settings)
    named_in = None if found.file is None else str(found.file)
    operate(
        DROP_TABLE.load(),
        Work(open_found(found.table)),
        msgspec.structs.replace(options, named_in=named_in),
        as_json=as_json,
        progress=partial(deleting, "dropping"),
        yes=yes,
    )
