"""``firnline settings`` and ``firnline pools``: the settings file.

They send no request to a store, but for ``settings check --tables``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from firnline.cli import output
from firnline.cli.failures import warn
from firnline.cli.mirrored import check_columns
from firnline.cli.notifiers import notes_on_notifiers
from firnline.cli.options import (
    JsonOption,
    SettingsOption,
    TableArgument,
    command,
    read_settings,
    settings_of,
)
from firnline.pages import Column

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pydantic import BaseModel

    from firnline.settings.load import TableSettings

commands = typer.Typer()
group = typer.Typer(no_args_is_help=True, rich_markup_mode=None)
commands.add_typer(group, name="settings", help="Check the settings, show a table's settings.")

_MAPPINGS = ("arguments", "columns", "conf", "path_types")
"""Settings whose value is a mapping, and no section."""


@command(
    group,
    "check",
    [
        "firnline settings check",
        "firnline settings check --settings include/tables.yaml",
        "firnline settings check --tables",
    ],
)
def check(
    with_tables: Annotated[
        bool,
        typer.Option(
            "--tables",
            help="Also read the logs of tables with a mirror: it can have their columns.",
        ),
    ] = False,
    as_json: JsonOption = False,
    settings: SettingsOption = None,
) -> None:
    """Find mistakes in the settings file and name their fields."""
    loaded = read_settings(settings, strict=True)
    if with_tables:
        _refuse_columns(loaded.tables.values())
    tables = [
        {
            "name": table.name,
            "root": table.root,
            "merge": table.merge.schedule,
            "cleanup": table.cleanup.schedule,
        }
        for table in loaded.tables.values()
    ]
    notes = [note for table in loaded.tables.values() if (note := _note(table))]
    notes += notes_on_notifiers(loaded)
    data = {"path": str(loaded.path), "tables": tables, "notes": notes}
    output.show(data, as_json, _render_check)


def _refuse_columns(tables: Iterable[TableSettings]) -> None:
    """Raise MirrorRefusedError for the first column that a mirror of its table cannot have.

    Requests: those of ``check_columns`` for each table with a mirror.
    """
    from firnline.store.access import StoreAccess
    from firnline.table import open_table

    for each in tables:
        if each.mirrors:
            check_columns(open_table(each, StoreAccess.from_env()))


def _note(table: TableSettings) -> str | None:
    """Return a sentence about what is no mistake, and keeps something from being done."""
    mirror = table.iceberg
    if mirror is None or mirror.place is not None:
        return None
    lacks = [name for name in ("catalog", "name") if getattr(mirror, name) is None]
    return (
        f"{table.name}: its Iceberg mirror has no {' and no '.join(lacks)} here, so these settings "
        "publish nothing, and clean-up goes by them all the same; where it is to be published, "
        "write iceberg: {catalog: NAME, name: namespace.table}, with a catalog of pyiceberg's "
        "configuration"
    )


def _render_check(data: dict[str, Any]) -> None:
    tables = data["tables"]
    names = ("table", "root", "merge", "cleanup")
    if tables:
        output.table(
            [Column(name, wrap=name == "root") for name in names],
            (
                [t["name"], t["root"], t["merge"] or "by hand", t["cleanup"] or "by hand"]
                for t in tables
            ),
        )
        output.line()
    if data["notes"]:
        output.pairs([("note", note) for note in data["notes"]])
    count = f"{len(tables)} table{'' if len(tables) == 1 else 's'}"
    output.line(f"{data['path']}: {count}, no mistake.")


@command(
    group,
    "show",
    [
        "firnline settings show flights",
        "firnline settings show flights --json",
    ],
)
def show(
    table: TableArgument,
    as_json: JsonOption = False,
    settings: SettingsOption = None,
) -> None:
    """Settings of a table: what the file says, defaults for the rest."""
    own = settings_of(table, settings)
    data: dict[str, Any] = own.model_dump(mode="json")
    in_file = _said(own)

    def render(data: dict[str, Any]) -> None:
        columns = [Column("setting", wrap=True), Column("from")]
        output.table(
            [*columns, Column("value", wrap=True)],
            (
                [name, "file" if name in in_file else "-", _text(value)]
                for name, value in _flat(data)
            ),
        )

    output.show(data, as_json, render)


def _flat(data: dict[str, Any], above: str = "") -> list[tuple[str, Any]]:
    """Flatten ``{"merge": {"order": "oldest"}}`` to ``[("merge.order", "oldest")]``."""
    rows: list[tuple[str, Any]] = []
    for key, value in data.items():
        nested = isinstance(value, dict) and value and key not in _MAPPINGS
        rows += _flat(value, f"{above}{key}.") if nested else [(above + key, value)]
    return rows


def _said(model: BaseModel, above: str = "") -> set[str]:
    """Return the dotted names of the settings that the file gives."""
    from pydantic import BaseModel

    names: set[str] = set()
    for name in model.model_fields_set:
        value, key = getattr(model, name), type(model).model_fields[name].alias or name
        if isinstance(value, BaseModel):
            names |= _said(value, f"{above}{key}.")
        names.add(above + key)
    return names


def _text(value: object) -> output.Cell:
    if value is None or value in ([], {}):
        return "-"
    if isinstance(value, list):
        return ", ".join(map(str, value))
    if isinstance(value, dict):
        return [f"{key}={item}" for key, item in value.items()]
    return str(value)


@command(
    commands,
    "pools",
    [
        "firnline pools > pools.json && airflow pools import pools.json",
    ],
)
def pools(
    as_json: JsonOption = False,  # noqa: ARG001 - it is JSON either way
    settings: SettingsOption = None,
) -> None:
    """Airflow pools of all tables, as JSON for `airflow pools import`."""
    from firnline.operations.pools import pools_json

    loaded = read_settings(settings)
    for each in loaded.unusable:
        whose = f"{'table' if each.name in loaded.broken else 'tables of'} {each.name}"
        warn(f"the pools of {whose} are left out: {each.error}")
    output.show(pools_json(loaded), True, lambda _: None)
