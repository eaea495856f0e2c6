"""``firnline ttl``: drop partitions and parts that are past their time to live."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import typer

from firnline.cli import output
from firnline.cli.confirm import YesOption, look_first
from firnline.cli.failures import when_stopped
from firnline.cli.options import (
    JsonOption,
    SettingsOption,
    TableArgument,
    command,
    identity,
    open_target,
    require_table,
)
from firnline.operations.operation import Work
from firnline.operations.options import TtlOptions
from firnline.operations.ttl.pages import plan_page, report_page

if TYPE_CHECKING:
    from firnline.table import Table

from firnline.cli.progress import working

commands = typer.Typer()


@command(
    commands,
    "ttl",
    ["firnline ttl flights --dry-run", "firnline ttl flights --partitions 'region=eu/*' --yes"],
)
def ttl(
    table: TableArgument,
    options: TtlOptions,
    yes: YesOption = False,
    as_json: JsonOption = False,
    settings: SettingsOption = None,
) -> None:
    """Drop what is older than the table's ttl.keep.

    A partition goes when its whole span is past; by a column, a part goes when its statistics
    prove every row older. What cannot be dated is listed and stays. The objects stay until
    clean-up deletes them, after the grace. Under Airflow the DAG ttl__TABLE does the same.
    """
    from firnline.operations.ttl.run import preview

    opened = open_target(table, settings)
    require_table(opened)
    if look_first(
        opened,
        partial(preview, opened, options),
        plan_page,
        dry_run=options.dry_run,
        yes=yes,
        as_json=as_json,
    ):
        _run(opened, options, as_json)


def _run(table: Table, options: TtlOptions, as_json: bool) -> None:
    from firnline.operations.ttl.run import run_ttl

    name = table.settings.name
    with (
        when_stopped(
            f"stopped; what is past in {name} went in one transaction or not at all",
            next_step="run the same command again",
        ),
        working("dropping from", name, table.clock, silent=as_json),
    ):
        report = run_ttl(Work(table, identity(table)), options)
    output.show(report.to_json(), as_json, report_page)
