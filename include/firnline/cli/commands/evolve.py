"""``firnline evolve``: widen, rename or drop columns in one transaction."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from firnline.cli.confirm import DryRunOption, YesOption
from firnline.cli.engine import EngineKind, EngineOption, MasterOption, ScratchOption, engine_for
from firnline.cli.operate import operate, works
from firnline.cli.options import (
    JsonOption,
    SettingsOption,
    TableArgument,
    command,
    open_target,
)
from firnline.cli.progress import reading
from firnline.operations.operation import Work
from firnline.operations.options import Evolution, LazyOptions, SchemaFixOptions
from firnline.operations.registry import EVOLVE, EVOLVE_PARTS

if TYPE_CHECKING:
    from firnline.operations.options import Evolution

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
    if lazy:
        operate(
            EVOLVE.load(),
            Work(opened),
            LazyOptions(evolution=evolution, dry_run=dry_run),
            as_json=as_json,
            yes=yes,
            progress=works("changing"),
        )
        return
    with engine_for("evolve", opened, engine, master, scratch) as factory:
        operate(
            EVOLVE_PARTS.load(),
            Work(opened, engine=factory),
            SchemaFixOptions(evolution=evolution, dry_run=dry_run),
            as_json=as_json,
            yes=yes,
            progress=partial(reading, "changing"),
        )
