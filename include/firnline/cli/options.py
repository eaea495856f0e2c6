"""Options shared by all commands, and functions that open a command's table."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args, get_origin

import msgspec
import typer
from typer.core import TyperGroup

from firnline.cli import mirrored
from firnline.cli.failures import given, settings_given, settings_read
from firnline.cli.progress import working
from firnline.cli.shown import Mode, chosen
from firnline.cli.strict import strict
from firnline.errors import FirnlineError
from firnline.operations.fields import OptionField, option_fields
from firnline.operations.mirror.ended import however_it_ends

if TYPE_CHECKING:
    from firnline.log.txn_file import RunIdentity
    from firnline.settings.load import FoundTable, Settings, TableSettings
    from firnline.state.snapshot import Snapshot
    from firnline.table import Table

MOST_ROWS = 2**63 - 2
"""Of ``--limit``; one row more is asked for, to see whether there is one."""

JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON; errors too, on stderr.")]
_DebugOption = Annotated[bool, typer.Option("--debug", help="Add the traceback to an error.")]
_UNASKED = "unasked"
_UnaskedOption = Annotated[
    bool, typer.Option("--yes", help="Taken for scripts that always give it; nothing is asked.")
]
"""Of commands that change something and ask nothing: ``--yes`` is an option of each that does."""
_ProgressOption = Annotated[
    Mode,
    typer.Option(
        "--progress",
        help="On stderr: a bar or lines (auto; none with --json), JSON lines, or none.",
    ),
]
SettingsOption = Annotated[
    Path | None,
    typer.Option(
        "--settings",
        metavar="PATH",
        help="Settings file, or a folder of them; without it $FIRNLINE_TABLES, else "
        "include/tables.yaml or tables.yaml of this folder, else include/tables.yaml of "
        "$AIRFLOW_HOME or beside the package. --debug says which it is.",
    ),
]
AtOption = Annotated[
    str | None,
    typer.Option(
        "--at",
        metavar="TIME|SEQ",
        help="As of a time, 2026-01-31T12:00:00Z (ISO 8601, in UTC without a zone) or unix "
        "milliseconds; or right after a transaction, by its number (up to 9 digits; 0: before the "
        "first).",
    ),
]

_LAST = ("as_json", "progress", "debug", "settings")

_TYPES: Mapping[str, Any] = {
    "flag": bool,
    "number": int | None,
    "text": str | None,
    "scalar": str | None,
    "texts": list[str] | None,
    "pairs": list[str] | None,
    "choice": bool | None,
}


def table_names(incomplete: str) -> list[str]:
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


class ListsByDefault(ShowsByDefault):
    """A group of commands without a table, which shows what there is: ``firnline erasure``."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:  # noqa: ANN401 - typer's own
        """Insert ``show`` where nothing is said."""
        return super().parse_args(ctx, args or ["show"])


TableArgument = Annotated[
    str,
    typer.Argument(
        metavar="TABLE",
        help="A name of the settings file, or a root URL (s3://bucket/prefix, file:///folder).",
        autocompletion=table_names,
    ),
]


class Without:
    """Of an options parameter: the fields that a command does not offer.

    ``options: Annotated[MergeOptions, Without("dry_run")]``
    """

    def __init__(self, *names: str) -> None:
        self.names = names


