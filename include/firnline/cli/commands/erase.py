"""``firnline erase``: erase the rows of a set of keys, with a certificate."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from firnline.cli.confirm import YesOption
from firnline.cli.engine import EngineKind, EngineOption, MasterOption, ScratchOption, engine_for
from firnline.cli.operate import operate
from firnline.cli.options import (
    JsonOption,
    SettingsOption,
    TableArgument,
    command,
    open_target,
)
from firnline.cli.progress import reading
from firnline.errors import UsageError
from firnline.operations.operation import Operation, Work
from firnline.operations.options import EraseOptions
from firnline.operations.registry import CLEANUP, ERASE

if TYPE_CHECKING:
    from firnline.table import Table

commands = typer.Typer()


@command(
    commands,
    "erase",
    [
        "firnline erase flights --column tailnum --keys tailnums.csv --dry-run",
        "firnline erase flights --column tailnum --key N14228 --key N24211 --yes",
        'firnline erase flights --column carrier --column flight --key \'["UA", "1545"]\' --yes',
    ],
    may_be_empty=["key"],
)
def erase(  # noqa: PLR0913, PLR0917 - one per option
    table: TableArgument,
    options: EraseOptions,
    key: Annotated[
        list[str] | None,
        typer.Option(
            "--key",
            metavar="VALUE",
            help="A key, may be repeated; with several columns a JSON list. Others on this "
            "machine can see it: better a file.",
        ),
    ] = None,
    yes: YesOption = False,
    engine: EngineOption = EngineKind.LOCAL,
    master: MasterOption = None,
    scratch: ScratchOption = None,
    as_json: JsonOption = False,
    settings: SettingsOption = None,
) -> None:
    """Erase the rows of a set of keys from every part, with a certificate.

    The replaced parts stay for the grace, since readers may use them; `firnline certificate`
    deletes them then and says what else may hold a key; so does a run of the clean-up's DAG.
    Under Airflow the DAG erase does the same.
    """
    opened = open_target(table, settings)
    options = msgspec.structs.replace(options, keys=parse_keys(options.columns, key))
    with engine_for("erase", opened, engine, master, scratch) as factory:
        operate(
            _saying_what_is_next(opened),
            Work(opened, engine=factory),
            options,
            as_json=as_json,
            yes=yes,
            progress=partial(reading, "erasing from"),
        )


def _saying_what_is_next(table: Table) -> Operation[EraseOptions, Any, Any]:
    """Return the erase of a table whose settings name the DAG that completes it, or do not."""
    from firnline.operations.erase.pages import partly_page, report_page
    from firnline.settings.dags import has_dag

    named = has_dag(table.settings, CLEANUP.dag)
    return replace(
        ERASE.load(),
        report_page=partial(report_page, has_cleanup=named),
        failure_page=partial(partly_page, has_cleanup=named),
    )


def parse_keys(columns: Sequence[str], keys: Sequence[str] | None) -> tuple[tuple[Any, ...], ...]:
    """Parse keys: a value each, or a JSON list for several columns. Raises UsageError."""
    # Imported late: it imports pyarrow.
    from firnline.operations.erase.spaces import refuse_typed

    if len(columns) == 1:
        parsed = [(text,) for text in keys or ()]
    else:
        parsed = [_listed(number, text, len(columns)) for number, text in enumerate(keys or (), 1)]
    refuse_typed(parsed)
    return tuple(parsed)


def _listed(number: int, text: str, columns: int) -> tuple[Any, ...]:
    """Return the values of a key that is a JSON list, numbers digit by digit. Raises UsageError."""
    try:
        values = json.loads(text, parse_float=Decimal)
    except ValueError:
        values = None
    if not isinstance(values, list) or any(isinstance(v, dict | list) for v in values):
        raise UsageError(
            f"key {number} is not a JSON list of {columns} values",
            next_step="write --key '[\"first\", 2]', one value per --column",
        )
    return tuple(values)
