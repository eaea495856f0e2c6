"""``firnline relocate``: rewrite the log of a copied or renamed table for its new place."""

from __future__ import annotations

from typing import Any

import typer

from firnline.cli import output
from firnline.cli.failures import when_stopped
from firnline.cli.options import JsonOption, SettingsOption, TableArgument, command, open_target
from firnline.cli.output import requests_text
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
    from firnline.operations.relocate.run import run_relocate

    opened = open_target(table, settings)
    stopped = f"stopped; nobody takes what lies at {opened.settings.root} for a table yet"
    with (
        output.nothing_to_do(opened.settings.name, as_json),
        when_stopped(stopped, next_step="run the same command again"),
        counting("relocating", opened.settings.name, opened.clock, silent=as_json) as tell,
    ):
        report = run_relocate(Work(opened, tell=lambda p: tell(p.objects_done, p.objects)), options)
        output.show(report.to_json(), as_json, _render)


def _render(data: dict[str, Any]) -> None:
    from firnline.units import about_duration, about_size

    plan, number = data["plan"], output.number
    written = ", ".join(
        f"{number(plan[kind])} {what}"
        for kind, what in (
            ("logs", "log files"),
            ("transactions", "transactions"),
            ("certificates", "certificates"),
        )
    )
    output.pairs(
        [
            ("table", data["table"]),
            ("from", plan["from"] or "(no prefix)"),
            ("to", plan["to"] or "(no prefix)"),
            ("to write" if data["dry_run"] else "written", written),
            *_moved(data),
            ("checkpoints", f"{number(plan['checkpoints'])} to delete, a cache of the log"),
            ("live parts", f"{number(plan['parts'])}, {about_size(plan['bytes'])}"),
            ("requests", requests_text(data["requests"])),
            ("time", about_duration(round(data["seconds"] * 1000))),
        ]
    )


def _moved(data: dict[str, Any]) -> list[tuple[str, str]]:
    """Return the line about parts that were named with two slashes; none without such parts."""
    if not data["moved"]:
        return []
    what = "to move" if data["dry_run"] else "moved"
    return [(what, f"{output.number(data['moved'])} parts with two slashes in their names")]
