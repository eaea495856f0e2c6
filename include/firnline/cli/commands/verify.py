"""``firnline verify``: check a table against its log."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from msgspec import structs

from firnline.cli import output
from firnline.cli.engine import EngineKind, MasterOption, engine_for
from firnline.cli.failures import when_stopped
from firnline.cli.options import JsonOption, SettingsOption, TableArgument, command, open_target
from firnline.cli.output import requests_text
from firnline.cli.progress import verifying
from firnline.errors import FindingsError, UsageError
from firnline.operations.operation import Work
from firnline.operations.options import VerifyOptions
from firnline.pages import Column
from firnline.units import counted

if TYPE_CHECKING:
    from firnline.operations.verify.run import VerifyProgress, VerifyReport
    from firnline.table import Table

commands = typer.Typer()
SHOWN = 20
"""Maximum findings of one kind that are printed; ``--json`` has up to 100."""


@command(
    commands,
    "verify",
    [
        "firnline verify flights",
        "firnline verify flights --deep",
        "firnline verify flights --rows --sample 30",
        "firnline verify flights --witness witnesses.txt",
        "firnline verify flights --witness airflow",
        "firnline verify flights --deep --engine spark --master spark://host:7077",
    ],
)
def verify(
    table: TableArgument,
    options: VerifyOptions,
    engine: Annotated[
        EngineKind, typer.Option("--engine", help="Read footers in this process, or by Spark.")
    ] = EngineKind.LOCAL,
    master: MasterOption = None,
    as_json: JsonOption = False,
    settings: SettingsOption = None,
) -> None:
    """Compare log, transactions and objects.

    Finds parts that are missing or of another size, files that do not read, gaps, rows that are
    there twice, what v1 clients see otherwise; says what to do about each. Changes nothing, and
    is safe beside everything else. Exit code 1 for an error or a warning, not for a note.
    """
    if engine is EngineKind.SPARK and not options.deep:
        raise UsageError(
            "--engine spark is for the footers, which are only read with --deep",
            next_step="add --deep, or leave --engine out",
        )
    opened = open_target(table, settings)
    options = structs.replace(options, witness=_witnesses(opened, options.witness))
    with (
        when_stopped("stopped; a check changes nothing", next_step="run it again"),
        verifying(opened.settings.name, opened.clock, silent=as_json) as tell,
    ):
        report = _verify(opened, options, engine, master, tell)
    output.show(report.to_json(), as_json, _render)
    from firnline.operations.verify.run import refuse_findings

    try:
        refuse_findings(report)
    except FindingsError as error:
        if as_json:
            raise
        # The table above has all details.
        raise FindingsError(
            f"{opened.settings.name} is not in order", next_step="see the findings above"
        ) from error


def _witnesses(table: Table, given: Sequence[str]) -> tuple[str, ...]:
    """Return lines of witnesses: as they are given, of a file, or of Airflow's database."""
    found: list[str] = []
    for text in given:
        if text == "airflow":
            from firnline.airflow.witness import of_database

            found += of_database(table.settings)
        elif text.startswith("firnline-witness "):
            found.append(text)
        else:
            found.append(_read(Path(text)))
    return tuple(found)


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(
            f"the witnesses in {path} cannot be read: {_why(error)}",
            next_step="give a file of lines of `firnline witness`, such a line, or `airflow`",
        ) from None


def _why(error: OSError | UnicodeDecodeError) -> str:
    if isinstance(error, UnicodeDecodeError):
        return "it is no text"
    return (error.strerror or type(error).__name__).lower()


def _verify(
    table: Table,
    options: VerifyOptions,
    kind: EngineKind,
    master: str | None,
    tell: Callable[[VerifyProgress], None],
) -> VerifyReport:
    from firnline.operations.verify.run import run_verify

    if kind is EngineKind.LOCAL:
        return run_verify(Work(table, tell=tell), options)
    from firnline.spark.footers import footers_by

    with engine_for("verify", table, kind, master, scratch=None) as factory:
        return run_verify(Work(table, tell=tell, footers=footers_by(factory)), options)


def _render(data: dict[str, Any]) -> None:
    _render_findings(data)
    output.pairs(_rows(data))


def _render_findings(data: dict[str, Any]) -> None:
    if not data["findings"]:
        return
    columns = [
        Column("severity"),
        Column("object", wrap=True),
        Column("finding", wrap=True, prose=True),
        Column("what to do", wrap=True, prose=True),
    ]
    shown: dict[str, int] = {}
    rows = []
    for finding in data["findings"]:
        kind = finding["kind"]
        shown[kind] = shown.get(kind, 0) + 1
        if shown[kind] <= SHOWN:
            texts = ("severity", "object", "sentence", "next_step")
            rows.append([finding[name] for name in texts])
    output.table(columns, rows)
    for kind, count in data["kinds"].items():
        if count > SHOWN:
            output.line(f"{output.number(count - SHOWN)} more of the kind {kind}.")
    output.line()


def _rows(data: dict[str, Any]) -> list[tuple[str, str]]:
    from firnline.units import about_duration, about_size

    checked, number, severities = data["checked"], output.number, data["severities"]
    found = ", ".join(
        f"{number(severities[level])} {level}{'' if severities[level] == 1 else 's'}"
        for level in ("error", "warning", "note")
        if severities.get(level)
    )
    seen = checked["v1_parts"]
    others = "" if seen == checked["live_parts"] else f"; clients of version 1 see {number(seen)}"
    rows = [
        ("table", data["table"]),
        ("found", found or "nothing"),
        ("log files", number(checked["log_files"])),
        ("transactions", number(checked["transactions"])),
        (
            "parts",
            f"{number(checked['live_parts'])} live, {number(checked['dead_parts'])} dead{others}",
        ),
        ("rows", number(checked["rows"])),
        ("objects", f"{number(checked['objects'])}, {about_size(checked['bytes'])}"),
    ]
    if data["deep"]:
        footers = f"{number(checked['footers'])} with {counted(checked['footer_rows'], 'row')}"
        rows.append(("footers", footers))
    if data["rows"]:
        read = f"{number(checked['read_parts'])} with {counted(checked['read_rows'], 'row')} read"
        if checked["unstated_parts"]:
            read += f"; {counted(checked['unstated_parts'], 'part')} without a digest to compare"
        rows.append(("rows of parts", read))
    rows += [
        ("requests", requests_text(data["requests"])),
        ("time", about_duration(round(data["seconds"] * 1000))),
    ]
    return rows
