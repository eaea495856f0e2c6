"""``firnline replace``: replace the rows of an interval by new ones."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

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
from firnline.cli.output import requests_text
from firnline.cli.progress import reading
from firnline.cli.rendering import groups_table, render_failures
from firnline.errors import RunFailedError
from firnline.operations.operation import Work
from firnline.operations.options import ReplaceOptions
from firnline.units import counted

if TYPE_CHECKING:
    from firnline.kernel.engine import Engine
    from firnline.table import Table

commands = typer.Typer()


@command(
    commands,
    "replace",
    [
        "firnline replace flights day.parquet --start 2013-01-05 --end 2013-01-06 --dry-run",
        "firnline replace flights s3://lake/staged/05/ --start 2013-01-05 --end 2013-01-06 --yes",
        "firnline replace events --nothing --column n --start 7 --end 9 --where-equal client=12",
    ],
)
def replace(
    table: TableArgument,
    options: ReplaceOptions,
    yes: YesOption = False,
    engine: EngineOption = EngineKind.LOCAL,
    master: MasterOption = None,
    scratch: ScratchOption = None,
    as_json: JsonOption = False,
    settings: SettingsOption = None,
) -> None:
    """Replace the rows of an interval by new ones.

    One transaction: readers see the old rows or the new ones. The interval need not go along with
    partitions or parts; parts wholly inside are dropped unread. Hours without a new row are empty
    afterwards; new rows outside of the interval are refused; rows without a time stay. Appends
    that began before are covered. Under Airflow the DAG replace does the same.
    """
    opened = open_target(table, settings)
    if options.dry_run or options.nothing:
        require_table(opened)
    from firnline.operations.replace.run import preview

    with engine_for("replace", opened, engine, master, scratch) as factory:
        if not look_first(
            opened,
            lambda: preview(opened, options),
            _render_plan,
            dry_run=options.dry_run,
            yes=yes or not _is_there(opened),
            as_json=as_json,
        ):
            return
        _replace(opened, factory, options, scratch, as_json)


def _is_there(table: Table) -> bool:
    """Return True if the table exists; otherwise no rows would go and nobody is asked."""
    return next(iter(table.store.list(table.paths.log_dir)), None) is not None


def _replace(
    table: Table,
    engine: Callable[[], Engine],
    options: ReplaceOptions,
    scratch: Path | None,
    as_json: bool,
) -> None:
    from firnline.operations.replace.run import ReplaceFailedError, run_replace
    from firnline.operations.runner import what_helps

    name = table.settings.name
    stopped = f"stopped; the interval of {name} was replaced as a whole or not at all"

    output.show_run(
        lambda tell: run_replace(
            Work(table, identity(table), engine, tell), options, scratch=scratch
        ),
        reading("replacing in", name, table.clock, silent=as_json),
        as_json,
        _render,
        stopped=(stopped, f"see `firnline history {name}`, or run it again"),
        failed=(ReplaceFailedError,),
        shorten=lambda report: RunFailedError(
            f"nothing was replaced in {name}, for the reasons above",
            next_step=what_helps(
                report.failures, " and run it again, or leave the rewriting to merges with --lazy"
            ),
        ),
        render_failed=render_failures,
    )


def _interval(data: dict[str, Any]) -> str:
    start, end = (str(data[name]).replace(".000000", "") for name in ("start", "end"))
    equal = "".join(f" where {column} = {value}" for column, value in data["equal"].items())
    return f"[{start}, {end}) of {data['column']}{equal}"


def _render_plan(data: dict[str, Any]) -> None:
    from firnline.operations.replace.plan import new_rows_text, rows_text
    from firnline.units import about_size

    groups_table(data)
    output.line(f"To replace {_interval(data)} in {data['table']}: {rows_text(data)}.")
    come = new_rows_text(data)
    output.line(f"{come[:1].upper()}{come[1:]}.")
    if data["parts_to_drop"]:
        output.line(
            f"{counted(data['parts_to_drop'], 'part')} would be dropped unread: all "
            f"{counted(data['rows_to_drop'], 'row')} lie inside."
        )
    if data["parts_to_read"]:
        output.line(
            f"{counted(data['parts_to_read'], 'part')} would be read (about "
            f"{about_size(data['bytes_in'])}), and rewritten where rows lie inside."
        )
    if data["parts_hidden"]:
        output.line(
            f"{counted(data['parts_hidden'], 'part')} would stay until the next merge; readers "
            "hide what lies inside at once."
        )
    if data["only_record"] and not data["parts_hidden"]:
        output.line(
            "No part would be touched. The record is committed all the same: it hides such rows of "
            "appends that are under way."
        )


def _render(data: dict[str, Any]) -> None:
    from firnline.units import about_duration, about_size

    number, counts = output.number, defaultdict(int, data["counts"])
    new = "nothing"
    if data["parts_new"]:
        rows = data["rows_new"]
        new = (
            f"{counted(rows, 'row')} in {counted(data['parts_new'], 'part')}, "
            f"{about_size(data['bytes_new'])}"
        )
    hidden = (
        f", and what up to {counted(data['parts_hidden'], 'part')} hold of it is hidden until a "
        "merge"
        if data["parts_hidden"]
        else ""
    )
    rows_told = [
        ("replaced", _interval(data)),
        ("by", new),
        ("deleted", f"{counted(counts['rows_deleted'], 'row')}{hidden}"),
        (
            "parts",
            (
                f"{number(data['parts_dropped'])} dropped unread, {number(data['parts_read'])} "
                f"read, {number(data['parts_rewritten'])} of them rewritten, "
                f"{number(data['parts_excluded'])} excluded by statistics"
            ),
        ),
        ("transaction", number(data["transaction"])),
        ("record", f"{data['delete']}: also hides such rows of appends under way"),
        ("requests", requests_text(data["requests"])),
        ("time", about_duration(round(data["seconds"] * 1000))),
    ]
    output.pairs(rows_told)
