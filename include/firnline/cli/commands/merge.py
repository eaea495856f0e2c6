"""``firnline merge`` and ``firnline plan merge``: merge small parts, or plan a merge."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from firnline.cli.engine import EngineKind, MasterOption, engine_for
from firnline.cli.operate import operate, show_plan
from firnline.cli.options import (
    JsonOption,
    SettingsOption,
    TableArgument,
    Without,
    command,
    open_target,
)
from firnline.cli.progress import merging
from firnline.errors import UsageError
from firnline.operations.operation import Work
from firnline.operations.options import MergeOptions
from firnline.operations.registry import MERGE

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
    with engine_for("merge", opened, engine, master, scratch) as factory:
        operate(
            MERGE.load(), Work(opened, engine=factory), options, as_json=as_json, progress=merging
        )


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
    opened = open_target(table, settings)
    show_plan(MERGE.load(), opened, options, as_json=as_json)
