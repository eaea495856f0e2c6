"""``firnline merge``: merge small parts into large sorted ones."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from firnline.cli import output
from firnline.cli.engine import EngineKind, MasterOption, engine_for
from firnline.cli.failures import when_stopped
from firnline.cli.merging import MaxBytesOption, merge_options, show_plan
from firnline.cli.options import JsonOption, PartitionsOption, SettingsOption, TableArgument, command, identity, open_target, require_table
from firnline.cli.output import requests_text
from firnline.cli.progress import merging
from firnline.errors import RunFailedError

if TYPE_CHECKING:
    from firnline.kernel.engine import Engine
    from firnline.operations.merge.run import MergeOptions
    from firnline.table import Table

commands = typer.Typer()


@command(
    commands,
    "merge",
    [
        "firnline merge flights --dry-run",
        "firnline merge flights --partitions 'sched_dep_month=2013-12' --max-bytes 10GiB",
        "firnline merge flights --engine spark --master spark://host:7077",
    ],
)
def merge(  # noqa: PLR0913, PLR0917 - one per option
    table: TableArgument,
    partitions: PartitionsOption = None,
    max_bytes: MaxBytesOption = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the plan only.")] = False,
    engine: Annotated[
        EngineKind, typer.Option("--engine", help="Merge in this process, or by Spark.")
    ] = EngineKind.LOCAL,
    master: MasterOption = None,
    scratch: Annotated[
        Path | None,
        typer.Option(
            "--scratch",
            metavar="FOLDER",
            help="Local disk to stage and sort on, about three times the bytes of the largest "
            "group per kernel; without it $TMPDIR.",
        ),
    ] = None,
    as_json: JsonOption = False,
    settings: SettingsOption = None,
) -> None:
    """Merge small parts into large sorted ones.

    No row changes. Safe beside appends, readers and other merges, and to stop at any time: what
    is committed stays, and the next run goes on from there. Under Airflow the DAG merge__TABLE
    does the same.
    """
    opened = open_target(table, settings)
    require_table(opened)
    options = merge_options(partitions, max_bytes, dry_run)
    with engine_for(opened, engine, master, scratch) as factory:
        if dry_run:
            from firnline.operations.merge.run import preview

            show_plan(opened.settings, preview(opened, options), as_json)
        else:
            _merge(opened, factory, options, as_json)


def _merge(
    table: Table, engine: Callable[[], Engine], options: MergeOptions, as_json: bool
) -> None:
    """Run the merge and print the report, even with failed groups. Raises RunFailedError."""
    from firnline.operations.merge.run import MergeFailedError, run_merge

    name = table.settings.name
    stopped = f"stopped; what is committed stays, everything else in {name} is as it was"
    try:
        with (
            when_stopped(stopped, next_step="run the same command again to go on"),
            merging(name, table.clock, silent=as_json) as tell,
        ):
            report = run_merge(table, engine, options, identity(table), tell)
    except MergeFailedError as error:
        output.show(error.report.to_json(), as_json, _render)
        if as_json:
            raise
        # The printed report states the reason for each part.
        failed, groups = len(error.report.failures), error.report.groups
        raise RunFailedError(
            f"{failed} of {groups} groups of {name} could not be merged, for the reasons above",
            next_step="repair or drop the named parts and run it again",
        ) from error
    output.show(report.to_json(), as_json, _render)


def _render(data: dict[str, Any]) -> None:
    from firnline.units import about_duration, about_size

    name, counts, number = data["table"], defaultdict(int, data["counts"]), output.number
    if not data["groups"]:
        output.line(f"Nothing to merge in {name}: `firnline plan merge {name}` says why.")
        return
    if data["failures"]:
        columns = [output.Column("partition"), output.Column("not merged because", wrap=True)]
        failures = ([f["partition"] or "-", f["message"]] for f in data["failures"])
        output.table(columns, failures)
        output.line()
    rows = [
        ("merged", f"{number(counts['parts_in'])} parts → {number(counts['parts_out'])}"),
        ("rows", _rows(counts)),
        ("bytes", f"{about_size(counts['bytes_in'])} → {about_size(counts['bytes_out'])}"),
        ("groups", f"{number(data['groups_done'])} of {number(data['groups'])} committed"),
        ("transactions", _sequences(data["transactions"])),
        ("requests", requests_text(data["requests"])),
        ("time", about_duration(round(data["seconds"] * 1000))),
    ]
    if data["replans"]:
        rows.append(("planned again", f"{number(data['replans'])} times, because of rivals"))
    output.pairs(rows)


def _rows(counts: dict[str, int]) -> str:
    number = output.number
    text = number(counts["rows_in"])
    if counts["rows_in"] != counts["rows_out"]:
        text += (
            f" → {number(counts['rows_out'])}: {number(counts['rows_deleted'])} deleted, "
            f"{number(counts['rows_deduplicated'])} replaced by newer ones of their key"
        )
    if counts["rows_removed"]:
        text += f", {number(counts['rows_removed'])} removed by merge.sql"
    return text


def _sequences(numbers: Sequence[int]) -> str:
    if not numbers:
        return "none"
    shown = ", ".join(output.number(seq) for seq in numbers[:10])
    return shown if len(numbers) <= 10 else f"{shown} … {output.number(numbers[-1])}"
