"""``firnline init``: write a table into the settings file, and try its store; or the DAG files."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from firnline.cli import output
from firnline.cli.confirm import DryRunOption, YesOption, agreed, refuse_silence
from firnline.cli.failures import done, printable
from firnline.cli.files import local_path
from firnline.cli.options import command
from firnline.errors import (
    EnvironmentFaultError,
    SettingsError,
    StoreAccessError,
    UsageError,
)
from firnline.pages import Column

if TYPE_CHECKING:
    from firnline.settings.draft import Neighbour
    from firnline.settings.load import TableSettings

commands = typer.Typer()
_FIELDS = ("partition_by", "sort_by", "cluster_by", "primary_key")
"""Properties of a table that is there which its settings repeat."""
_LAYOUT = {
    "partition_by": "Partition by, such as day(ts); empty for none",
    "sort_by": "Sort by, such as customer, ts; empty for none",
}
"""Questions for the layout of a new table."""


@command(
    commands,
    "init",
    [
        "firnline init",
        "firnline init events --root s3://lake/events --partition-by 'day(ts)' --sort-by customer",
        "firnline init events --root s3://lake/events --yes",
        "firnline init events --root s3://lake/events --from-sample events.jsonl",
        "firnline init --airflow /opt/airflow",
    ],
)
def init(  # noqa: PLR0913, PLR0917 - one per option
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
    sample: Annotated[
        Path | None,
        typer.Option(
            "--from-sample",
            metavar="FILE",
            help="Parquet, JSON lines or CSV whose columns and types the table gets before its "
            "first row.",
        ),
    ] = None,
    airflow: Annotated[
        Path | None,
        typer.Option(
            "--airflow",
            metavar="FOLDER",
            help="Instead of a table: write firnline's DAG files into `dags` below this folder.",
        ),
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

    With --airflow it writes DAG files of a few lines, which make the DAGs of all tables; an upgrade
    of the package needs no new ones.
    """
    if airflow is not None:
        table = (name, root, partition_by, sort_by, connection, sample, settings)
        _write_dags(airflow, table, yes=yes, dry_run=dry_run)
        return
    settings = None if settings is None else local_path(settings, "--settings")
    path = settings or _place()
    asked = not (yes or dry_run)
    if root is None and not (asked and sys.stdin.isatty()):
        raise UsageError(
            "a table needs a root, and nobody can be asked for it",
            next_step="give it, as in `firnline init events --root s3://lake/events --yes`",
        )
    if not dry_run:
        _refuse_unwritable(path)
    file = _File.read(path, alone=path == _place())
    root, states = _root(file, root)
    name = name or _named(file, root, asked=asked)
    values: dict[str, object] = {"root": root}
    values |= {"connection_id": connection} if connection else {}
    if states is None:
        layout = {"partition_by": partition_by, "sort_by": sort_by}
        values |= _layout(file, name, root, layout, asked=asked)
        values |= {} if sample is None else {"columns": _sampled(sample)}
    elif partition_by or sort_by or sample:
        raise UsageError(
            f"there is a table at {root}, which states its layout itself, and its columns",
            next_step="leave --partition-by, --sort-by and --from-sample out; `firnline properties "
            "apply` changes the layout later, `firnline evolve` the columns",
        )
    else:
        values |= states
    _look(file.table(name, values))
    _show(path, name, values)
    if dry_run:
        return
    if not yes:
        refuse_silence(f"to write {path}", as_json=False)
        if not agreed(f"Write these lines into {path}?"):
            output.line("Nothing was changed.")
            raise typer.Exit(1)
    _write(path, file.with_table(name, values))
    _advise(path, name, f" --settings {shlex.quote(str(settings))}" if settings else "")


def _write_dags(folder: Path, table: Sequence[object], *, yes: bool, dry_run: bool) -> None:
    """Write the DAG files. Raises UsageError if something was said of a table besides."""
    from firnline.cli.airflow_files import write_dag_files

    if any(each is not None for each in table):
        raise UsageError(
            "--airflow writes the DAG files, which are the same for any table, and something was "
            "said of a table",
            next_step="write the table with a command of its own",
        )
    if not write_dag_files(folder, yes=yes, dry_run=dry_run):
        output.line("Nothing was changed.")
        raise typer.Exit(1)


