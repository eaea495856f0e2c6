"""Change a schema in parts and log files: plan, ask, run and report."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from firnline.cli import output
from firnline.cli.confirm import look_first
from firnline.cli.engine import EngineKind, engine_for
from firnline.cli.options import identity
from firnline.cli.progress import reading
from firnline.errors import RunFailedError
from firnline.operations.operation import Work
from firnline.operations.options import SchemaFixOptions
from firnline.operations.schema_fix import pages

if TYPE_CHECKING:
    from firnline.table import Table


def repair(
    table: Table,
    options: SchemaFixOptions,
    engine: EngineKind,
    master: str | None,
    scratch: Path | None,
    *,
    yes: bool,
    as_json: bool,
) -> None:
    """Plan, ask, run, and print the report. Raises UsageError, RunFailedError."""
    from firnline.operations.schema_fix.run import (
        SchemaFixFailedError,
        preview,
        run_schema_fix,
    )

    name, evolves = table.settings.name, options.evolution is not None
    stopped = f"stopped; {name} is {'changed' if evolves else 'repaired'} as a whole or as it was"

    with engine_for(options.op, table, engine, master, scratch) as factory:
        if not look_first(
            table,
            lambda: preview(table, options),
            partial(pages.plan_page, evolves=evolves),
            asks=f"to rewrite parts of {name}",
            dry_run=options.dry_run,
            yes=yes,
            as_json=as_json,
        ):
            return
        output.show_run(
            lambda tell: run_schema_fix(Work(table, identity(table), factory, tell), options),
            reading("changing" if evolves else "repairing", name, table.clock, silent=as_json),
            as_json,
            partial(pages.report_page, evolves=evolves),
            stopped=(stopped, f"see `firnline schema show {name}`, or run it again"),
            failed=(SchemaFixFailedError,),
            shorten=lambda _: RunFailedError(
                f"nothing was changed in {name}, for the reasons above",
                next_step="repair what is named, or "
                + ("run it with --lazy" if evolves else "ask for another type or for --rename"),
            ),
            render_failed=pages.failures_page,
        )
