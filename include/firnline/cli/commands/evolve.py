"""``firnline evolve``: widen, rename or drop columns in one transaction."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from firnline.cli import output
from firnline.cli.confirm import DryRunOption, YesOption, look_first
from firnline.cli.engine import EngineKind, EngineOption, MasterOption, ScratchOption
from firnline.cli.failures import when_stopped
from firnline.cli.options import (
    JsonOption,
    SettingsOption,
    TableArgument,
    command,
    identity,
    open_target,
    require_table,
)
from firnline.cli.progress import working
from firnline.cli.repair import repair
from firnline.operations.evolve.pages import plan_page, report_page
from firnline.operations.operation import Work
from firnline.operations.options import Evolution, LazyOptions, SchemaFixOptions

if TYPE_CHECKING:
    from firnline.operations.options import Evolution
    from firnline.table import Table

commands = typer.Typer()


@command(
    commands,
    "evolve",
    [
        "firnline evolve flights --widen dep_delay=BIGINT --dry-run",
        "firnline evolve flights --rename carrier_name=airline --drop notes --yes",
        "firnline evolve flights --rename carrier_name=airline --lazy --yes",
    ],
)
def evolve(  # noqa: PLR0913, PLR0917 - one per option
    table: TableArgument,
    evolution: Evolution,
    lazy: Annotated[
        bool,
        typer.Option(
            "--lazy",
            help="Rewrite no part now: readers see the change at once, merges write the parts in "
            "the new form.",
        ),
    ] = False,
    yes: YesOption = False,
    dry_run: DryRunOption = False,
    engine: EngineOption = EngineKind.LOCAL,
    master: MasterOption = None,
    scratch: ScratchOption = None,
    as_json: JsonOption = False,
    settings: SettingsOption = None,
) -> None:
    """Widen, rename or drop columns, in all parts that hold them.

    One transaction, all or nothing: readers see the old schema or the new. Stop writers that use
    the old one first. New columns need no command: the first append that has them adds them.
    """
    opened = open_target(table, settings)
    require_table(opened)
    if lazy:
        _change_lazily(opened, evolution, yes=yes, dry_run=dry_run, as_json=as_json)
        return
    options = SchemaFixOptions(evolution=evolution, dry_run=dry_run)
    repair(opened, options, engine, master, scratch, yes=yes, as_json=as_json)


def _change_lazily(
    table: Table, evolution: Evolution, *, yes: bool, dry_run: bool, as_json: bool
) -> None:
    """Plan, ask, commit, and print the report."""
    from firnline.operations.evolve.run import preview, run_lazily

    name, options = table.settings.name, LazyOptions(evolution=evolution, dry_run=dry_run)
    if not look_first(
        table,
        lambda: preview(table, options),
        plan_page,
        asks=f"to change the columns of {name}",
        dry_run=dry_run,
        yes=yes,
        as_json=as_json,
    ):
        return
    stopped = f"stopped; unless it was just committing, the columns of {name} are as they were"
    with (
        when_stopped(stopped, next_step=f"see `firnline schema show {name}`, or run it again"),
        working("changing", name, table.clock, silent=as_json),
    ):
        report = run_lazily(Work(table, identity(table)), options)
    output.show(report.to_json(), as_json, report_page)
