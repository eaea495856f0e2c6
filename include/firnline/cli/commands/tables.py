"""``firnline tables``: the tables below a bucket or folder, and which of them settings name."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from firnline.cli import output
from firnline.cli.failures import settings_read
from firnline.cli.options import JsonOption, SettingsOption, command
from firnline.cli.progress import counting
from firnline.clock import SystemClock
from firnline.errors import FindingsError, some
from firnline.operations.tables.pages import tables_page
from firnline.units import counted

if TYPE_CHECKING:
    from firnline.operations.tables.run import ListedTable

commands = typer.Typer()


@command(
    commands,
    "tables",
    [
        "firnline tables s3://lake/events",
        "firnline tables file:///data --depth 5",
        "firnline tables s3://lake --shallow --json",
    ],
)
def tables(
    url: Annotated[
        str,
        typer.Argument(metavar="URL", help="Bucket, prefix or folder: s3://lake, file:///data."),
    ],
    depth: Annotated[
        int,
        typer.Option("--depth", metavar="N", min=0, help="Levels of folders to look into below."),
    ] = 3,
    shallow: Annotated[
        bool, typer.Option("--shallow", help="List only: read no table's log.")
    ] = False,
    as_json: JsonOption = False,
    settings: SettingsOption = None,
) -> None:
    """List the tables below a place, with their names in the settings and their health.

    Lists folders, one request each, and no folder of a table. Tables of the settings file that
    should be there and are not are listed as not written. One that cannot be read hides no other,
    and makes the exit code 1. Writes nothing.
    """
    from firnline.operations.tables.run import known_settings, list_below

    known = known_settings(settings)
    if known is not None:
        settings_read(known.path)
    with counting("looking at", "tables", SystemClock(), silent=as_json, unit="table") as tell:
        report = list_below(url, known, depth=depth, shallow=shallow, looked=tell)
    data: dict[str, Any] = report.to_json()
    if settings is not None:
        option = f" --settings {shlex.quote(str(settings))}"
        data["to_add"] = [f"{line}{option}" for line in data["to_add"]]
    output.show(data, as_json, tables_page)
    bad = [each for each in report.tables if each.state == "unreadable"]
    if bad:
        raise FindingsError(
            f"{counted(len(bad), 'table')} cannot be read: {some([each.root for each in bad])}",
            next_step="; ".join(["see the reasons above", *_steps(bad)]),
        )


def _steps(bad: Sequence[ListedTable]) -> Iterator[str]:
    if any(each.broken_settings for each in bad):
        yield "`firnline settings check` says what is wrong in the settings"
    read = next((each.root for each in bad if not each.broken_settings), None)
    if read is not None:
        yield f"`firnline verify {shlex.quote(read)}` looks for damage"
