"""``firnline snapshot``: the state of a table, now or at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from firnline.cli import output
from firnline.cli.options import (
    AtOption,
    JsonOption,
    SettingsOption,
    TableArgument,
    command,
    open_target,
    read_state,
)
from firnline.units import about_size

if TYPE_CHECKING:
    from firnline.state.snapshot import Snapshot
    from firnline.table import Table


commands = typer.Typer()


@command(
    commands,
    "snapshot",
    [
        "firnline snapshot flights",
        "firnline snapshot flights --at 2026-01-31T12:00:00Z",
        "firnline snapshot flights --at 1769860800000 --json",
    ],
)
def snapshot(
    table: TableArgument,
    at: AtOption = None,
    as_json: JsonOption = False,
    settings: SettingsOption = None,
) -> None:
    """State of a table, now or as of a time.

    Parts, rows, bytes and deletes, how far back in time one can go, and what the log costs to
    read.
    """
    opened = open_target(table, settings)
    data = describe(opened, read_state(opened, at, silent=as_json))
    output.show(data, as_json, _render)


def describe(table: Table, state: Snapshot) -> dict[str, Any]:
    """Return the state as plain data; times in unix milliseconds, sizes in bytes."""
    from firnline.log.parts_view import dead, totals

    live = totals(state.live)
    logs = state.listing.values()
    return {
        "table": table.settings.name,
        "root": table.settings.root,
        "as_of": state.as_of,
        "seq": state.seq,
        "newest_log_file": state.newest_t,
        "partitions": len(state.partitions),
        "parts": live.parts,
        "rows": live.rows,
        "bytes": live.bytes,
        "dead_parts": dead(state.parts),
        "deletes_pending": len(state.deletes),
        "purge_horizon": state.horizon or None,
        "log_files": len(state.listing),
        "log_files_read": len(state.contents),
        "log_files_folded": len(state.skipped - state.covered),
        "log_files_covered": len(state.covered),
        "log_bytes": sum(item.size for item in logs),
        "requests": table.store.counters.as_dict(),
        "schema": dict(state.schema),
    }


def _render(data: dict[str, Any]) -> None:
    asked = data["as_of"]
    purged = data["purge_horizon"]
    number = output.number
    output.pairs(
        [
            ("table", f"{data['table']}  ({data['root']})"),
            ("as of", "now" if asked is None else output.when(asked)),
            ("transactions", number(data["seq"])),
            ("partitions", number(data["partitions"])),
            ("parts", f"{number(data['parts'])} live, {number(data['dead_parts'])} replaced"),
            ("rows", number(data["rows"])),
            ("bytes", about_size(data["bytes"])),
            ("deletes", f"{number(data['deletes_pending'])} pending"),
            (
                "readable",
                f"back to {output.when(purged)}" if purged else "back to the first append",
            ),
            ("newest log", output.when(data["newest_log_file"])),
            ("log files", _log_files(data)),
            ("columns", number(len(data["schema"]))),
        ]
    )


def _log_files(data: dict[str, Any]) -> str:
    number, requests = output.number, data["requests"]
    covered = data["log_files_covered"]
    from_checkpoint = f"{number(covered)} from a checkpoint, " if covered else ""
    return (
        f"{number(data['log_files'])} ({about_size(data['log_bytes'])}): "
        f"{number(data['log_files_read'])} read, {from_checkpoint}"
        f"{number(data['log_files_folded'])} skipped as "
        f"folded; {number(requests['list'])} LIST, {number(requests['get'])} GET"
    )
