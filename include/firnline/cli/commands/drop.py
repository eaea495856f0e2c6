"""``firnline drop``: drop whole partitions after showing their contents."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

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
from firnline.cli.rendering import render_report, sentence
from firnline.operations.operation import Work
from firnline.pages import Column
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
    output.show(data, as_json, _render_list)


def _show_plan(table: Table, plan: DropPlan, as_json: bool) -> None:
    data = {"table": table.settings.name, "now": table.clock.now_ms(), **plan.to_json()}
    output.show(data, as_json, _render_plan)


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
    output.show(report.to_json(), as_json, render_report)


def _render_list(data: dict[str, Any]) -> None:
    if not data["partitions"]:
        output.line(f"{data['table']} has no live part.")
        return
    _table(data["partitions"], data["now"])


def _table(partitions: Sequence[dict[str, Any]], now_ms: int) -> None:
    from firnline.units import about_duration, about_size

    columns = [
        Column("partition", wrap=True),
        *(Column(title, number=True) for title in ("parts", "rows", "bytes")),
        Column("oldest", number=True, dispensable=1),
        Column("newest", number=True),
    ]
    number = output.number
    rows = [
        [
            found["partition"] or "-",
            number(found["parts"]),
            number(found["rows"]),
            about_size(found["bytes"]),
            *(about_duration(max(0, now_ms - found[f"{end}_ms"])) for end in ("oldest", "newest")),
        ]
        for found in partitions
    ]
    counts = [found["rows"] for found in partitions]
    total = [
        f"{number(len(rows))} in all",
        number(sum(found["parts"] for found in partitions)),
        number(None if None in counts else sum(counts)),
        about_size(sum(found["bytes"] for found in partitions)),
        "",
        "",
    ]
    output.table(columns, rows, total if len(rows) > 1 else None)


def _render_plan(data: dict[str, Any]) -> None:
    _table(data["partitions"], data["now"])
    output.line()
    output.line(f"{sentence(data)} of {data['table']} would go.")
