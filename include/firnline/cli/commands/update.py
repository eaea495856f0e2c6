"""``firnline update``: give rows new values where a condition is true."""

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
from firnline.operations.options import UpdateOptions
from firnline.operations.registry import UPDATE

commands = typer.Typer()


@command(
    commands,
    "update",
    [
        "firnline update flights --set \"carrier = 'UA'\" --where \"carrier = 'CO'\" --dry-run",
        "firnline update t --set 'n = n + 60' --where 'n is not null' --partitions '*-10' --yes",
        "firnline update t --set 'a = 0' --set 'b = null' --where 'a < 0' --prepare --samples 3",
    ],
)
def update(
    table: TableArgument,
    options: UpdateOptions,
    yes: YesOption = False,
    engine: EngineOption = EngineKind.LOCAL,
    master: MasterOption = None,
    scratch: ScratchOption = None,
    as_json: JsonOption = False,
    settings: SettingsOption = None,
) -> None:
    """Give rows new values where a condition is true.

    One transaction over all partitions, all or nothing. Rows of appends that are under way stay as
    they are. A second run computes from what the first one made. With --prepare nothing is
    committed: the new parts are written and compared with the old ones, and `firnline rewrite TABLE
    --commit` commits exactly them. Under Airflow the DAG update_where does the same.
    """
    opened = open_target(table, settings)
    with engine_for("update", opened, engine, master, scratch) as factory:
        operate(
            UPDATE.load(),
            Work(opened, engine=factory),
            options,
            as_json=as_json,
            yes=yes,
            progress=partial(reading, "preparing" if options.prepare else "updating"),
        )
