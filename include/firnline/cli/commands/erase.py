"""``firnline erase``: erase the rows of a set of keys, with a certificate."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from firnline.cli import output
from firnline.cli.confirm import YesOption, look_first
from firnline.cli.engine import EngineKind, EngineOption, MasterOption, ScratchOption, engine_for
from firnline.cli.failures import only_here
from firnline.cli.options import (
    JsonOption,
    SettingsOption,
    TableArgument,
    command,
    identity,
    open_target,
    require_table,
)
from firnline.cli.output import requests_text
from firnline.cli.progress import reading
from firnline.cli.rendering import groups_table, render_failures
from firnline.errors import RunFailedError, UsageError
from firnline.operations.operation import Work
from firnline.operations.options import EraseOptions
from firnline.operations.registry import CLEANUP
from firnline.units import counted

if TYPE_CHECKING:
    from firnline.kernel.engine import Engine
    from firnline.operations.erase.run import EraseReport
    from firnline.operations.runner import Progress
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
            _render_plan,
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

    def run(tell: Callable[[Progress], None]) -> EraseReport:
        try:
            report = run_erase(Work(table, identity(table), engine, tell), options)
        except EraseFailedError as error:
            _keep_secret(error.report)
            raise
        _keep_secret(report)
        return report

    output.show_run(
        run,
        reading("erasing from", name, table.clock, silent=as_json),
        as_json,
        partial(_render, has_cleanup=has_cleanup),
        stopped=(stopped, f"see `firnline certificate {name}`, or run it again"),
        failed=(EraseFailedError,),
        shorten=lambda report: RunFailedError(
            f"{counted(report.parts_failed, 'part')} of {name} may hold keys still, for the "
            "reasons above",
            next_step=what_helps(report.failures, " and erase again"),
        ),
        render_failed=partial(_render_partly, has_cleanup=has_cleanup),
    )


def _keep_secret(report: EraseReport) -> None:
    """Let a failure of the output show the secret, which the output alone would have."""
    if report.secret is not None:
        only_here(
            f"secret of certificate {report.certificate}, which is stored nowhere: {report.secret}"
        )


def _render_partly(data: dict[str, Any], *, has_cleanup: bool) -> None:
    render_failures(data)
    _render(data, has_cleanup=has_cleanup)


def _render_plan(data: dict[str, Any]) -> None:
    from firnline.units import about_size

    number = output.number
    groups_table(data)
    output.line(
        f"Keys of {', '.join(data['columns'])}: {number(data['keys'])}. "
        f"{counted(data['parts_to_read'], 'part')} of {data['table']} would be read (about "
        f"{about_size(data['bytes_in'])}), and rewritten where a row has one of them."
    )


def _next(data: dict[str, Any], *, has_cleanup: bool) -> str:
    command = f"`firnline certificate {data['table']} {data['certificate']}`, after the grace"
    return f"{command}; so does a run of {CLEANUP.dag} in Airflow" if has_cleanup else command


def _render(data: dict[str, Any], *, has_cleanup: bool) -> None:
    from firnline.units import about_duration

    number, counts = output.number, defaultdict(int, data["counts"])
    keys = f"{number(data['keys'])} of {', '.join(data['columns'])}"
    rows = [
        ("erased", counted(counts["rows_deleted"], "row")),
        ("keys", keys),
        (
            "parts",
            (
                f"{number(data['parts_read'])} read, {number(data['parts_rewritten'])} of them "
                f"rewritten, {number(data['parts_excluded'])} excluded by statistics"
            ),
        ),
        ("transaction", number(data["transaction"])),
        ("certificate", f"{data['certificate']}"),
        ("next", _next(data, has_cleanup=has_cleanup)),
        ("requests", requests_text(data["requests"])),
        ("time", about_duration(round(data["seconds"] * 1000))),
    ]
    if data["secret"] is not None:
        rows.append(("secret", f"{data['secret']}"))
    if data["settled"]:
        rows.append(("earlier runs", f"certified now: {', '.join(data['settled'])}"))
    output.pairs(rows)
    output.line()
    if data["secret"] is not None:
        output.line(
            "Note the secret, it is stored nowhere: with it and the file of keys `firnline "
            f"certificate {data['table']} {data['certificate']} --keys FILE --secret SECRET` shows "
            "whose certificate this is."
        )
    output.line(f"No certificate speaks of {'; '.join(data['outside'])}.")