@dataclass(frozen=True)
class _File:
    """The settings file, which need not be there."""

    path: Path
    text: str
    taken: Mapping[str, Path]
    """Name of a table -> the file that has it."""
    others: Sequence[Neighbour]
    """The files that are read together with it."""

    @classmethod
    def read(cls, path: Path, *, alone: bool) -> _File:
        """Read the file. Raises SettingsError; UsageError if no table can be added to it.

        Args:
            path: of the file.
            alone: it is the one that commands read which are told no other; else its folder may be
                one of settings.
        """
        from firnline.settings.draft import add_table, neighbours
        from firnline.settings.files import is_folder, is_read
        from firnline.settings.load import load_settings

        if is_folder(path):
            raise UsageError(
                f"{path} is a folder of settings, and a table is written into one file",
                next_step=f"name the file, as in --settings {path / 'tables.yaml'}",
            )
        others = () if alone else neighbours(path)
        if others and not is_read(path.name):
            raise UsageError(
                f"{path.parent} is a folder of settings, which does not read {path.name}",
                next_step="give a name that ends in .yaml and does not begin with a dot",
            )
        taken = {name: each.path for each in others for name in each.names}
        if not path.exists():
            return cls(path, "", taken, others)
        loaded = load_settings(path)
        taken |= dict.fromkeys((*loaded.tables, *loaded.broken), path)
        text = path.read_text(encoding="utf-8")
        add_table(text, "any", {})  # before anybody is asked anything
        return cls(path, text, taken, others)

    def with_table(self, name: str, values: Mapping[str, object]) -> str:
        """Return the text of the file with one more table. Raises UsageError."""
        from firnline.settings.draft import add_table

        if name in self.taken:
            raise UsageError(
                f"{self.taken[name]} has a table {name!r} already",
                next_step="give another name, or edit the file",
            )
        return add_table(self.text, name, values)

    def table(self, name: str, values: Mapping[str, object]) -> TableSettings:
        """Return the settings of the table as they would be read from the new file.

        Other files of its folder are read with it: the table could take out tables of theirs.

        Raises UsageError, SettingsError: what is wrong with them.
        """
        import tempfile

        from firnline.settings.load import load_settings

        text = self.with_table(name, values)
        with tempfile.TemporaryDirectory() as folder:
            for each in self.others:
                Path(folder, each.path.name).write_bytes(each.raw)
            draft = Path(folder, self.path.name)
            draft.write_text(text, encoding="utf-8")
            try:
                return load_settings(folder if self.others else draft).table(name)
            except SettingsError as error:
                # The draft is gone when this is read.
                named = str(draft) in error.message
                step = "correct what was given" if named else error.next_step
                lines = (
                    text.replace(str(draft), f"{self.path} with these lines").replace(
                        folder, str(self.path.parent)
                    )
                    for text in (error.headline, *error.listed)
                )
                raise SettingsError(
                    next(lines), next_step=f"{step}; nothing was written", listed=tuple(lines)
                ) from None


def _place() -> Path:
    from firnline.settings.files import TABLES_VARIABLE, may_be
    from firnline.settings.load import places_here

    named = os.environ.get(TABLES_VARIABLE)
    if named:
        return Path(named)
    places = places_here()
    file = next((place for place in places if may_be(place.is_file)), places[0])
    return file.relative_to(Path.cwd())


def _ask(question: str, check: Callable[[str], object], default: str = "") -> str:
    """Ask until the answer passes a check, which raises what is wrong with it."""
    shown = f"{question} [{default}]: " if default else f"{question}: "
    while True:
        sys.stdout.write(printable(shown))
        sys.stdout.flush()
        line = sys.stdin.readline()
        answer = line.strip() or default
        try:
            check(answer)
        except (UsageError, StoreAccessError) as error:
            if not line:  # nobody answers any more
                raise
            output.plain(f"{error.message.rpartition(' with these lines: ')[2]}. Once more:")
        else:
            return answer


def _root(file: _File, root: str | None) -> tuple[str, dict[str, object] | None]:
    """Return the root, which is asked for if it is not given, and the layout of a table there."""
    if root is not None:
        return root, _stated(root)
    layouts: list[dict[str, object] | None] = []

    def look(answer: str) -> None:
        if not answer:
            raise UsageError("a table needs a root", next_step="give --root")
        states = _stated(answer)
        file.table(_free(file, answer), {"root": answer})
        layouts.append(states)

    answer = _ask("Root of the table, such as s3://bucket/prefix", look)
    return answer, layouts[-1]


def _named(file: _File, root: str, *, asked: bool) -> str:
    from firnline.settings.model import name_from

    proposed = name_from(root)
    if not asked:
        return proposed
    return _ask("Name of the table", lambda answer: file.table(answer, {"root": root}), proposed)


