"""``firnline clone``: create a table from copies of another table's parts."""

from __future__ import annotations

from typing import Annotated

import typer

from firnline.cli import output
from firnline.cli.failures import when_stopped
from firnline.cli.options import JsonOption, SettingsOption, command, identity, open_target
from firnline.operations.operation import Work
from firnline.operations.options import CloneOptions

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
    from firnline.cli.progress import counting
    from firnline.operations.clone.pages import report_page
    from firnline.operations.clone.run import run_clone

    opened, made = open_target(source, settings), open_target(target, settings)
    stopped = f"stopped; there is no table at {made.settings.root} yet, or the whole one"
    with (
        when_stopped(stopped, next_step="run the same command again: it goes on where it was"),
        counting("cloning", opened.settings.name, made.clock, silent=as_json) as tell,
    ):
        report = run_clone(
            Work(opened, identity(made), tell=lambda p: tell(p.objects_done, p.objects)),
            options,
            target=made,
        )
    output.show(report.to_json(), as_json, report_page)
