"""``firnline import``: import a folder of Parquet files into a new or existing table."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from firnline.cli import output
from firnline.cli.engine import EngineKind, EngineOption, MasterOption, ScratchOption, engine_for
from firnline.cli.operate import operate
from firnline.cli.options import (
    JsonOption,
    SettingsOption,
    TableArgument,
    command,
    open_target,
)
from firnline.cli.progress import importing
from firnline.operations.import_options import ImportOptions
from firnline.operations.operation import Work
from firnline.operations.registry import IMPORT_FOLDER

if TYPE_CHECKING:
    from firnline.table import Table


commands = typer.Typer()


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
        operate(
            IMPORT_FOLDER.load(),
            Work(opened, engine=factory),
            options,
            as_json=as_json,
            progress=importing,
        )


def _plan(table: Table, options: ImportOptions, as_json: bool) -> None:
    from firnline.operations.import_files.pages import plan_page
    from firnline.operations.import_files.run import preview

    with importing(table.settings.name, table.clock, silent=as_json) as tell:
        plan = preview(table, options, tell)
    data = {"table": table.settings.name, "source": options.source, **plan.to_json()}
    output.show(data, as_json, plan_page)
