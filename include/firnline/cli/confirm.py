"""Confirmation by a person before a change that no other command undoes."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from firnline.cli import output
from firnline.cli.failures import when_stopped
from firnline.errors import UsageError

if TYPE_CHECKING:
    from firnline.table import Table

YesOption = Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")]
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Print the plan only.")]


def refuse_silence(whether: str, as_json: bool) -> None:
    """Raise UsageError if nobody can be asked; ``whether`` is such as ``to downgrade flights``."""
    if as_json or not sys.stdin.isatty():
        raise UsageError(
            f"nobody can be asked whether {whether}",
            next_step="look with --dry-run, then give --yes",
        )


def agreed(question: str, untouched: str = "nothing was changed") -> bool:
    """Ask the person at the terminal; return True for ``yes`` and nothing else.

    Args:
        question: a sentence; the request to type yes is added.
        untouched: message if the person interrupts the command instead.
    """
    with when_stopped(f"stopped; {untouched}", next_step="run the same command again"):
        sys.stdout.write(f"{question} Type yes: ")
        sys.stdout.flush()
        return sys.stdin.readline().strip().lower() == "yes"


def ask(
    table: Table, data: dict[str, Any], as_json: bool, render: Callable[[dict[str, Any]], None]
) -> None:
    """Show a plan and wait for a yes. Raises UsageError if nobody can be asked."""
    refuse_silence(f"rows of {table.settings.name} may go", as_json)
    output.show(data, False, render)
    if not agreed("Do it?"):
        output.line("Nothing was changed.")
        raise typer.Exit(1)
