"""Confirmation by a person before a change that no other command undoes."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from firnline.cli.failures import printable, when_stopped
from firnline.errors import UsageError

YesOption = Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")]
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Print the plan only.")]


def refuse_silence(whether: str, as_json: bool, instead: str = "--yes") -> None:
    """Raise UsageError if nobody can be asked.

    Args:
        whether: such as ``to downgrade flights``.
        as_json: the command prints JSON, and so asks nobody.
        instead: options that answer the question.
    """
    if as_json or not sys.stdin.isatty():
        who = "--json asks nobody" if as_json else "nobody can be asked"
        raise UsageError(
            f"{who} whether {whether}", next_step=f"look with --dry-run, then give {instead}"
        )


def typed_name(table: str, unchanged: str = "nothing was changed") -> str | None:
    """Ask the person at the terminal for the name of the table; None if another text was typed.

    Args:
        table: its name.
        unchanged: message if the person interrupts the command instead.
    """
    with when_stopped(f"stopped; {unchanged}", next_step="run the same command again"):
        sys.stdout.write("Type the name of the table to agree, anything else to stop: ")
        sys.stdout.flush()
        typed = sys.stdin.readline().removesuffix("\n")
        return typed if typed == table else None


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
