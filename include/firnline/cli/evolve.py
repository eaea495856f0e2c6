"""``firnline evolve``: wider types, other names, columns that go; in one transaction."""

from __future__ import annotations

from typing import Annotated

import typer

from firnline.cli import output, schema_output
from firnline.cli.confirm import DryRunOption, YesOption, agreed, refuse_silence
from firnline.cli.delete import EngineOption, ScratchOption
from firnline.cli.engine import EngineKind, engine_for
from firnline.cli.evolve_lazily import change_lazily
from firnline.cli.merge import MasterOption
from firnline.cli.options import (
    JsonOption,
    SettingsOption,
    TableArgument,
    command,
    open_target,
    require_table,
)
from firnline.cli.schema import mend
from firnline.errors import UsageError

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
    widen: Annotated[
        list[str] | None,
        typer.Option(
            "--widen", metavar="COLUMN=TYPE", help="A type that holds every value; may be repeated."
        ),
    ] = None,
    rename: Annotated[
        list[str] | None,
        typer.Option("--rename", metavar="OLD=NEW", help="May be repeated."),
    ] = None,
    drop: Annotated[
        list[str] | None,
        typer.Option("--drop", metavar="COLUMN", help="Its values go; may be repeated."),
    ] = None,
    lazy: Annotated[
        bool,
        typer.Option(
            "--lazy",
            help="Touch no part now: readers see the change at once, merges write the parts anew.",
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
    from firnline.operations.evolve.plan import Evolution
    from firnline.operations.schema_fix.run import SchemaFixOptions, preview

    evolution = Evolution(
        widen=_pairs("--widen", widen or []),
        rename=_pairs("--rename", rename or []),
        drop=tuple(drop or ()),
    )
    if lazy:
        change_lazily(opened, evolution, yes=yes, dry_run=dry_run, as_json=as_json)
        return
    options = SchemaFixOptions(evolution=evolution)
    with engine_for(opened, engine, master, scratch) as factory:
        if dry_run or not yes:
            if not dry_run:
                refuse_silence(f"rewrite parts of {opened.settings.name}", as_json)
            data = {"table": opened.settings.name, **preview(opened, options).to_json()}
            output.show(data, as_json, schema_output.plan)
            if dry_run or not (data["log_file_count"] or data["parts_to_rewrite"]):
                return
            if not agreed("Do it?"):
                output.line("Nothing was changed.")
                raise typer.Exit(1)
        mend(opened, factory, options, as_json)


def _pairs(option: str, given: list[str]) -> dict[str, str]:
    """``a=b`` -> {a: b}. Raises UsageError."""
    found: dict[str, str] = {}
    for text in given:
        left, mark, right = text.partition("=")
        if not mark or not left or not right:
            raise UsageError(
                f"{option} {text!r} is no pair", next_step=f"write it as {option} column=value"
            )
        if left in found:
            raise UsageError(f"column {left!r} is named twice", next_step="name it once")
        found[left] = right
    return found
