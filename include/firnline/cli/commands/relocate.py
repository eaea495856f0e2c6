"""``firnline relocate``: rewrite the log of a copied or renamed table for its new place."""

from __future__ import annotations

from functools import partial

import typer

from firnline.cli import output
from firnline.cli.operate import operate
from firnline.cli.options import JsonOption, SettingsOption, TableArgument, command, open_target
from firnline.cli.progress import copying
from firnline.operations.operation import Work
from firnline.operations.options import RelocateOptions
from firnline.operations.registry import RELOCATE

commands = typer.Typer()


@command(
    commands,
    "relocate",
    [
        "firnline relocate file:///data/renamed --dry-run",
        "firnline relocate s3://bucket/copies/flights",
        "firnline relocate flights --from lake/old/flights",
    ],
)
def relocate(
    table: TableArgument,
    options: RelocateOptions,
    as_json: JsonOption = False,
    settings: SettingsOption = None,
) -> None:
    """Write a table's log for the place where it lies.

    For a table that was copied or renamed by other tools: its log still names the objects of the
    old place, and every command refuses it. TABLE is the new place. Parts stay as they are, the old
    place is not looked at, and running it again completes a run that was stopped.
    """
    opened = open_target(table, settings)
    with output.nothing_to_do(opened.settings.name, as_json):
        operate(
            RELOCATE.load(),
            Work(opened),
            options,
            as_json=as_json,
            progress=partial(copying, "relocating"),
            publishes=False,
        )