def command(
    group: typer.Typer,
    name: str,
    examples: Sequence[str],
    *,
    writes: bool = False,
    may_be_empty: Sequence[str] = (),
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Make a function the command ``name``: with ``--debug`` and ``--progress``, and examples.

    A parameter whose type is the options of an operation becomes the command line options of its
    fields (``operations.options``). ``--debug`` is read before the command line is parsed
    (``failures.Manner``), so that it also applies to mistakes there; here it is only declared.

    Args:
        group: where the command goes.
        name: of the command.
        examples: command lines.
        writes: it changes something, though it has no dry run: it takes ``--yes``.
        may_be_empty: parameters of which an empty text is a value; of others it is refused.
    """

    def register(function: Callable[..., None]) -> Callable[..., None]:
        signature = inspect.signature(function, eval_str=True)
        structs = {p.name: found for p in signature.parameters.values() if (found := _struct(p))}

        @functools.wraps(function)
        def call(**given: Any) -> None:
            given.pop("debug")
            given.pop(_UNASKED, None)
            mode = given.pop("progress")
            settings_given(given.get("settings"))
            for parameter, (options, fields) in structs.items():
                values = {f.name: _value(f, given.pop(f.name)) for f in fields}
                given[parameter] = options(**values)
            mirrored.nothing_begun()
            with chosen(mode):
                silent = bool(given.get("as_json"))
                with however_it_ends(partial(mirrored.publish_written, silent=silent)):
                    function(**given)

        expanded = [
            one
            for p in signature.parameters.values()
            for one in (map(_parameter, structs[p.name][1]) if p.name in structs else [p])
        ]
        order = _with_common(expanded, writes=writes)
        call.__signature__ = signature.replace(  # type: ignore[attr-defined] # functions have it
            parameters=[p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in order]
        )
        # \b keeps the lines of the examples as they are.
        shown = "\n".join(["\b", "Examples:", *(f"  {example}" for example in examples)])
        text = f"{inspect.getdoc(function) or ''}\n\n{shown}"
        fields = {field.name for _, own in structs.values() for field in own}
        kind = strict({*fields, *may_be_empty})
        group.command(name, cls=kind, help=text, short_help=text.partition("\n")[0])(call)
        return function

    return register


def _with_common(own: Sequence[inspect.Parameter], *, writes: bool) -> list[inspect.Parameter]:
    """Return the parameters of a command with those that all have, in the order of its help."""
    names = {p.name for p in own}
    common: list[tuple[str, object, object]] = [
        ("progress", Mode.AUTO, _ProgressOption),
        ("debug", False, _DebugOption),
    ]
    if (writes or "dry_run" in names) and "yes" not in names:
        common.insert(0, (_UNASKED, False, _UnaskedOption))
    made = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind)
        for name, default, kind in common
    ]
    return sorted([*own, *made], key=lambda p: p.name in _LAST)


def _struct(
    parameter: inspect.Parameter,
) -> tuple[type[msgspec.Struct], tuple[OptionField, ...]] | None:
    """Return the options struct of a parameter and the fields that the command offers."""
    annotation, without = parameter.annotation, frozenset[str]()
    if get_origin(annotation) is Annotated:
        annotation, *marks = get_args(annotation)
        without = frozenset(n for mark in marks if isinstance(mark, Without) for n in mark.names)
    if not (isinstance(annotation, type) and issubclass(annotation, msgspec.Struct)):
        return None
    fields = tuple(field for field in option_fields(annotation) if field.name not in without)
    return annotation, fields


def _value(field: OptionField, given: Any) -> object:  # noqa: ANN401 - of any command line option
    """Return the value of a field of a struct."""
    if field.kind == "choice" and given is not None:
        return field.choices[0] if given else field.choices[1]
    return field.value(given)


def _parameter(field: OptionField) -> inspect.Parameter:
    """Return a field of an options struct as a parameter of a command."""
    option = field.option
    kind = str | None if option.unit else _TYPES[field.kind]
    help_text = _help(field)
    declared = (
        typer.Argument(metavar=option.metavar, help=help_text)
        if option.argument
        else typer.Option(
            "/".join(f"--{choice}" for choice in field.choices) or field.flag,
            metavar=option.metavar or None,
            help=help_text,  # the field checks its bounds, in the same words at every door
        )
    )
    default = False if field.kind == "flag" else None
    return inspect.Parameter(
        field.name,
        inspect.Parameter.KEYWORD_ONLY,
        default=inspect.Parameter.empty if field.required else default,
        annotation=Annotated[kind, declared],
    )


def _help(field: OptionField) -> str:
    option = field.option
    absent = f"Without it: {option.absent}." if option.absent else ""
    repeated = field.kind in ("texts", "pairs") and not option.argument
    return " ".join(
        filter(None, (option.text, "May be repeated." * repeated, _bounds(field), absent))
    )


def _bounds(field: OptionField) -> str:
    """Return the bounds of a number without a unit, as a sentence; empty without any."""
    least, most = field.option.least, field.option.most
    if field.option.unit or least is None:
        return ""
    return f"At least {least}." if most is None else f"From {least} to {most}."


def found_table(target: str, path: Path | None) -> FoundTable:
    """Return what the settings have of a table's name or root. Raises UsageError, SettingsError."""
    from firnline.settings.load import find_with_file

    opened = find_with_file(target, path)
    given(opened.table.name, target, path, opened.table.root)
    settings_read(opened.file)
    return opened


def settings_of(target: str, path: Path | None) -> TableSettings:
    """Return the settings for a table's name or root. Raises UsageError, SettingsError."""
    return found_table(target, path).table


def read_settings(path: Path | None, *, strict: bool = False) -> Settings:
    """Return the content of the settings file, for a command without a table.

    ``strict``: as ``load_settings``; otherwise the command has to tell of what is unusable.
    """
    from firnline.settings.load import load_settings

    loaded = load_settings(path, strict=strict)
    settings_read(loaded.path)
    return loaded


def open_target(target: str, path: Path | None) -> Table:
    """Open the table of a name or root, with the usual credentials; sends no request."""
    return open_found(settings_of(target, path))


def open_found(settings: TableSettings) -> Table:
    """Open a table by its settings, with the usual credentials; sends no request."""
    from firnline.store.access import StoreAccess
    from firnline.table import open_table

    return open_table(settings, StoreAccess.from_env())


def looking(table: Table, *, silent: bool) -> AbstractContextManager[None]:
    """Show that a table is being read, if that takes long; ``silent``: print nothing."""
    return working("reading", table.settings.name, table.clock, silent=silent)


def read_state(table: Table, at: str | None = None, *, silent: bool) -> Snapshot:
    """Return the table's newest state or that as of ``at``, and show that it is read.

    Raises:
        UsageError: ``at`` is neither a time nor a transaction, or the root holds no table.
        SnapshotExpiredError: parts of that time are deleted.
    """
    from firnline.state.moment import snapshot_at

    with looking(table, silent=silent):
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


def identity(table: Table, *, commits: bool = True) -> RunIdentity:
    """Return the identity of the user at this machine, for the history.

    Args:
        table: the table.
        commits: its mirrors are published at the end of the command (``cli.mirrored``).
    """
    from firnline.operations.local import identity_here

    found = identity_here(table, "cli")
    if commits:
        mirrored.may_commit(table, found)
    return found
