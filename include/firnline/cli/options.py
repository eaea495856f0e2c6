"""Options shared by all commands, and functions that open a command's table."""

from __future__ import annotations

import functools
import getpass
import inspect
import os
import socket
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from firnline.errors import FirnlineError, UsageError

if TYPE_CHECKING:
    from firnline.log.txn_file import RunIdentity
    from firnline.settings.load import TableSettings
    from firnline.state.snapshot import Snapshot
    from firnline.table import Table


def _table_names(incomplete: str) -> list[str]:
    """Return table names for the shell's completion, which cannot show an error."""
    from firnline.settings.load import load_settings

    try:
        return sorted(name for name in load_settings().tables if name.startswith(incomplete))
    except FirnlineError:
        return []


class ShowsByDefault(TyperGroup):
    """A group of commands of which ``show`` may be left out: ``firnline schema TABLE``."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:  # noqa: ANN401 - typer's own
        """Insert ``show`` before an argument that is not a command of the group."""
        if args and args[0] not in {*self.commands, *self.get_help_option_names(ctx)}:
            args = ["show", *args]
        return super().parse_args(ctx, args)


TableArgument = Annotated[
    str,
    typer.Argument(
        metavar="TABLE",
        help="A name of the settings file, or a root URL (s3://bucket/prefix, file:///folder).",
        autocompletion=_table_names,
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON; errors too, on stderr.")]
_DebugOption = Annotated[bool, typer.Option("--debug", help="Add the traceback to an error.")]
SettingsOption = Annotated[
    Path | None,
    typer.Option(
        "--settings",
        metavar="PATH",
        help="Settings file; without it $FIRNLINE_TABLES, else include/tables.yaml.",
    ),
]
AtOption = Annotated[
    str | None,
    typer.Option(
        "--at",
        metavar="TIME|SEQ",
        help="As of a time, 2026-01-31T12:00:00Z (ISO 8601 with a zone) or unix milliseconds; or "
        "right after a transaction, by its number (up to 9 digits; 0: before the first).",
    ),
]


def command(
    group: typer.Typer, name: str, examples: Sequence[str]
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Make a function the command ``name``: with ``--debug``, and with examples in its help.

    ``--debug`` is read before the command line is parsed (``failures.Manner``), so that it also
    applies to mistakes in the command line; here it is only declared.
    """

    def register(function: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(function)
        def call(**given: Any) -> None:
            given.pop("debug")
            function(**given)

        known = inspect.signature(function, eval_str=True)
        debug = inspect.Parameter(
            "debug", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=_DebugOption
        )
        order = sorted([*known.parameters.values(), debug], key=lambda p: p.name in _LAST)
        call.__signature__ = known.replace(  # type: ignore[attr-defined] # functions have it
            parameters=[p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in order]
        )
        # \b keeps the lines of the examples as they are.
        shown = "\n".join(["\b", "Examples:", *(f"  {example}" for example in examples)])
        text = f"{inspect.getdoc(function) or ''}\n\n{shown}"
        group.command(name, help=text, short_help=text.partition("\n")[0])(call)
        return function

    return register


_LAST = ("as_json", "debug", "settings")


def settings_of(target: str, path: Path | None) -> TableSettings:
    """Return the settings for a table's name or root. Raises UsageError, SettingsError."""
    from firnline.settings.load import find_table

    if "://" not in target and ("/" in target or target.startswith(".")):
        raise UsageError(
            f"{target!r} is a path, and a table is named by its root URL",
            next_step=f"write file://{Path(target).absolute()}",
        )
    return find_table(target, path)


def open_target(target: str, path: Path | None) -> Table:
    """Open the table of a name or root, with the usual AWS credentials; sends no request."""
    settings = settings_of(target, path)
    from firnline.store.access import StoreAccess
    from firnline.table import open_table

    return open_table(settings, StoreAccess.from_env())


def read_state(table: Table, at: str | None = None) -> Snapshot:
    """Return the table's newest state or that as of ``at``.

    Raises:
        UsageError: ``at`` is neither a time nor a transaction, or the root holds no table.
        SnapshotExpiredError: parts of that time are deleted.
    """
    from firnline.state.moment import snapshot_at

    return snapshot_at(table, at)


def moment(table: Table, text: str, state: Snapshot) -> int:
    """Return the unix milliseconds of a time or transaction number; ``state`` is the newest.

    Raises UsageError, and SnapshotExpiredError for a transaction whose record is deleted.
    """
    from firnline.state.moment import time_ms

    return time_ms(table, text, state)


def require_table(table: Table) -> None:
    """Check for a log file with one LIST. Raises UsageError, or LogLostError if it is lost."""
    from firnline.state import health

    health.require_table(table)


def identity(table: Table) -> RunIdentity:
    """Return the identity of the user at this machine, for the history."""
    from firnline.log.txn_file import RunIdentity

    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a container's user without a name
        user = str(os.getuid())
    run_id = f"cli-{table.ids.uuid7(table.clock.now_ms())}"
    return RunIdentity(run_id=run_id, user=user, host=socket.gethostname())


PartitionsOption = Annotated[
    list[str] | None,
    typer.Option(
        "--partitions",
        metavar="GLOB",
        help="Only these partitions, as 'ts_month=2013-*'; may be repeated.",
    ),
]
