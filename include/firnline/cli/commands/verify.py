"""``firnline verify``: check a table against its log."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from msgspec import structs

from firnline.cli.engine import EngineKind, MasterOption, engine_for
from firnline.cli.operate import operate
from firnline.cli.options import JsonOption, SettingsOption, TableArgument, command, open_target
from firnline.cli.progress import verifying
from firnline.errors import UsageError
from firnline.operations.operation import Work
from firnline.operations.options import VerifyOptions
from firnline.operations.registry import VERIFY

if TYPE_CHECKING:
    from firnline.operations.operation import Footers
    from firnline.table import Table

commands = typer.Typer()


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
    with _footers(opened, engine, master) as footers:
        operate(
            VERIFY.load(),
            Work(opened, footers=footers),
            options,
            as_json=as_json,
            progress=verifying,
        )


def _witnesses(table: Table, given: Sequence[str]) -> tuple[str, ...]:
    """Return lines of witnesses: as they are given, of a file, or of Airflow's database."""
    texts: list[str] = []
    for text in given:
        if text == "airflow":
            from firnline.airflow.witness import of_database

            texts += of_database(table.settings)
        elif text.startswith("firnline-witness "):
            texts.append(text)
        else:
            texts.append(_read(Path(text)))
    return tuple(texts)


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        if isinstance(error, UnicodeDecodeError):
            why = "it is no text"
        else:
            why = (error.strerror or type(error).__name__).lower()
        raise UsageError(
            f"the witnesses in {path} cannot be read: {why}",
            next_step="give a file of lines of `firnline witness`, such a line, or `airflow`",
        ) from None


@contextmanager
def _footers(table: Table, kind: EngineKind, master: str | None) -> Iterator[Footers | None]:
    if kind is EngineKind.LOCAL:
        yield None
        return
    from firnline.spark.footers import footers_by

    with engine_for("verify", table, kind, master, scratch=None) as factory:
        yield footers_by(factory)
