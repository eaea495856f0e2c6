"""``firnline delete``: delete the rows for which a condition is true."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import typer

from firnline.cli import output
from firnline.cli.confirm import YesOption, look_first
from firnline.cli.engine import EngineKind, EngineOption, MasterOption, ScratchOption, engine_for
from firnline.cli.options import (
    JsonOption,
    SettingsOption,
    TableArgument,
    command,
    identity,
    open_target,
    require_table,
)
from firnline.cli.progress import reading
from firnline.errors import RunFailedError
from firnline.operations.common_pages import failures_page
from firnline.operations.delete.pages import plan_page, report_page
from firnline.operations.operation import Work
from firnline.operations.options import DeleteOptions

if TYPE_CHECKING:
    from firnline.kernel.engine import Engine
    from firnline.table import Table

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
    require_table(opened)
    from firnline.operations.delete.run import preview

    with engine_for("delete", opened, engine, master, scratch) as factory:
        if not look_first(
            opened,
            lambda: preview(opened, options),
            plan_page,
            dry_run=options.dry_run,
            yes=yes,
            as_json=as_json,
        ):
            return
        _delete(opened, factory, options, as_json)


def _delete(
    table: Table, engine: Callable[[], Engine], options: DeleteOptions, as_json: bool
) -> None:
    from firnline.operations.delete.run import DeleteFailedError, run_delete
    from firnline.operations.runner import what_helps

    name = table.settings.name
    stopped = f"stopped; the rows of {name} went together or not at all"

    output.show_run(
        lambda tell: run_delete(Work(table, identity(table), engine, tell), options),
        reading("deleting from", name, table.clock, silent=as_json),
        as_json,
        report_page,
        stopped=(stopped, f"see `firnline history {name}`, or run it again"),
        failed=(DeleteFailedError,),
        shorten=lambda report: RunFailedError(
            f"nothing was deleted from {name}, for the reasons above",
            next_step=what_helps(
                report.failures, " and run it again, or hide the rows at once with --lazy"
            ),
        ),
        render_failed=failures_page,
    )
