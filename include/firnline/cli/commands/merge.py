"""``firnline merge`` and ``firnline plan merge``: merge small parts, or plan a merge."""

from __future__ import annotations

import shlex
from collections.abc import Callable
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
from firnline.cli.progress import merging
from firnline.errors import RunFailedError, UsageError
from firnline.operations.merge.pages import plan_page, report_page
from firnline.operations.operation import Work
from firnline.operations.options import MergeOptions
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
    output.show(data, as_json, plan_page)


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
        report_page,
        stopped=(stopped, "run the same command again to go on"),
        failed=(MergeFailedError,),
        shorten=lambda report: RunFailedError(
            f"{len(report.failures)} of {counted(report.groups, 'group')} of {name} could not be "
            "merged, for the reasons above",
            next_step=what_helps(report.failures),
        ),
    )
