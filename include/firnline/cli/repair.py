"""Run a change of the schema that rewrites parts, and show its report."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from firnline.cli import output
from firnline.cli import render_schema as schema_output
from firnline.cli.failures import when_stopped
from firnline.cli.options import identity
from firnline.cli.progress import reading
from firnline.errors import RunFailedError

if TYPE_CHECKING:
    from firnline.kernel.engine import Engine
    from firnline.operations.schema_fix.run import SchemaFixOptions
    from firnline.table import Table


def repair(
    table: Table, engine: Callable[[], Engine], options: SchemaFixOptions, as_json: bool
) -> None:
    """Run a change of the schema and print its report. Raises RunFailedError."""
    from firnline.operations.schema_fix.run import (
        SchemaFixFailedError,
        SchemaFixReport,
        run_schema_fix,
    )

    name = table.settings.name
    stopped = f"stopped; {name} is repaired as a whole or as it was"

    def run() -> SchemaFixReport:
        with (
            when_stopped(stopped, next_step="see `firnline schema show`, or run it again"),
            reading("repairing", name, table.clock, silent=as_json) as tell,
        ):
            return run_schema_fix(table, engine, options, identity(table), tell)

    output.show_run(
        run,
        as_json,
        schema_output.report,
        failed=(SchemaFixFailedError,),
        shorten=lambda _: RunFailedError(
            f"nothing was changed in {name}, for the reasons above",
            next_step="repair what is named, or ask for another type or for --rename",
        ),
        render_failed=schema_output.failures,
    )
