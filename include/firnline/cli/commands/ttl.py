"""``firnline ttl``: drop partitions and parts that are past their time to live."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

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
from firnline.cli.rendering import SHOWN, render_report, sentence
from firnline.operations.operation import Work
from firnline.operations.options import TtlOptions
from firnline.pages import Column

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
        _render_plan,
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
    output.show(report.to_json(), as_json, _render_report)


def _render_plan(data: dict[str, Any]) -> None:
    from firnline.units import about_size

    number = output.number
    if data["partitions"]:
        columns = [
            Column("partition", wrap=True),
            *(Column(title, number=True) for title in ("parts", "rows", "bytes")),
            Column("past since"),
        ]
        rows = [
            [
                found["partition"] or "-",
                number(found["parts"]),
                number(found["rows"]),
                about_size(found["bytes"]),
                output.when(found["end_ms"]),
            ]
            for found in data["partitions"]
        ]
        output.table(columns, rows)
        output.line()
    _render_kept(data)
    cutoff = output.when(data["cutoff_ms"])
    if data["partitions"]:
        output.line(f"{sentence(data)} of {data['table']} would go: wholly before {cutoff}.")
    else:
        output.line(f"Nothing in {data['table']} is wholly before {cutoff}.")


def _render_report(data: dict[str, Any]) -> None:
    _render_kept(data)
    if data["transaction"] is None:
        name = data["table"]
        output.line(f"Nothing to drop in {name}: `firnline ttl {name} --dry-run` says why.")
        return
    render_report(data)


def _render_kept(data: dict[str, Any]) -> None:
    """Print the reasons with their counts, and the partitions that cannot be dated."""
    if data["undecided"]:
        columns = [
            Column("stays, not dated"),
            Column("parts", number=True),
            Column("because", wrap=True),
        ]
        rows = [
            [found["partition"] or "-", output.number(found["parts"]), found["reason"]]
            for found in data["undecided"][:SHOWN]
        ]
        output.table(columns, rows)
        left_out = data.get("undecided_count", len(data["undecided"])) - len(rows)
        if left_out > 0:
            output.line(f"… and {output.number(left_out)} more: --json lists them")
        output.line()
    output.reasons("partitions", data["kept"])
