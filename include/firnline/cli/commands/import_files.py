"""``firnline import``: import a folder of Parquet files into a new or existing table."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import typer

from firnline.cli import output
from firnline.cli.engine import EngineKind, EngineOption, MasterOption, ScratchOption, engine_for
from firnline.cli.failures import when_stopped
from firnline.cli.options import (
    JsonOption,
    SettingsOption,
    TableArgument,
    command,
    identity,
    open_target,
)
from firnline.cli.output import requests_text
from firnline.cli.progress import importing
from firnline.operations.import_files.options import ImportOptions
from firnline.operations.operation import Work
from firnline.pages import Column

if TYPE_CHECKING:
    from collections.abc import Iterable

    from firnline.kernel.engine import Engine
    from firnline.table import Table

from firnline.units import counted

commands = typer.Typer()
SHOWN = 20
"""Maximum partitions that are printed; ``--json`` has all."""


@command(
    commands,
    "import",
    [
        "firnline import flights s3://lake/old/flights --dry-run",
        "firnline import file:///data/flights file:///data/old",
        "firnline import flights s3://lake/flights/_data",
        "firnline import flights s3://lake/old/all --split",
        "firnline import flights s3://lake/firehose --new",
        "firnline import flights s3://lake/hive --path-types day=DATE --exclude '*/tmp/*'",
    ],
)
def import_files(
    table: TableArgument,
    options: ImportOptions,
    engine: EngineOption = EngineKind.LOCAL,
    master: MasterOption = None,
    scratch: ScratchOption = None,
    as_json: JsonOption = False,
    settings: SettingsOption = None,
) -> None:
    """Take a folder of Parquet files into a table.

    The store copies them by itself (what lies under the table's _data/ is taken where it is), all
    of them become visible at once, and the folder stays as it is. Every footer is checked first. A
    file is read, and its rows written anew, if its folders alone state a column
    (day=2024-01-01/), if a column has a narrower type than in other files, or if it is written in
    a form that readers understand differently. With --split, too, if its rows are not known to lie
    in one partition. The report names whatever is left out.
    """
    opened = open_target(table, settings)
    if options.dry_run:
        _plan(opened, options, as_json)
        return
    with engine_for("import", opened, engine, master, scratch) as factory:
        _import(opened, factory, options, as_json)


def _plan(table: Table, options: ImportOptions, as_json: bool) -> None:
    from firnline.operations.import_files.run import preview

    with importing(table.settings.name, table.clock, silent=as_json) as tell:
        plan = preview(table, options, tell)
    data = {"table": table.settings.name, "source": options.source, **plan.to_json()}
    output.show(data, as_json, _render_plan)


def _import(
    table: Table, engine: Callable[[], Engine], options: ImportOptions, as_json: bool
) -> None:
    from firnline.operations.import_files.run import run_import

    name = table.settings.name
    identity(table)  # who publishes its mirrors: an import is an append, and no transaction
    stopped = f"stopped; the files are in {name} all together or not at all"
    with (
        when_stopped(stopped, next_step=f"see `firnline parts {name}`, then run it again"),
        importing(name, table.clock, silent=as_json) as tell,
    ):
        report = run_import(Work(table, engine=engine, tell=tell), options)
    output.show(report.to_json(), as_json, _render)


def _render_plan(data: dict[str, Any]) -> None:
    from firnline.units import about_size

    number = output.number
    partitions, by_rows = data["partitions"], data["split"]
    if partitions or by_rows["files"]:
        columns = [
            Column("partition", wrap=True),
            *(Column(title, number=True) for title in ("files", "rows", "bytes")),
        ]
        rows = [
            [p["partition"] or "-", number(p["files"]), number(p["rows"]), about_size(p["bytes"])]
            for p in partitions[:SHOWN]
        ]
        if by_rows["files"]:
            figures = [number(by_rows["files"]), number(by_rows["rows"])]
            rows.append(["by their rows", *figures, about_size(by_rows["bytes"])])
        total = [number(data["files"]), number(data["rows"]), about_size(data["bytes"])]
        output.table(columns, rows, [f"{number(len(partitions))} in all", *total])
        output.line()
    output.line(_summary(data))
    _tell_beside(data)


def _summary(data: dict[str, Any]) -> str:
    number = output.number
    if not data["files"]:
        are = "is" if data["known"] == 1 else "are"
        known = f": {counted(data['known'], 'file')} {are} in it already" if data["known"] else ""
        return f"Nothing to import{known}."
    anew = data["anew"]["files"]
    read = f" and {number(anew)} read and written anew" if anew else ""
    known = f"; {number(data['known'])} are in it already" if data["known"] else ""
    return (
        f"{counted(data['files'], 'file')} to import, {number(data['copies'])} of them copied by "
        f"the store{read}, with about {counted(data['requests'], 'request')}{known}."
    )


def _tell_beside(data: dict[str, Any]) -> None:
    """Print why files are written anew, and what is left out."""
    from firnline.units import about_size

    if data["path_columns"]:
        columns = ", ".join(f"{name} {kind}" for name, kind in data["path_columns"].items())
        output.line(f"Columns of the folders: {columns}.")
    anew = data["anew"]
    if anew["files"]:
        output.line(f"Read and written anew, {about_size(anew['bytes'])}:")
        _list(f"{counted(n, 'file')}: {why}" for why, n in anew["why"].items())
    for key, what in (("empty", "without a row"), ("ignored", "left out")):
        if data[key]:
            noun = "file" if key == "empty" else "object"
            output.line(f"{counted(len(data[key]), noun)} {what}:")
            _list(data[key])
    if data["changed"]:
        files = counted(len(data["changed"]), "file")
        output.line(f"{files} that were written again after they were imported, left out:")
        _list(data["changed"])
    if data["bad"]:
        output.line(f"{counted(len(data['bad']), 'file')} that cannot be taken, left out:")
        _list(f"{each['reason']}; {each['next_step']}" for each in data["bad"])


def _list(lines: Iterable[str]) -> None:
    every = list(lines)
    for line in every[:SHOWN]:
        output.line(f"  {line}")
    if len(every) > SHOWN:
        output.line(f"  and {output.number(len(every) - SHOWN)} more; --json has all")


def _render(data: dict[str, Any]) -> None:
    from firnline.units import about_duration, about_size

    plan, number = data["plan"], output.number
    if data["log_file"] is None:
        output.line(_summary(plan))
        _tell_beside(plan)
        return
    anew = plan["anew"]["files"]
    parts = counted(data["parts_written"], "part")
    read = f", {number(anew)} written anew as {parts}" if anew else ""
    copied = f"{counted(plan['files'], 'file')}, {number(plan['copies'])} of them copied{read}"
    output.pairs(
        [
            ("imported", copied),
            ("rows", number(plan["rows"])),
            ("bytes", about_size(plan["bytes"])),
            ("partitions", number(data["partitions"])),
            ("log file", data["log_file"]),
            ("requests", requests_text(data["requests"])),
            ("time", about_duration(round(data["seconds"] * 1000))),
        ]
    )
    _tell_beside(plan)
