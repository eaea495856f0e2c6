"""``firnline erase``: erase the rows of a set of keys, with a certificate."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from firnline.cli import output
from firnline.cli.confirm import YesOption, look_first
from firnline.cli.engine import EngineKind, EngineOption, MasterOption, ScratchOption, engine_for
from firnline.cli.options import (
    JsonOption,
    SettingsOption,
    TableArgument,
    command,
    identity,
    open_target,
    require_table,
)
from firnline.cli.progress import reading
from firnline.errors import RunFailedError, UsageError
from firnline.operations.erase.pages import partly_page, plan_page, report_page
from firnline.operations.operation import Work
from firnline.operations.options import EraseOptions
from firnline.operations.registry import CLEANUP
from firnline.units import counted

if TYPE_CHECKING:
    from firnline.kernel.engine import Engine
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
    require_table(opened)
    from firnline.operations.erase.run import preview

    options = msgspec.structs.replace(options, keys=parse_keys(options.columns, key))
    with engine_for("erase", opened, engine, master, scratch) as factory:
        if not look_first(
            opened,
            lambda: preview(opened, options),
            plan_page,
            dry_run=options.dry_run,
            yes=yes,
            as_json=as_json,
        ):
            return
        _erase(opened, factory, options, as_json)


def parse_keys(columns: Sequence[str], keys: Sequence[str] | None) -> tuple[tuple[Any, ...], ...]:
    """Parse keys: a value each, or a JSON list for several columns. Raises UsageError."""
    if len(columns) == 1:
        return tuple((text,) for text in keys or ())
    found = []
    for number, text in enumerate(keys or (), 1):
        try:
            values = json.loads(text)
        except ValueError:
            values = None
        if not isinstance(values, list) or any(isinstance(v, dict | list) for v in values):
            raise UsageError(
                f"key {number} is not a JSON list of {len(columns)} values",
                next_step="write --key '[\"first\", 2]', one value per --column",
            )
        found.append(tuple(values))
    return tuple(found)


def _erase(
    table: Table, engine: Callable[[], Engine], options: EraseOptions, as_json: bool
) -> None:
    from firnline.operations.erase.run import EraseFailedError, run_erase
    from firnline.operations.runner import what_helps
    from firnline.settings.dags import has_dag

    name, has_cleanup = table.settings.name, has_dag(table.settings, CLEANUP.dag)
    stopped = f"stopped; the rows of {name} went together or not at all"

    output.show_run(
        lambda tell: run_erase(Work(table, identity(table), engine, tell), options),
        reading("erasing from", name, table.clock, silent=as_json),
        as_json,
        partial(report_page, has_cleanup=has_cleanup),
        stopped=(stopped, f"see `firnline certificate {name}`, or run it again"),
        failed=(EraseFailedError,),
        shorten=lambda report: RunFailedError(
            f"{counted(report.parts_failed, 'part')} of {name} may hold keys still, for the "
            "reasons above",
            next_step=what_helps(report.failures, " and erase again"),
        ),
        render_failed=partial(partly_page, has_cleanup=has_cleanup),
    )
