"""``firnline import``: import a folder of Parquet files into a new or existing table."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

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
from firnline.cli.progress import importing
from firnline.operations.import_options import ImportOptions
from firnline.operations.operation import Work

if TYPE_CHECKING:
    from firnline.kernel.engine import Engine
    from firnline.table import Table


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
    from firnline.operations.import_files.pages import plan_page
    from firnline.operations.import_files.run import preview

    with importing(table.settings.name, table.clock, silent=as_json) as tell:
        plan = preview(table, options, tell)
    data = {"table": table.settings.name, "source": options.source, **plan.to_json()}
    output.show(data, as_json, plan_page)


def _import(
    table: Table, engine: Callable[[], Engine], options: ImportOptions, as_json: bool
) -> None:
    from firnline.operations.import_files.pages import report_page
    from firnline.operations.import_files.run import run_import

    name = table.settings.name
    identity(table)  # who publishes its mirrors: an import is an append, and no transaction
    stopped = f"stopped; the files are in {name} all together or not at all"
    with (
        when_stopped(stopped, next_step=f"see `firnline parts {name}`, then run it again"),
        importing(name, table.clock, silent=as_json) as tell,
    ):
        report = run_import(Work(table, engine=engine, tell=tell), options)
    output.show(report.to_json(), as_json, report_page)
