"""The rules of the command line for mirrors: who has committed publishes, and what has no place.

A command that takes part in the table's history and has written something publishes the table's
newest state in its mirrors (``operations.mirror.after.publish_committed``). An append does it when
it is asked to. What was committed stands, whatever becomes of the publication.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, ClassVar

from firnline.cli.failures import printable, warn

if TYPE_CHECKING:
    from firnline.appends.mirrored import MirrorOutcome
    from firnline.log.txn_file import RunIdentity
    from firnline.table import Table


def check_columns(table: Table) -> int:
    """Return how many columns a table has, all of which the mirrors of its settings can have.

    Requests: those of ``read_snapshot``.

    Raises MirrorRefusedError: the first one that a mirror cannot have.
    """
    from firnline.state.snapshot import read_snapshot
    from firnline.types.formats import refusals

    schema = read_snapshot(table.store, table.paths).schema
    for error in refusals(table.settings.mirrors, table.settings.name, schema):
        raise error
    return len(schema)


class _Begun:
    """The tables that the current command may commit to, and who it is in the history of each."""

    runs: ClassVar[list[tuple[Table, RunIdentity]]] = []


def nothing_begun() -> None:
    """Forget the tables: another command begins in this process."""
    _Begun.runs.clear()


def may_commit(table: Table, run: RunIdentity) -> None:
    """Note a table that a command may commit to."""
    _Begun.runs.append((table, run))


def publish_written(*, silent: bool) -> None:
    """Publish the mirrors of the tables that the command has written to.

    Requests, for each: those of ``operations.mirror.run.run_mirror``; none where nothing was
    written, or neither the table states a mirror nor the settings name one.

    Args:
        silent: say nothing but failures and warnings.
    """
    if not _Begun.runs:
        return
    from firnline.operations.mirror.after import publish_committed

    for table, run in _Begun.runs:
        outcome = publish_committed(table, run)
        if outcome is not None:
            _tell(outcome, silent=silent)


def publish(table: Table, run: RunIdentity, *, silent: bool) -> None:
    """Publish, and say so; a failure is a warning: what was committed stands."""
    from firnline.operations.mirror.after import publish_after

    _tell(publish_after(table, run), silent=silent)


def _tell(outcome: MirrorOutcome, *, silent: bool) -> None:
    from firnline.cli import output

    if outcome.error is not None:
        sys.stderr.write(f"firnline: {printable(outcome.said)}\n")
    elif not silent:
        output.line(outcome.said)
    for warning in outcome.warnings:
        warn(warning)
