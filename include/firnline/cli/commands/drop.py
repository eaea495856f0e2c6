"""``firnline drop``: drop whole partitions after showing their contents."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from firnline.cli import output
from firnline.cli.operate import operate, works
from firnline.cli.options import (
    JsonOption,
    SettingsOption,
    TableArgument,
    command,
    open_target,
    require_table,
)
from firnline.operations.operation import Work
from firnline.operations.options import DropOptions
from firnline.operations.registry import DROP

if TYPE_CHECKING:
    from firnline.table import Table

commands = typer.Typer()


@command(
    commands,
    "drop",
    [
        "firnline drop flights",
        "firnline drop flights sched_dep_month=2013-01 --dry-run",
        "firnline drop flights sched_dep_month=2013-01 sched_dep_month=2013-02 --yes",
    ],
)
def drop(
    table: TableArgument,
    partitions: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[PARTITION]...",
            help="Exact names, as the list shows them ('-' is the table without partitions); "
            "without one the partitions are only listed.",
        ),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the totals only.")] = False,
    as_json: JsonOption = False,
    settings: SettingsOption = None,
) -> None:
    """List partitions, or drop some of them with all their rows.

    Shows what they hold and asks; a partition that changes between question and answer is not
    dropped. The objects stay until clean-up deletes them, after the grace. Under Airflow the DAG
    remove_partitions does the same.
    """
    opened = open_target(table, settings)
    if not partitions:
        require_table(opened)
        _list(opened, as_json)
        return
    options = DropOptions(
        partitions=tuple("" if p == "-" else p for p in partitions), dry_run=dry_run
    )
    progress = works("dropping from")
    operate(DROP.load(), Work(opened), options, as_json=as_json, progress=progress, yes=yes)


def _list(table: Table, as_json: bool) -> None:
    from firnline.operations.drop.pages import list_page
    from firnline.operations.drop.run import list_partitions

    infos = list_partitions(table)
    data = {
        "table": table.settings.name,
        "root": table.settings.root,
        "now": table.clock.now_ms(),
        "partitions": [info.to_json() for info in infos],
    }
    output.show(data, as_json, list_page)
