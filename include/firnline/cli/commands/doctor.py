"""``firnline doctor``: whether this machine has what firnline needs, in one table."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from firnline.cli import output
from firnline.cli.options import JsonOption, SettingsOption, command, table_names
from firnline.errors import FindingsError
from firnline.pages import Column
from firnline.units import counted

commands = typer.Typer()


@command(
    commands,
    "doctor",
    [
        "firnline doctor",
        "firnline doctor flights events",
        "firnline doctor --read-only",
    ],
)
def doctor(
    tables: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="TABLES",
            help="Names of the settings file; without any, all of them.",
            autocompletion=table_names,
        ),
    ] = None,
    read_only: Annotated[
        bool,
        typer.Option("--read-only", help="Do not try whether the stores can be written to."),
    ] = False,
    as_json: JsonOption = False,
    settings: SettingsOption = None,
) -> None:
    """Look for what is missing: packages, Java, settings, pools, connections, stores.

    Of each table the store is asked for its listing, and, with a small object that is deleted
    again, whether it refuses a second create-only put and what time it is there.
    """
    from firnline.cli.doctor import examine
    from firnline.settings.load import load_settings, no_settings
    from firnline.store.access import StoreAccess
    from firnline.table import open_table

    access = StoreAccess.from_env()
    none = settings is None and not tables and no_settings()
    checks = list(
        examine(
            lambda: None if none else load_settings(settings),
            lambda table: open_table(table, access),
            tables or (),
            write=not read_only,
        )
    )
    bad = [check for check in checks if check.bad]
    data = {
        "checks": [
            {"what": c.what, "state": c.state, "found": c.found, "next_step": c.next_step}
            for c in checks
        ],
        "wrong": len(bad),
    }
    output.show(data, as_json, _render)
    if bad:
        raise FindingsError(
            f"{counted(len(bad), 'check')} found something wrong",
            next_step="see the column 'next step'" if len(bad) > 1 else bad[0].next_step,
        )


def _render(data: dict[str, Any]) -> None:
    columns = [
        Column("check"),
        Column("state"),
        Column("found", wrap=True, prose=True),
        Column("next step", wrap=True, prose=True),
    ]
    rows = [[c["what"], c["state"], c["found"], c["next_step"] or "-"] for c in data["checks"]]
    output.table(columns, rows)
