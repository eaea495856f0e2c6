"""``firnline analyze``: state in the log what parts say of their columns."""

from __future__ import annotations

from functools import partial

import typer

from firnline.cli.operate import operate
from firnline.cli.options import (
    JsonOption,
    SettingsOption,
    TableArgument,
    command,
    open_target,
)
from firnline.cli.progress import counting
from firnline.operations.operation import Work
from firnline.operations.options import AnalyzeOptions
from firnline.operations.registry import ANALYZE

commands = typer.Typer()


@command(
    commands,
    "analyze",
    [
        "firnline analyze flights --dry-run",
        "firnline analyze flights --partitions 'sched_dep_month=2013-*'",
        "firnline analyze flights --hashes",
    ],
)
def analyze(
    table: TableArgument,
    options: AnalyzeOptions,
    as_json: JsonOption = False,
    settings: SettingsOption = None,
) -> None:
    """Fill in the statistics of parts from their footers; no part is rewritten.

    Of the columns of partition, order, key and ttl, and those of the setting statistics: use it
    after a column was added there, or on parts of other clients. Of a table with sort_by it also
    states what footers say that rows are sorted by. With --hashes it also reads the columns of
    bucket fields and hash clusters, so that conditions on them skip parts of imports and of older
    versions. Appends and merges state the same by themselves. Safe beside everything else, and to
    stop at any time: the next run goes on.
    """
    opened = open_target(table, settings)
    progress = partial(counting, "analyzing", unit="part")
    operate(ANALYZE.load(), Work(opened), options, as_json=as_json, progress=progress)
