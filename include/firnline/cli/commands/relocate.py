"""``firnline relocate``: rewrite the log of a copied or renamed table for its new place."""

from __future__ import annotations

import typer

from firnline.cli import output
from firnline.cli.failures import when_stopped
from firnline.cli.options import JsonOption, SettingsOption, TableArgument, command, open_target
from firnline.operations.operation import Work
from firnline.operations.options import RelocateOptions

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
    from firnline.cli.progress import counting
    from firnline.operations.relocate.pages import report_page
    from firnline.operations.relocate.run import run_relocate

    opened = open_target(table, settings)
    stopped = f"stopped; nobody takes what lies at {opened.settings.root} for a table yet"
    with (
        output.nothing_to_do(opened.settings.name, as_json),
        when_stopped(stopped, next_step="run the same command again"),
        counting("relocating", opened.settings.name, opened.clock, silent=as_json) as tell,
    ):
        report = run_relocate(Work(opened, tell=lambda p: tell(p.objects_done, p.objects)), options)
        output.show(report.to_json(), as_json, report_page)
