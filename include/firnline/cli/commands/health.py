"""``firnline health``: what tables cost their readers, and what waits; for alerts, too."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from firnline.cli import output
from firnline.cli.options import JsonOption, SettingsOption, command, read_settings, settings_of
from firnline.cli.progress import counting
from firnline.clock import SystemClock
from firnline.errors import FindingsError, UsageError, some
from firnline.next_steps import REASONS_ABOVE
from firnline.pages import Column
from firnline.units import about_size, counted

if TYPE_CHECKING:
    from pathlib import Path

    from firnline.operations.health.run import TableHealth
    from firnline.settings.load import BrokenTable
    from firnline.table import Table

commands = typer.Typer()


@command(
    commands,
    "health",
    [
        "firnline health",
        "firnline health flights",
        "firnline health --below 70 --json",
    ],
)
def health(
    tables: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[TABLE]...",
            help="Names of the settings file, or root URLs; without one all tables of the file.",
        ),
    ] = None,
    below: Annotated[
        int,
        typer.Option(
            "--below",
            metavar="SCORE",
            min=1,
            max=101,
            help="Exit code 1 if a table has a lower score than this; one that cannot be read "
            "has 0.",
        ),
    ] = 1,
    as_json: JsonOption = False,
    settings: SettingsOption = None,
) -> None:
    """Score tables: parts to merge, dead bytes, what has expired, the cost of the log.

    100 is a table with nothing to do. Every missing point has a reason. Reads logs only and writes
    nothing, 16 tables at a time. Of tables that are named also what merges and clean-ups have saved
    and, with `--json`, everything that the page in Airflow shows.
    """
    from firnline.operations.health.run import TableHealth, look_at_all

    opened, broken = _open(tables, settings)
    with counting("looking at", "tables", SystemClock(), silent=as_json, unit="table") as tell:
        done = 0

        def looked(_: TableHealth) -> None:
            nonlocal done
            done += 1
            tell(done, len(opened))

        judged = look_at_all(opened, looked, closely=bool(tables))
    if len(judged) == 1 and tables and judged[0].missing is not None:
        raise judged[0].missing
    now_ms = SystemClock().now_ms()
    judged += [TableHealth.unreadable(each, now_ms, each.error) for each in broken]
    rows = sorted((one.to_json() for one in judged), key=lambda row: (row["score"], row["table"]))
    output.show({"tables": rows}, as_json, _render)
    bad = [row["table"] for row in rows if row["score"] < below]
    if bad:
        raise FindingsError(
            f"{counted(len(bad), 'table')} below a score of {below}: {some(bad)}",
            next_step=REASONS_ABOVE,
        )


def _open(names: list[str] | None, path: Path | None) -> tuple[list[Table], list[BrokenTable]]:
    """Return the tables, and, if none is named, those whose settings have mistakes."""
    from firnline.store.access import StoreAccess
    from firnline.table import open_table

    broken: list[BrokenTable] = []
    if names:
        readable = [settings_of(name, path) for name in names]
    else:
        loaded = read_settings(path)  # read once: it may have a thousand
        readable, broken = list(loaded.tables.values()), list(loaded.unusable)
    if not (readable or broken):
        raise UsageError(
            "the settings file has no table", next_step="name a table by its root URL, or add one"
        )
    access = StoreAccess.from_env()
    return [open_table(table, access) for table in readable], broken


def _render(data: dict[str, Any]) -> None:
    columns = [
        Column("table", wrap=True),
        Column("score", number=True),
        Column("parts", number=True),
        Column("bytes", number=True),
        Column("to merge", number=True),
        Column("dead", number=True, dispensable=1),
        Column("last merge", dispensable=2),
        Column("because", wrap=True),
    ]
    rows: list[list[output.Cell]] = []
    for row in data["tables"]:
        figures, number = row["figures"], output.number
        reasons = [f"-{r['points']} {r['text']}" for r in row["reasons"]]
        if figures is None:
            rows.append([row["table"], "0", "?", "?", "?", "?", "?", reasons])
            continue
        merge = figures["last"].get("merge")
        rows.append(
            [
                row["table"],
                number(row["score"]),
                number(figures["parts"]),
                about_size(figures["bytes"]),
                f"{number(figures['merge_parts'])} → {number(figures['merge_outputs'])}",
                about_size(figures["dead_bytes"]),
                output.when(merge["t"]) if merge else "-",
                reasons,
            ]
        )
    output.table(columns, rows)
    for row in data["tables"]:
        if "detail" in row:
            output.line(_saved(row["table"], row["detail"]["savings"]))


def _saved(table: str, savings: dict[str, Any]) -> str:
    """Return what the maintenance of a table has saved, as a sentence."""
    if savings["since"] is None:
        return f"{table}: no maintenance transaction yet."
    requests = counted(savings["requests"], "request")
    size = about_size(savings["bytes"])
    since = output.when(savings["since"])
    return f"{table}: merges save every scan {requests}, clean-ups {size}, since {since}."
