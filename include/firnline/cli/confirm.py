"""Asks a person before something happens that is not undone by running another command."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from firnline.cli.failures import when_stopped
from firnline.errors import UsageError

YesOption = Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")]
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Print the plan only.")]


def refuse_silence(what: str, as_json: bool) -> None:
    """Raise UsageError where nobody can be asked."""
    if as_json or not sys.stdin.isatty():
        raise UsageError(
            f"nobody can be asked whether to {what}",
            next_step="look with --dry-run, then give --yes",
        )


def agreed(question: str) -> bool:
    """The answer of the person at the terminal: ``yes`` and nothing else."""
    with when_stopped("stopped; nothing was changed", next_step="run the same command again"):
        sys.stdout.write(f"{question} Type yes: ")
        sys.stdout.flush()
        return sys.stdin.readline().strip().lower() == "yes"