def _free(file: _File, root: str) -> str:
    """Return a name that no table has, to try a root with."""
    from firnline.settings.model import name_from

    name = name_from(root) or "table"
    while name in file.taken:
        name += "-2"
    return name


def _layout(
    file: _File, name: str, root: str, given: Mapping[str, list[str] | None], *, asked: bool
) -> dict[str, object]:
    """Return what is given of the layout, and what is asked for otherwise."""
    layout: dict[str, object] = {}
    for key, value in given.items():
        fields = list(value or ())
        if value is None and asked:
            check = partial(_check_field, file, name, root, key)
            fields = _list(_ask(_LAYOUT[key], check))
        if fields:
            layout[key] = fields
    return layout


def _sampled(path: Path) -> dict[str, str]:
    from firnline.kernel.inference import columns_of

    columns, untyped = columns_of(path)
    if untyped:
        output.line(
            f"{path} does not show the type of {', '.join(untyped)}: null, empty or mixed "
            "in all rows. The table gets such a column with the first row that has a value in it."
        )
    if not columns:
        raise UsageError(
            f"{path} shows no column with a type", next_step="give a sample with values"
        )
    return columns


def _check_field(file: _File, name: str, root: str, key: str, answer: str) -> None:
    file.table(name, {"root": root, key: _list(answer)})


def _list(text: str) -> list[str]:
    """Split at commas outside of parentheses: ``bucket(16, id), day(ts)`` are two."""
    fields, depth = [""], 0
    for char in text:
        depth += (char == "(") - (char == ")")
        if char == "," and depth <= 0:
            fields.append("")
        else:
            fields[-1] += char
    return [each.strip() for each in fields if each.strip()]


def _stated(root: str) -> dict[str, object] | None:
    """Return the layout of the table at the root; None without a table. Requests: ``read_base``."""
    from firnline.commit.base import read_base
    from firnline.settings.load import settings_for_root
    from firnline.store.access import StoreAccess
    from firnline.table import open_table

    base = read_base(open_table(settings_for_root(root), StoreAccess.from_env()))
    if not base.snapshot.listing:
        return None
    plain = {} if base.properties is None else base.properties.plain()
    return {key: plain[key] for key in _FIELDS if plain.get(key)}


def _look(table: TableSettings) -> None:
    """Look at the store of the new table. Raises what is wrong with it."""
    from firnline.cli.doctor import examine_store
    from firnline.store.access import StoreAccess
    from firnline.table import open_table

    checks = list(examine_store(open_table(table, StoreAccess.from_env()), write=True))
    columns = [Column("check"), Column("state"), Column("found", wrap=True)]
    output.table(columns, [[c.what, c.state, c.found] for c in checks])
    wrong = next((check for check in checks if check.bad), None)
    if wrong is not None:
        raise EnvironmentFaultError(f"{wrong.what}: {wrong.found}", next_step=wrong.next_step)


def _show(path: Path, name: str, values: Mapping[str, object]) -> None:
    from firnline.settings.draft import lines_of

    new = "" if path.exists() else ", a new file"
    new += "" if path.parent.exists() else f" in the new folder {path.parent}"
    output.line()
    output.plain(f"{path}{new}:")
    for line in lines_of(name, values):
        output.plain(line)
    output.line()


def _advise(path: Path, name: str, file: str) -> None:
    """Print what to do next; ``file`` is the option that names the settings file."""
    output.line(f"{path} is written. What to do next:")
    for step in (f"firnline append {name} *.parquet", f"firnline plan merge {name}"):
        output.plain(f"  {step}{file}")
    if find_spec("airflow") is not None:
        output.plain(f"  firnline pools{file} > pools.json && airflow pools import pools.json")


def _refuse_unwritable(path: Path) -> None:
    """Raise EnvironmentFaultError before anybody is asked anything."""
    folder = next(each for each in path.absolute().parents if os.path.exists(each))  # noqa: PTH110 - Path.exists raises where a folder may not be looked into
    if not folder.is_dir():
        raise _unwritable(path, f"{folder} is no folder")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise _unwritable(path, f"nobody may write into {folder} as this user")


def _unwritable(path: Path, why: str) -> EnvironmentFaultError:
    return EnvironmentFaultError(
        f"{path} cannot be written: {why}", next_step="give another file with --settings"
    )


def _write(path: Path, text: str) -> None:
    """Replace the file at once: a reader sees the old or the new one."""
    new = path.with_name(f"{path.name}.new")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        new.write_text(text, encoding="utf-8")
        new.replace(path)
        done(f"{path} is written")
    except OSError as error:
        raise _unwritable(path, error.strerror or str(error)) from None
