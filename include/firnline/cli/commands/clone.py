"""``firnline clone``: create a table from copies of another table's parts."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import typer

from firnline.cli.operate import operate
from firnline.cli.options import JsonOption, SettingsOption, command, open_target
from firnline.cli.progress import copying
from firnline.operations.operation import Work
from firnline.operations.options import CloneOptions
from firnline.operations.registry import CLONE

commands = typer.Typer()


@command(
    commands,
    "clone",
    [
        "firnline clone flights s3://bucket/tests/flights --dry-run",
        "firnline clone file:///data/events file:///data/copy",
        "firnline clone flights flights-copy --history",
    ],
)
def clone(
    source: Annotated[
        str, typer.Argument(metavar="SOURCE", help="The table to copy: a name, or a root URL.")
    ],
    target: Annotated[
        str, typer.Argument(metavar="TARGET", help="The new table: a name, or a root URL.")
    ],
    options: CloneOptions,
    as_json: JsonOption = False,
    settings: SettingsOption = None,
) -> None:
    """Make a new table over copies of another one's parts.

    TARGET lies in the same bucket or folder, and nothing may be there. The store copies the parts
    by itself, and SOURCE is not written to. The clone holds what readers of SOURCE see now, deletes
    that wait for a merge included.
    """
    opened, made = open_target(source, settings), open_target(target, settings)
    operate(
        CLONE.load(),
        Work(opened, target=made),
        options,
        as_json=as_json,
        progress=partial(copying, "cloning"),
    )
