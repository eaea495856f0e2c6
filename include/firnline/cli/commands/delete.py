"""``firnline delete``: delete the rows for which a condition is true."""

from __future__ import annotations

from functools import partial

import typer

from firnline.cli.confirm import YesOption
from firnline.cli.engine import EngineKind, EngineOption, MasterOption, ScratchOption, engine_for
from firnline.cli.operate import operate
from firnline.cli.options import (
    JsonOption,
    SettingsOption,
    TableArgument,
    command,
    open_target,
)
from firnline.cli.progress import reading
from firnline.operations.operation import Work
from firnline.operations.options import DeleteOptions
from firnline.operations.registry import DELETE

commands = typer.Typer()


@command(
    commands,
    "delete",
    [
        "firnline delete flights --where \"carrier = 'UA' and distance < 200\" --dry-run",
        "firnline delete flights --where \"tailnum = 'N14228'\" --partitions '*-01' --yes",
        "firnline delete flights --where 'arr_delay is null' --lazy --yes",
    ],
)
def delete(
    table: TableArgument,
    options: DeleteOptions,
    yes: YesOption = False,
    engine: EngineOption = EngineKind.LOCAL,
    master: MasterOption = None,
    scratch: ScratchOption = None,
    as_json: JsonOption = False,
    settings: SettingsOption = None,
) -> None:
    """Delete rows by a condition.

    One transaction, all or nothing. A row goes where the condition is true, not where it is null.
    Rows of appends that are under way go too, when they began before. Under Airflow the DAG
    delete_where does the same.
    """
    opened = open_target(table, settings)
    with engine_for("delete", opened, engine, master, scratch) as factory:
        operate(
            DELETE.load(),
            Work(opened, engine=factory),
            options,
            as_json=as_json,
            yes=yes,
            progress=partial(reading, "deleting from"),
        )
