"""``firnline init``: write a table into the settings file, and try its store."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from firnline.cli import output
from firnline.cli.confirm import DryRunOption, YesOption, agreed, refuse_silence
from firnline.cli.options import command
from firnline.errors import EnvironmentFaultError, SettingsError, UsageError

if TYPE_CHECKING:
    from firnline.properties.record import Properties

commands = typer.Typer()
_FIELDS = ("partition_by", "sort_by", "cluster_by", "primary_key")
"""Properties of a table that is there which its settings repeat."""


@command(
    commands,
    "init",
    [
        "firnline init",
        "firnline init events --root s3://lake/events --partition-by 'day(ts)' --sort-by customer",
        "firnline init events --root s3://lake/events --yes",
    ],
)
def init(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="Name of the table.")] = None,
    root: Annotated[
        str | None,
        typer.Option("--root", metavar="URL", help="s3://bucket/prefix, file:///folder, ..."),
    ] = None,
    partition_by: Annotated[
        list[str] | None,
        typer.Option(
            "--partition-by",
            metavar="FIELD",
            help="Level of the partition path: column, day(column), bucket(16, column). May be "
            "repeated.",
        ),
    ] = None,
    sort_by: Annotated[
        list[str] | None,
        typer.Option(
            "--sort-by", metavar="COLUMN", help="Order of rows in merged parts. May be repeated."
        ),
    ] = None,
    connection: Annotated[
        str | None,
        typer.Option("--connection", metavar="ID", help="Airflow connection of the store."),
    ] = None,
    yes: YesOption = False,
    dry_run: DryRunOption = False,
    settings: Annotated[
        Path | None,
        typer.Option(
            "--settings",
            metavar="PATH",
            help="Settings file; without it $FIRNLINE_TABLES, else include/tables.yaml here, or "
            "tables.yaml if that is there.",
        ),
    ] = None,
) -> None:
    """Write a table into the settings file, after a look at its store.

    Asks for what is not given. A table that is there already is written with the layout that it
    states itself. Lists the root, and tries with a small object, which is deleted again, whether
    the store refuses a second create-only put.
    """
    path = settings or _place()
    asked = not (yes or dry_run)
    if root is None and not (asked and sys.stdin.isatty()):
        raise UsageError(
            "a table needs a root, and nobody can be asked for it",
            next_step="give it, as in `firnline init events --root s3://lake/events --yes`",
        )
    root = root or _ask("Root of the table, such as s3://bucket/prefix")
    if not root:
        raise UsageError("a table needs a root", next_step="give --root")
    name = name or _named(root, asked=asked)
    values = _values(root, connection, partition_by, sort_by, asked=asked)
    text = _new_text(path, name, values)
    added = _added(name, values)
    _look(path, text, name)
    output.line()
    output.plain(f"{path}:")
    for line in added:
        output.plain(line)
    output.line()
    if dry_run:
        return
    if not yes:
        refuse_silence(f"to write {path}", as_json=False)
        if not agreed(f"Write these lines into {path}?"):
            output.line("Nothing was changed.")
            raise typer.Exit(1)
    _write(path, text)
    output.line(f"{path} is written. What to do next:")
    file = f" --settings {shlex.quote(str(settings))}" if settings else ""
    for step in (f"firnline append {name} *.parquet", f"firnline plan merge {name}"):
        output.plain(f"  {step}{file}")
    output.plain(f"  firnline pools{file} > pools.json && airflow pools import pools.json")


def _place() -> Path:
    import os

    from firnline.settings.load import places_here

    named = os.environ.get("FIRNLINE_TABLES")
    if named:
        return Path(named)
    found = next((place for place in places_here() if place.is_file()), places_here()[0])
    return found.relative_to(Path.cwd())


def _ask(question: str, default: str = "") -> str:
    shown = f"{question} [{default}]: " if default else f"{question}: "
    sys.stdout.write(shown)
    sys.stdout.flush()
    return sys.stdin.readline().strip() or default


def _named(root: str, *, asked: bool) -> str:
    proposed = root.rstrip("/").rpartition("/")[2]
    return _ask("Name of the table", proposed) if asked else proposed


def _values(
    root: str,
    connection: str | None,
    partition_by: list[str] | None,
    sort_by: list[str] | None,
    *,
    asked: bool,
) -> dict[str, object]:
    """Return the settings of the table, in the order of the file."""
    values: dict[str, object] = {"root": root}
    if connection:
        values["connection_id"] = connection
    states = _stated(root)
    if states is not None:
        if partition_by or sort_by:
            raise UsageError(
                f"there is a table at {root}, which states its layout itself",
                next_step="leave --partition-by and --sort-by out; `firnline properties apply` "
                "changes the layout later",
            )
        return values | states
    if asked and partition_by is None:
        partition_by = _list(_ask("Partition by, such as day(ts); empty for none"))
    if asked and sort_by is None:
        sort_by = _list(_ask("Sort by, such as customer, ts; empty for none"))
    given = {"partition_by": partition_by, "sort_by": sort_by}
    return values | {key: list(value) for key, value in given.items() if value}


def _list(text: str) -> list[str]:
    """Split at commas outside of parentheses: ``bucket(16, id), day(ts)`` are two."""
    found, depth = [""], 0
    for char in text:
        depth += (char == "(") - (char == ")")
        if char == "," and depth <= 0:
            found.append("")
        else:
            found[-1] += char
    return [each.strip() for each in found if each.strip()]


def _stated(root: str) -> dict[str, object] | None:
    """Return the layout of the table at the root; None without a table. Requests: ``read_base``."""
    from firnline.commit.base import read_base
    from firnline.settings.load import settings_for_root
    from firnline.store.access import StoreAccess
    from firnline.table import open_table

    base = read_base(open_table(settings_for_root(root), StoreAccess.from_env()))
    if not base.snapshot.listing:
        return None
    return _layout(base.properties)


def _layout(properties: Properties | None) -> dict[str, object]:
    if properties is None:
        return {}
    plain = properties.plain()
    return {key: plain[key] for key in _FIELDS if plain.get(key)}


def _new_text(path: Path, name: str, values: dict[str, object]) -> str:
    """Return the whole new file; the present one is checked first. Raises UsageError."""
    from firnline.settings.draft import add_table
    from firnline.settings.load import load_settings

    present = ""
    if path.exists():
        if name in load_settings(path).tables:
            raise UsageError(
                f"{path} has a table {name!r} already",
                next_step="give another name, or edit the file",
            )
        present = path.read_text(encoding="utf-8")
    return add_table(present, name, values)


def _added(name: str, values: dict[str, object]) -> Sequence[str]:
    from firnline.settings.draft import lines_of

    return lines_of(name, values)


def _look(path: Path, text: str, name: str) -> None:
    """Check the new file, then the store of its new table. Raises what is wrong with either."""
    import tempfile

    from firnline.cli.doctor import examine_store
    from firnline.settings.load import load_settings
    from firnline.store.access import StoreAccess
    from firnline.table import open_table

    with tempfile.NamedTemporaryFile("w", suffix=".yaml", encoding="utf-8") as draft:
        draft.write(text)
        draft.flush()
        try:
            loaded = load_settings(Path(draft.name)).table(name)
        except SettingsError as error:
            # The draft is gone when this is read.
            raise SettingsError(
                error.message.replace(draft.name, f"{path} with these lines"),
                next_step="correct what was given; nothing was written",
            ) from None
    checks = list(examine_store(open_table(loaded, StoreAccess.from_env()), write=True))
    columns = [output.Column("check"), output.Column("state"), output.Column("found", wrap=True)]
    output.table(columns, [[c.what, c.state, c.found] for c in checks])
    wrong = next((check for check in checks if check.bad), None)
    if wrong is not None:
        raise EnvironmentFaultError(f"{wrong.what}: {wrong.found}", next_step=wrong.next_step)


def _write(path: Path, text: str) -> None:
    """Replace the file at once: a reader sees the old or the new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_name(f"{path.name}.new")
    new.write_text(text, encoding="utf-8")
    new.replace(path)
