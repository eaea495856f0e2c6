"""``firnline delete``: delete the rows for which a condition is true."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
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
from firnline.operations.options import DeleteOptions
from firnline.units import counted

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
            _render_plan,
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
        _render,
        stopped=(stopped, f"see `firnline history {name}`, or run it again"),
        failed=(DeleteFailedError,),
        shorten=lambda report: RunFailedError(
            f"nothing was deleted from {name}, for the reasons above",
            next_step=what_helps(
                report.failures, " and run it again, or hide the rows at once with --lazy"
            ),
        ),
        render_failed=render_failures,
    )


def _render_plan(data: dict[str, Any]) -> None:
    from firnline.units import about_size

    number, name = output.number, data["table"]
    groups_table(data)
    if data["only_record"] and data["by_winners"]:
        output.line(f"No row of {name} can match, and nothing would be changed.")
        return
    if data["only_record"]:
        output.line(
            f"No part of {name} would be touched. The delete record is committed all the same: it "
            "hides matching rows, also those of appends that are under way."
        )
        return
    read = (
        f"{counted(data['parts_to_read'], 'part')} of {name} would be read (about "
        f"{about_size(data['bytes_in'])}), and rewritten where rows match"
    )
    whole = (
        f"{counted(data['parts_to_drop'], 'part')} of {name} would be dropped unread: all of "
        f"{number(data['rows_to_drop'])} rows match"
    )
    found = [read] * bool(data["parts_to_read"]) + [whole] * bool(data["parts_to_drop"])
    output.line(f"{'; '.join(found)}.")


def _render(data: dict[str, Any]) -> None:
    from firnline.units import about_duration

    number, counts = output.number, defaultdict(int, data["counts"])
    rows = [
        ("deleted", _deleted(data, counts)),
        (
            "parts",
            (
                f"{number(data['parts_read'])} read, {number(data['parts_rewritten'])} of them "
                f"rewritten, {number(data['parts_dropped'])} dropped unread, "
                f"{number(data['parts_excluded'])} excluded by statistics"
            ),
        ),
        ("transaction", "none" if data["transaction"] is None else number(data["transaction"])),
        ("record", _record(data)),
        ("requests", requests_text(data["requests"])),
        ("time", about_duration(round(data["seconds"] * 1000))),
    ]
    output.pairs(rows)


def _record(data: dict[str, Any]) -> str:
    if data["delete"] is None:
        return "none: the rows that readers saw are gone, and appends under way come after it"
    return f"{data['delete']}: also hides such rows of appends under way"


def _deleted(data: dict[str, Any], counts: dict[str, int]) -> str:
    if data["mode"] == "lazy":
        return (
            f"rows of up to {counted(data['parts_hidden'], 'part')} are hidden from readers; the "
            "next merge removes and counts them"
        )
    return counted(counts["rows_deleted"], "row")
