"""``firnline schema``: show a table's columns, and repair a schema conflict."""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from firnline.cli import output
from firnline.cli.confirm import YesOption
from firnline.cli.engine import EngineKind, EngineOption, MasterOption, ScratchOption, engine_for
from firnline.cli.operate import operate
from firnline.cli.options import (
    JsonOption,
    SettingsOption,
    ShowsByDefault,
    TableArgument,
    command,
    looking,
    open_target,
    require_table,
)
from firnline.cli.progress import reading
from firnline.errors import UsageError
from firnline.operations.operation import Work
from firnline.operations.options import ColumnFix, SchemaFixOptions
from firnline.operations.registry import SCHEMA_FIX

if TYPE_CHECKING:
    from firnline.settings.load import TableSettings
    from firnline.state.snapshot import Snapshot

commands = typer.Typer()
group = typer.Typer(cls=ShowsByDefault, no_args_is_help=True, rich_markup_mode=None)
commands.add_typer(group, name="schema", help="Columns of a table; repair of a schema conflict.")


@command(
    group,
    "show",
    [
        "firnline schema show flights",
        "firnline schema flights --json",
    ],
)
def show(
    table: TableArgument,
    as_json: JsonOption = False,
    settings: SettingsOption = None,
) -> None:
    """Columns of a table and their types, and what each is used for.

    Works on a table whose log files contradict each other: then also who states what, with the
    parts behind it.
    """
    from firnline.operations.schema.pages import schema_page

    opened = open_target(table, settings)
    from firnline.operations.schema.target import disputes
    from firnline.properties.in_force import current, in_force
    from firnline.state.snapshot import read_snapshot

    with looking(opened, silent=as_json):
        state = read_snapshot(opened.store, opened.paths, tolerant=True)
    if not state.listing:
        require_table(opened)
    disputed = disputes(state) if state.conflict is not None else []
    own = in_force(opened.settings, current(state.properties), any_key=True)
    columns = [
        {"column": name, "type": sql_type, "used_for": uses(own, name)}
        for name, sql_type in state.schema.items()
    ]
    data = {
        "table": opened.settings.name,
        "root": opened.settings.root,
        "columns": columns,
        "conflicts": [
            {
                "column": types[0].column,
                "used_for": uses(own, types[0].column),
                "types": [statement.to_json() for statement in types],
            }
            for types in disputed
        ],
        "changes": _changes(state),
    }
    output.show(data, as_json, schema_page)


def _changes(state: Snapshot) -> list[dict[str, Any]]:
    """Return lazy changes of the columns, and the number of parts that merges have to rewrite."""
    waiting = Counter(c.id for marker in state.live.values() for c in state.pending_changes(marker))
    return [
        {
            "transaction": change.seq,
            "t": change.t,
            "widen": change.what.widen,
            "rename": change.what.rename,
            "drop": list(change.what.drop),
            "parts": waiting[change.id],
            "of_parts": len(state.live),
        }
        for change in state.changes
    ]


def uses(settings: TableSettings, column: str) -> list[str]:
    """Return the settings that use a column (names ignore letter case, as in DuckDB)."""
    roles = {
        "partition": [field.column for field in settings.partition_by],
        "sort": [field.column for field in settings.sort_by],
        "cluster": list(settings.cluster_by.columns) if settings.cluster_by else [],
        "primary key": list(settings.primary_key),
        "version": [settings.version] if settings.version else [],
        "ttl": [settings.ttl.column] if settings.ttl and settings.ttl.column else [],
    }
    folded = column.casefold()
    return [role for role, names in roles.items() if folded in (n.casefold() for n in names)]


@command(
    group,
    "fix",
    [
        "firnline schema fix flights --column dep_delay --type INTEGER --dry-run",
        "firnline schema fix flights --column dep_delay --rename dep_delay_text --yes",
        "firnline schema fix t --column a --type BIGINT --column b --type DATE --yes",
    ],
)
def fix(  # noqa: PLR0913, PLR0917 - one per option
    table: TableArgument,
    column: Annotated[
        list[str],
        typer.Option(
            "--column",
            metavar="NAME",
            help="The column, in the letters to keep; may be repeated, each with its --type or "
            "--rename.",
        ),
    ],
    options: SchemaFixOptions,
    kind: Annotated[
        list[str] | None,
        typer.Option(
            "--type",
            metavar="TYPE",
            help="Parts that hold it in another type are rewritten. A value that the type cannot "
            "hold exactly ends it with nothing changed.",
        ),
    ] = None,
    rename: Annotated[
        list[str] | None,
        typer.Option(
            "--rename",
            metavar="NEW",
            help="Instead of --type: parts that hold it in another type than most of the table's "
            "bytes get it under this name, with every value.",
        ),
    ] = None,
    yes: YesOption = False,
    engine: EngineOption = EngineKind.LOCAL,
    master: MasterOption = None,
    scratch: ScratchOption = None,
    as_json: JsonOption = False,
    settings: SettingsOption = None,
) -> None:
    """Give a column one type, or two names, where log files contradict each other.

    One transaction, all or nothing. Stop the writer of the wrong type first. The footers of the
    parts decide what is rewritten, whatever their log file says.
    """
    opened = open_target(table, settings)
    options = msgspec.structs.replace(options, fixes=_fixes(column, kind or [], rename or []))
    with engine_for("schema-fix", opened, engine, master, scratch) as factory:
        operate(
            SCHEMA_FIX.load(),
            Work(opened, engine=factory),
            options,
            as_json=as_json,
            yes=yes,
            progress=partial(reading, "repairing"),
        )


def _fixes(columns: list[str], types: list[str], names: list[str]) -> tuple[ColumnFix, ...]:
    if bool(types) == bool(names) or len(types or names) != len(columns):
        raise UsageError(
            f"{len(columns)} --column, {len(types)} --type and {len(names)} --rename do not go "
            "together",
            next_step="give each --column one --type, or each one --rename",
        )
    if types:
        return tuple(ColumnFix(column=c, type=kind) for c, kind in zip(columns, types, strict=True))
    return tuple(ColumnFix(column=c, rename=new) for c, new in zip(columns, names, strict=True))
