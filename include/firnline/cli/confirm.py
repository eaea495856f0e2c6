"""Confirmation by a person before a change that no other command undoes."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from firnline.cli import output
from firnline.cli.failures import printable, when_stopped
from firnline.cli.progress import working
from firnline.errors import UsageError

if TYPE_CHECKING:
    from firnline.operations.operation import Plan
    from firnline.pages import Page
    from firnline.table import Table

YesOption = Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")]
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Print the plan only.")]


def refuse_silence(whether: str, as_json: bool) -> None:
    """Raise UsageError if nobody can be asked; ``whether`` is such as ``to downgrade flights``."""
    if as_json or not sys.stdin.isatty():
        who = "--json asks nobody" if as_json else "nobody can be asked"
        raise UsageError(
            f"{who} whether {whether}", next_step="look with --dry-run, then give --yes"
        )


def agreed(question: str, unchanged: str = "nothing was changed") -> bool:
    """Ask the person at the terminal; return True for ``yes`` and nothing else.

    Args:
        question: a sentence; the request to type yes is added.
        unchanged: message if the person interrupts the command instead.
    """
    with when_stopped(f"stopped; {unchanged}", next_step="run the same command again"):
        sys.stdout.write(f"{printable(question)} Type yes, the whole word: ")
        sys.stdout.flush()
        return sys.stdin.readline().strip().lower() == "yes"


def look_first(
    table: Table,
    plan: Callable[[], Plan],
    render: Callable[[dict[str, Any]], Page | None],
    *,
    asks: str = "",
    question: str = "Do it?",
    dry_run: bool,
    yes: bool,
    as_json: bool,
) -> bool:
    """Show the plan of a dry run, or ask for a yes to it; return True if the run goes on.

    Args:
        table: the table.
        plan: makes the plan; not called if ``yes`` was given already.
        render: prints the plan's figures.
        asks: what nobody can be asked, for the error: ``to rewrite parts``.
        question: what a person is asked.
        dry_run: only the plan is wanted.
        yes: nobody has to be asked.
        as_json: print JSON.

    Raises:
        UsageError: the plan refuses the call; or nobody can be asked.
        typer.Exit: the answer was not yes.
    """
    if yes and not dry_run:
        return True
    name = table.settings.name
    with working("looking at", name, table.clock, silent=as_json):
        made = plan()
    data = {"table": name, **made.to_json()}
    if dry_run or made.nothing_to_do:
        output.show(data, as_json, render)
        return False
    # After the plan, which says what is wrong with the call, and whether there is anything to ask.
    refuse_silence(asks or f"rows of {name} may go", as_json)
    output.show(data, False, render)
    if not agreed(question):
        output.line("Nothing was changed.")
        raise typer.Exit(1)
    return True
