"""``firnline evolve``: widen, rename or drop columns in one transaction."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from firnline.cli import output
from firnline.cli import render_schema as schema_output
from firnline.cli.confirm import DryRunOption, YesOption, agreed, refuse_silence
from firnline.cli.engine import EngineKind, EngineOption, MasterOption, ScratchOption, engine_for
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
from firnline.cli.output import requests_text
from firnline.cli.render_schema import evolution
from firnline.cli.repair import repair
from firnline.errors import UsageError

if TYPE_CHECKING:
    from firnline.operations.evolve.plan import Evolution
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
    widen: Annotated[
        list[str] | None,
        typer.Option(
            "--widen",
            metavar="COLUMN=TYPE",
            help="Change the type of a column to a wider one; may be repeated.",
        ),
    ] = None,
    rename: Annotated[
        list[str] | None,
        typer.Option("--rename", metavar="OLD=NEW", help="Rename a column; may be repeated."),
    ] = None,
    drop: Annotated[
        list[str] | None,
        typer.Option(
            "--drop", metavar="COLUMN", help="Drop a column with its values; may be repeated."
        ),
    ] = None,
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
                refuse_silence(f"to rewrite parts of {opened.settings.name}", as_json)
            data = {"table": opened.settings.name, **preview(opened, options).to_json()}
            output.show(data, as_json, schema_output.plan)
            if dry_run or not (data["log_file_count"] or data["parts_to_rewrite"]):
                return
            if not agreed("Do it?"):
                output.line("Nothing was changed.")
                raise typer.Exit(1)
        repair(opened, factory, options, as_json)


def _pairs(option: str, given: list[str]) -> dict[str, str]:
    """Parse ``a=b`` to {a: b}. Raises UsageError."""
    found: dict[str, str] = {}
    for text in given:
        left, mark, right = text.partition("=")
        if not mark or not left or not right:
            raise UsageError(
                f"{option} {text!r} is not a pair", next_step=f"write it as {option} column=value"
            )
        if left in found:
            raise UsageError(f"column {left!r} is named twice", next_step="name it once")
        found[left] = right
    return found


def change_lazily(
    table: Table, evolution: Evolution, *, yes: bool, dry_run: bool, as_json: bool
) -> None:
    """Plan, ask, commit, and print the report."""
    from firnline.operations.evolve.run import LazyOptions, preview, run_lazily

    name, options = table.settings.name, LazyOptions(evolution=evolution, dry_run=dry_run)
    if dry_run or not yes:
        if not dry_run:
            refuse_silence(f"to change the columns of {name}", as_json)
        plan = preview(table, options)
        output.show({"table": name, **plan.to_json()}, as_json, _plan)
        if dry_run or plan.nothing_to_do:
            return
        if not agreed("Do it?"):
            output.line("Nothing was changed.")
            raise typer.Exit(1)
    stopped = f"stopped; unless it was just committing, the columns of {name} are as they were"
    with when_stopped(stopped, next_step="see `firnline schema show`, or run it again"):
        report = run_lazily(table, options, identity(table))
    output.show(report.to_json(), as_json, _report)


def _nothing(data: dict[str, Any], plan: dict[str, Any]) -> bool:
    if plan["widen"] or plan["rename"] or plan["drop"]:
        return False
    output.line(f"The columns of {data['table']} have these types already.")
    return True


def _plan(data: dict[str, Any]) -> None:
    from firnline.units import about_size

    if not _nothing(data, data):
        output.line(
            f"{evolution(data, 'would be')}, for every reader at once; no part is read or written. "
            f"Merges write the {output.number(data['parts'])} parts "
            f"({about_size(data['bytes'])}) in the new form."
        )


def _report(data: dict[str, Any]) -> None:
    from firnline.units import about_duration, about_size

    plan, number = data["plan"], output.number
    if data["transaction"] is None and _nothing(data, plan):
        return
    output.pairs(
        [
            ("changed", evolution(plan, "is")),
            ("to merge", f"{number(plan['parts'])} parts, {about_size(plan['bytes'])}"),
            ("transaction", number(data["transaction"])),
            ("requests", requests_text(data["requests"])),
            ("time", about_duration(round(data["seconds"] * 1000))),
        ]
    )
