"""``firnline drop``: whole partitions go, after a look at what they hold."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from firnline.cli import output
from firnline.cli.failures import when_stopped
from firnline.cli.merge import identity, requests_text
from firnline.cli.options import (
    JsonOption,
    SettingsOption,
    TableArgument,
    command,
    open_target,
    require_table,
)
from firnline.errors import UsageError

if TYPE_CHECKING:
    from firnline.operations.drop.plan import DropPlan
    from firnline.operations.drop.run import DropOptions
    from firnline.table import Table

commands = typer.Typer()
SHOWN = 20
"""Partitions that are printed one by one; ``--json`` has all."""


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
    remove_partitions__TABLE does the same.
    """
    opened = open_target(table, settings)
    require_table(opened)
    if not partitions:
        _list(opened, as_json)
        return
    from firnline.operations.drop.run import DropOptions, preview

    options = DropOptions(partitions=tuple("" if p == "-" else p for p in partitions))
    if yes and not dry_run:
        _drop(opened, options, as_json)
        return
    plan = preview(opened, options)
    if dry_run:
        _show_plan(opened, plan, as_json)
        return
    if as_json or not sys.stdin.isatty():
        raise UsageError(
            f"nobody can be asked whether {plan.parts} parts of {opened.settings.name} may go",
            next_step="look with --dry-run, then give --yes",
        )
    if not _agreed(opened, plan):
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


def _agreed(table: Table, plan: DropPlan) -> bool:
    _show_plan(table, plan, False)
    with when_stopped("stopped; nothing was dropped", next_step="run the same command again"):
        sys.stdout.write("Drop them? Type yes: ")
        sys.stdout.flush()
        return sys.stdin.readline().strip().lower() == "yes"


def _drop(table: Table, options: DropOptions, as_json: bool) -> None:
    from firnline.operations.drop.run import run_drop

    with when_stopped(
        f"stopped; the partitions of {table.settings.name} went together or not at all",
        next_step=f"see `firnline drop {table.settings.name}` for those that are there",
    ):
        report = run_drop(table, options, identity(table))
    output.show(report.to_json(), as_json, render_report)


def _render_list(data: dict[str, Any]) -> None:
    if not data["partitions"]:
        output.line(f"{data['table']} has no live part.")
        return
    _table(data["partitions"], data["now"])


def _table(partitions: Sequence[dict[str, Any]], now_ms: int) -> None:
    from firnline.units import about_duration, about_size

    columns = [
        output.Column("partition", wrap=True),
        *(output.Column(title, number=True) for title in ("parts", "rows", "bytes")),
        output.Column("oldest", number=True, dispensable=1),
        output.Column("newest", number=True),
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


def sentence(data: dict[str, Any]) -> str:
    """``3 parts with 1,200 rows (1.1 MiB)``."""
    from firnline.units import about_size

    number, parts, unknown = output.number, data["parts"], data["parts_without_rows"]
    rows = f"{number(data['rows'])} rows"
    if unknown:
        rows += f" and those of {number(unknown)} parts that do not say"
    noun = "part" if parts == 1 else "parts"
    return f"{number(parts)} {noun} with {rows} ({about_size(data['bytes'])})"


def render_report(data: dict[str, Any]) -> None:
    """What a drop or a TTL did."""
    from firnline.units import about_duration, about_size

    number = output.number
    unknown = data["parts_without_rows"]
    more = f", and those of {number(unknown)} parts that do not say" if unknown else ""
    again = " (by an earlier try of this run)" if data["done_earlier"] else ""
    names = [name or "-" for name in data["partitions"][:SHOWN]]
    left_out = data["partition_count"] - len(names)
    output.pairs(
        [
            ("dropped", f"{number(data['parts'])} parts"),
            ("rows", f"{number(data['rows'])}{more}"),
            ("bytes", f"{about_size(data['bytes'])}, freed by clean-up after the grace"),
            ("partitions", ", ".join(names) + (f" and {number(left_out)} more" * (left_out > 0))),
            ("transaction", f"{number(data['transaction'])}{again}"),
            ("requests", requests_text(data["requests"])),
            ("time", about_duration(round(data["seconds"] * 1000))),
        ]
    )
