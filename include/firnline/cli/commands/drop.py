"""``firnline drop``: drop whole partitions after showing their contents."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from firnline.cli import output
from firnline.cli.confirm import agreed, refuse_silence
from firnline.cli.failures import when_stopped
from firnline.cli.options import (
    JsonOption,
    SettingsOption,
    TableArgument,
    command,
    identity,
    looking,
    open_target,
    require_table,
)
from firnline.cli.progress import working
from firnline.operations.common_pages import dropped_page
from firnline.operations.drop.pages import list_page, plan_page
from firnline.operations.operation import Work
from firnline.units import counted

if TYPE_CHECKING:
    from firnline.operations.drop.plan import DropPlan
    from firnline.operations.options import DropOptions
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
    require_table(opened)
    if not partitions:
        _list(opened, as_json)
        return
    from firnline.operations.drop.run import preview
    from firnline.operations.options import DropOptions

    options = DropOptions(partitions=tuple("" if p == "-" else p for p in partitions))
    if yes and not dry_run:
        _drop(opened, options, as_json)
        return
    with looking(opened, silent=as_json):
        plan = preview(opened, options)
    if dry_run:
        _show_plan(opened, plan, as_json)
        return
    refuse_silence(f"{counted(plan.parts, 'part')} of {opened.settings.name} may go", as_json)
    _show_plan(opened, plan, False)
    if not agreed("Drop them?", "nothing was dropped"):
        output.line("Nothing was dropped.")
        raise typer.Exit(1)
    confirmed = DropOptions(partitions=options.partitions, expected=plan.versions)
    _drop(opened, confirmed, as_json)


def _list(table: Table, as_json: bool) -> None:
    from firnline.operations.drop.run import list_partitions

    found = list_partitions(table)
    data = {
        "table": table.settings.name,
        "root": table.settings.root,
        "now": table.clock.now_ms(),
        "partitions": [info.to_json() for info in found],
    }
    output.show(data, as_json, list_page)


def _show_plan(table: Table, plan: DropPlan, as_json: bool) -> None:
    data = {"table": table.settings.name, "now": table.clock.now_ms(), **plan.to_json()}
    output.show(data, as_json, plan_page)


def _drop(table: Table, options: DropOptions, as_json: bool) -> None:
    from firnline.operations.drop.run import run_drop

    name = table.settings.name
    with (
        when_stopped(
            f"stopped; the partitions of {name} went together or not at all",
            next_step=f"see `firnline drop {name}` for those that are there",
        ),
        working("dropping from", name, table.clock, silent=as_json),
    ):
        report = run_drop(Work(table, identity(table)), options)
    output.show(report.to_json(), as_json, dropped_page)
