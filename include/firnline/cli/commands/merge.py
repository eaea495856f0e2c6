"""``firnline merge`` and ``firnline plan merge``: merge small parts, or plan a merge."""

from __future__ import annotations

import shlex
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from firnline.cli import output
from firnline.cli.engine import EngineKind, MasterOption, engine_for, scratch_folder
from firnline.cli.options import (
    JsonOption,
    SettingsOption,
    TableArgument,
    Without,
    command,
    identity,
    looking,
    open_target,
    require_table,
)
from firnline.cli.output import requests_text
from firnline.cli.progress import merging
from firnline.errors import RunFailedError, UsageError
from firnline.operations.operation import Work
from firnline.operations.options import MergeOptions
from firnline.pages import Column
from firnline.units import counted

if TYPE_CHECKING:
    from firnline.kernel.engine import Engine
    from firnline.operations.merge.groups import MergePlan
    from firnline.settings.load import TableSettings
    from firnline.table import Table

commands = typer.Typer()


class _Plans(TyperGroup):
    """The group ``plan``, which names its command where a table stands in the place of it."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:  # noqa: ANN401 - typer's own
        if args and args[0] not in self.commands and not args[0].startswith("-"):
            raise UsageError(
                f"no such command {args[0]!r}, and `plan` takes one before its table",
                next_step=f"run `firnline plan merge {shlex.quote(args[0])}` if that is a table",
            )
        return super().parse_args(ctx, args)


group = typer.Typer(cls=_Plans, no_args_is_help=True, rich_markup_mode=None)
commands.add_typer(group, name="plan", help="What an operation would do; nothing is changed.")


@command(
    commands,
    "merge",
    [
        "firnline merge flights --dry-run",
        "firnline merge flights --partitions 'sched_dep_month=2013-12' --max-bytes 10GiB",
        "firnline merge flights --partitions 'sched_dep_month=2013-11' --full",
        "firnline merge flights --engine spark --master spark://host:7077",
    ],
)
def merge(
    table: TableArgument,
    options: MergeOptions,
    engine: Annotated[
        EngineKind, typer.Option("--engine", help="Merge in this process, or by Spark.")
    ] = EngineKind.LOCAL,
    master: MasterOption = None,
    scratch: Annotated[
        Path | None,
        typer.Option(
            "--scratch",
            parser=scratch_folder,
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
    with engine_for("merge", opened, engine, master, scratch) as factory:
        if options.dry_run:
            from firnline.operations.merge.run import preview

            with looking(opened, silent=as_json):
                plan = preview(opened, options)
            _show_plan(opened.settings, plan, as_json)
        else:
            _merge(opened, factory, options, as_json)


@command(
    group,
    "merge",
    [
        "firnline plan merge flights",
        "firnline plan merge flights --partitions 'sched_dep_month=2013-0*' --max-bytes 10GiB",
    ],
)
def plan_merge(
    table: TableArgument,
    options: Annotated[MergeOptions, Without("dry_run")],
    as_json: JsonOption = False,
    settings: SettingsOption = None,
) -> None:
    """Plan a merge.

    Parts, bytes and requests, and why the other parts are left alone.
    """
    from firnline.operations.merge.run import preview

    opened = open_target(table, settings)
    require_table(opened)
    with looking(opened, silent=as_json):
        plan = preview(opened, options)
    _show_plan(opened.settings, plan, as_json)


def _show_plan(settings: TableSettings, plan: MergePlan, as_json: bool) -> None:
    """Print a plan."""
    data = {"table": settings.name, "root": settings.root, **plan.to_json()}
    data["sql"] = settings.merge.sql
    output.show(data, as_json, _render_plan)


def _render_plan(data: dict[str, Any]) -> None:
    from firnline.units import about_size

    number = output.number
    if data["groups"]:
        columns = [
            Column("partition", wrap=True),
            *(Column(title, number=True) for title in ("parts in", "parts out", "bytes")),
        ]
        rows = [
            [name or "-", number(parts), number(outputs), about_size(size)]
            for name, (parts, outputs, size) in _by_partition(data["groups"]).items()
        ]
        whole = [number(data["parts_in"]), number(data["parts_out"]), about_size(data["bytes_in"])]
        output.table(columns, rows, [f"{len(rows)} in all", *whole] if len(rows) > 1 else None)
        output.line()
    output.reasons("parts", data["left_alone"])
    output.line(_summary(data))


def _by_partition(groups: Sequence[dict[str, Any]]) -> dict[str, tuple[int, int, int]]:
    """Return parts, outputs and bytes by partition, in the order of the plan."""
    found: dict[str, tuple[int, int, int]] = {}
    for planned in groups:
        parts, count, size = found.get(planned["partition"], (0, 0, 0))
        added = (parts + planned["parts"], count + planned["outputs"], size + planned["bytes"])
        found[planned["partition"]] = added
    return found


def _summary(data: dict[str, Any]) -> str:
    from firnline.units import about_size

    name, number = data["table"], output.number
    said = []
    if data["parts_hidden"]:
        said.append(
            f"{counted(data['parts_hidden'], 'part')}, of which deletes hide every row "
            f"({number(data['rows_hidden'])}), would go without being read."
        )
    if data["groups"]:
        said.append(
            f"{counted(data['parts_in'], 'part')} would become {number(data['parts_out'])}: about "
            f"{about_size(data['bytes_in'])} to read, at most as much to write, and "
            f"{counted(data['requests'], 'request')} besides reading the log."
        )
        if data["tasks"] > len(data["groups"]):
            said.append(
                f"{counted(len(data['groups']), 'group')} would be up to {number(data['tasks'])} "
                "tasks, because some are above merge.split_above."
            )
        said += ["merge.sql would be applied to their rows."] * (data["sql"] is not None)
    return " ".join(said) or f"Nothing to merge in {name}."


def _merge(
    table: Table, engine: Callable[[], Engine], options: MergeOptions, as_json: bool
) -> None:
    """Run the merge and print the report, even with failed groups. Raises RunFailedError."""
    from firnline.operations.merge.run import MergeFailedError, run_merge
    from firnline.operations.runner import what_helps

    name = table.settings.name
    stopped = f"stopped; what is committed stays, everything else in {name} is as it was"

    output.show_run(
        lambda tell: run_merge(Work(table, identity(table), engine, tell), options),
        merging(name, table.clock, silent=as_json),
        as_json,
        _render,
        stopped=(stopped, "run the same command again to go on"),
        failed=(MergeFailedError,),
        shorten=lambda report: RunFailedError(
            f"{len(report.failures)} of {counted(report.groups, 'group')} of {name} could not be "
            "merged, for the reasons above",
            next_step=what_helps(report.failures),
        ),
    )


def _render(data: dict[str, Any]) -> None:
    from firnline.units import about_duration, about_size

    name, counts, number = data["table"], defaultdict(int, data["counts"]), output.number
    if not data["groups"] and not data["groups_lost"]:
        output.line(f"Nothing to merge in {name}: `firnline plan merge {name}` says why.")
        return
    if data["failures"]:
        columns = [Column("partition"), Column("not merged because", wrap=True)]
        failures = ([f["partition"] or "-", f["message"]] for f in data["failures"])
        output.table(columns, failures)
        output.line()
    rows = [
        ("merged", f"{counted(counts['parts_in'], 'part')} → {number(counts['parts_out'])}"),
        ("rows", _rows(counts)),
        ("bytes", f"{about_size(counts['bytes_in'])} → {about_size(counts['bytes_out'])}"),
        ("groups", _groups(data)),
        ("transactions", _sequences(data["transactions"])),
        ("requests", requests_text(data["requests"])),
        ("time", about_duration(round(data["seconds"] * 1000))),
    ]
    if data["groups_lost"]:
        lost = f"{counted(data['groups_lost'], 'group')}, which another run had committed first"
        rows.append(("in vain", lost))
    if data["replans"]:
        rows.append(("planned again", f"{counted(data['replans'], 'time')}, because of rivals"))
    output.pairs(rows)


def _groups(data: dict[str, Any]) -> str:
    number = output.number
    text = f"{number(data['groups_done'])} of {number(data['groups'])} committed"
    if data["tasks"] > data["groups"]:
        text += f", in {counted(data['tasks'], 'task')}"
    return text


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
