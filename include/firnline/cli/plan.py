"""``firnline plan merge``: the plan of a merge, with reasons for parts left alone."""

from __future__ import annotations

import typer

from firnline.cli.merging import MaxBytesOption, merge_options, show_plan
from firnline.cli.options import JsonOption, PartitionsOption, SettingsOption, TableArgument, command, open_target, require_table

commands = typer.Typer()
group = typer.Typer(no_args_is_help=True, rich_markup_mode=None)
commands.add_typer(group, name="plan", help="What an operation would do; nothing is changed.")


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
    partitions: PartitionsOption = None,
    max_bytes: MaxBytesOption = None,
    as_json: JsonOption = False,
    settings: SettingsOption = None,
) -> None:
    """What a merge would do.

    Parts, bytes and requests, and why the other parts are left alone.
    """
    from firnline.operations.merge.run import preview

    opened = open_target(table, settings)
    require_table(opened)
    plan = preview(opened, merge_options(partitions, max_bytes))
    show_plan(opened.settings, plan, as_json)
