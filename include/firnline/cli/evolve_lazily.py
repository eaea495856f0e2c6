"""``firnline evolve --lazy``: what it asks and prints."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from firnline.cli import output
from firnline.cli.confirm import agreed, refuse_silence
from firnline.cli.failures import when_stopped
from firnline.cli.merge import identity, requests_text
from firnline.cli.schema_output import evolution

if TYPE_CHECKING:
    from firnline.operations.evolve.plan import Evolution
    from firnline.table import Table


def change_lazily(
    table: Table, evolution: Evolution, *, yes: bool, dry_run: bool, as_json: bool
) -> None:
    """Plan, ask, commit, and print the report."""
    from firnline.operations.evolve.lazy import LazyOptions, preview, run_lazily

    name, options = table.settings.name, LazyOptions(evolution=evolution, dry_run=dry_run)
    if dry_run or not yes:
        if not dry_run:
            refuse_silence(f"change the columns of {name}", as_json)
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
