"""Read the footers of staged files, and check that their columns fit the table."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import duckdb

from firnline.errors import PartSchemaError
from firnline.kernel.duckdb import quote_list, quote_text
from firnline.kernel.faults import unreadable
from firnline.kernel.once import Once
from firnline.kernel.staging import InputError
from firnline.kernel.task import KernelTask, Source
from firnline.parquet.words import WRITTEN_OTHERWISE
from firnline.paths import path_columns
from firnline.types.schema import normalise, widens
from firnline.types.sql import fold_name, quote_name

# ruff: noqa: S608 -- every name and path is quoted; DuckDB is confined to this task's folder

_Shape = tuple[tuple[object, ...], ...]
_Form = tuple[_Shape, tuple[Source, ...]]
_REWRITE = (
    f"{WRITTEN_OTHERWISE}; `firnline drop` drops the partition, with the rows of its other parts"
)
_ROWS = 10_000
_STORED: Once[tuple[tuple[str, str], ...], Mapping[str, tuple[str, str]]] = Once()


@dataclass(frozen=True, slots=True)
class Staged:
    """Inputs of one schema and one condition: DuckDB reads them with one scan."""

    paths: tuple[Path, ...]
    columns: frozenset[str]
    """Columns of the table that the files have, by ``fold_name``."""
    where_hidden: str | None
    converted: Mapping[str, Converted]
    """Their conversions, by ``fold_name`` of a column of the table; all are among ``columns``."""
    is_whole: bool = False
    """True if every column of the files is the table's column of that name, with all values."""


@dataclass(frozen=True, slots=True)
class Inputs:
    """All inputs of a task, checked."""

    staged: tuple[Staged, ...]
    rows_of: Mapping[Path, int]
    """Number of rows by file, from the footers."""
    left_out: tuple[str, ...]
    """Columns of files that only their path has (``fit.not_data``)."""
    stored: Mapping[str, tuple[str, str]]
    """fold_name -> (column, type that Parquet returns for the table's type)."""

    @property
    def rows(self) -> int:
        """Number of rows of all files."""
        return sum(self.rows_of.values())

    @property
    def hide_rows(self) -> bool:
        """True if a delete may hide some of the rows."""
        return any(group.where_hidden is not None for group in self.staged)

    def are_whole(self, columns: int) -> bool:
        """Return True if the files have the columns of the table, with the values as they are.

        Args:
            columns: how many the table has.
        """
        return all(
            group.is_whole and not group.converted and len(group.columns) == columns
            for group in self.staged
        )

    def only(self, wanted: Collection[Path]) -> Inputs:
        """Return the inputs of some of the files."""
        staged = (
            replace(group, paths=tuple(path for path in group.paths if path in wanted))
            for group in self.staged
        )
        rows_of = {path: rows for path, rows in self.rows_of.items() if path in wanted}
        return replace(self, staged=tuple(g for g in staged if g.paths), rows_of=rows_of)


def read_footers(
    connection: duckdb.DuckDBPyConnection, task: KernelTask, paths: list[Path]
) -> Inputs:
    """Read all footers and compare every column with the table's.

    A column that a file lacks is null in its rows. Names are matched as DuckDB matches them,
    without regard to the case of ASCII letters.

    Raises:
        InputError: a file is not Parquet (PartUnreadableError), or has a column twice, of another
            type than the table's, or that the table does not have (PartSchemaError).
    """
    keys = {str(path): source.key for path, source in zip(paths, task.inputs, strict=True)}
    try:
        rows = connection.execute(
            f"SELECT file_name, num_rows FROM parquet_file_metadata({quote_list(paths)})"
        ).fetchall()
        shapes = _shapes(connection, paths)
    except duckdb.Error as error:
        raise attribute_error(keys, error, connection) from error
    stored = stored_types(connection, task.columns, paths[0].parent)
    groups: dict[tuple[_Form, str | None], list[Path]] = defaultdict(list)
    for path, source in zip(paths, task.inputs, strict=True):
        groups[(shapes[str(path)], source.sources), source.where_hidden].append(path)
    columns: dict[_Form, tuple[frozenset[str], Mapping[str, Converted], bool]] = {}
    left_out: set[str] = set()
    for (form, _), members in groups.items():
        if form not in columns:
            key = keys[str(members[0])]
            described = _describe(connection, members[0], key)
            left_out.update(not_data(task, described))
            held, converted = fit(connection, task, key, described, form[1], stored)
            exact = not form[1] and all(each.exact for each in converted.values())
            columns[form] = held, converted, exact and len(held) == len(described)
    staged = tuple(
        Staged(tuple(members), columns[form][0], hidden, *columns[form][1:])
        for (form, hidden), members in groups.items()
    )
    rows_of = {Path(path): count for path, count in rows}
    return Inputs(staged, rows_of, tuple(sorted(left_out)), stored)


def check_keys(
    connection: duckdb.DuckDBPyConnection, task: KernelTask, path: Path, inputs: Inputs
) -> None:
    """Compare the columns of the key file with the table's.

    Raises:
        InputError: the file is not Parquet (PartUnreadableError), or a column is missing or of
            another type than the table's (PartSchemaError): values converted to fit might equal
            other rows than intended.
    """
    if task.keys is None:
        return
    key = task.keys.key
    kinds = {fold_name(name): kind for name, kind in _describe(connection, path, key)}
    for column in task.keys.columns:
        kind, (name, table_kind) = kinds.get(fold_name(column)), inputs.stored[fold_name(column)]
        if kind is None:
            problem = f"has no column {column!r}"
        elif normalise(kind) != normalise(table_kind):
            problem = f"has column {column!r} as {kind}, the table has {name!r} as {table_kind}"
        else:
            continue
        raise InputError(
            key,
            PartSchemaError(
                f"key file {key} {problem}", next_step="write it with the table's names and types"
            ),
        )


def _shapes(connection: duckdb.DuckDBPyConnection, paths: list[Path]) -> dict[str, _Shape]:
    """Return a value per file; files with the same names and types have equal values."""
    shapes: dict[str, list[tuple[object, ...]]] = defaultdict(list)
    for path, *element in connection.execute(
        "SELECT file_name, name, type, type_length, repetition_type, num_children, converted_type,"
        f" scale, precision, logical_type FROM parquet_schema({quote_list(paths)})"
    ).fetchall():
        shapes[path].append(tuple(element))
    return {path: tuple(elements) for path, elements in shapes.items()}


def _describe(connection: duckdb.DuckDBPyConnection, path: Path, key: str) -> list[tuple[str, str]]:
    """Return names (as in the file) and types (as DuckDB reads them) of a file's columns."""
    try:
        described = connection.execute(f"DESCRIBE SELECT * FROM {scan([path])}").fetchall()
        # DESCRIBE renames the second of two columns with one name.
        names = connection.execute(
            "SELECT name, num_children FROM parquet_schema(" + quote_text(str(path)) + ")"
        ).fetchall()
    except duckdb.Error as error:
        raise attribute_error({str(path): key}, error, connection) from error
    return list(zip(_top_level(names), (row[1] for row in described), strict=True))


def _top_level(rows: list[tuple[str, int | None]]) -> list[str]:
    """Return the top-level columns of a schema, whose elements are listed depth first."""
    names, skip = [], 0
    for name, children in rows[1:]:
        if skip == 0:
            names.append(name)
        else:
            skip -= 1
        skip += children or 0
    return names


def stored_types(
    connection: duckdb.DuckDBPyConnection, columns: tuple[tuple[str, str], ...], folder: Path
) -> Mapping[str, tuple[str, str]]:
    """Return fold_name -> (column, type that Parquet returns for the table's type).

    Parquet does not have every type: an ENUM is read as VARCHAR, a HUGEINT as DOUBLE. Writing a
    file without rows and reading its types avoids a list of our own.

    Args:
        connection: a database.
        columns: of the table, with its types.
        folder: scratch folder of the database, in which nothing is left.

    Raises PartSchemaError: see ``sql_type``.
    """

    def made() -> Mapping[str, tuple[str, str]]:
        path = folder / "types.parquet"
        write_no_rows(connection, columns, path)
        described = connection.execute(f"DESCRIBE SELECT * FROM {scan([path])}").fetchall()
        path.unlink()
        return {
            fold_name(name): (name, stored[1])
            for (name, _), stored in zip(columns, described, strict=True)
        }

    return _STORED.get(columns, made)


def write_no_rows(
    connection: duckdb.DuckDBPyConnection, columns: Sequence[tuple[str, str]], path: Path
) -> None:
    """Write a file without rows that has the columns of a table.

    Raises PartSchemaError: see ``sql_type``.
    """
    nulls = ", ".join(
        f"CAST(NULL AS {sql_type(connection, name, kind)}) AS {quote_name(name)}"
        for name, kind in columns
    )
    connection.execute(f"COPY (SELECT {nulls} LIMIT 0) TO {quote_text(str(path))} (FORMAT parquet)")


def scan(paths: list[Path] | tuple[Path, ...], name_column: str | None = None) -> str:
    """Return a table function that reads files of one schema, with columns from the files only.

    Args:
        paths: files.
        name_column: a column to add, with the path of each row's file.
    """
    named = f", filename = {quote_text(name_column)}" if name_column else ""
    return f"read_parquet({quote_list(list(paths))}, hive_partitioning = false{named})"


@dataclass(frozen=True, slots=True)
class Converted:
    """A column of files that is converted to another type or name."""

    column: str
    """Its earlier name in the table, or its name in the files."""
    value: str
    """Its value in a row of the files, as SQL."""
    stored: str
    """Its type in the files."""
    wanted: str
    """The target type, as DuckDB spells it."""
    exact: bool = False
    """True if the target type is wider: no value can be lost."""

    @property
    def sql(self) -> str:
        """The converted value of a row, as SQL."""
        return f"CAST({self.value} AS {self.wanted})"


@dataclass(frozen=True, slots=True)
class _Held:
    """A column of a file under the name that the table has for it."""

    name: str
    kind: str
    value: str
    """Its value in a row of the file, as SQL."""
    moved: bool
    """True if it has another name in the file."""


def fit(
    connection: duckdb.DuckDBPyConnection,
    task: KernelTask,
    key: str,
    described: Sequence[tuple[str, str]],
    sources: Sequence[Source],
    wanted: Mapping[str, tuple[str, str]],
) -> tuple[frozenset[str], dict[str, Converted]]:
    """Compare the columns of a file with the table's.

    A narrower type than the table's is accepted: it loses nothing, and an append that did not know
    of a wider one yet may have written it.

    Args:
        connection: the task's database.
        task: the group.
        key: key of the part, for errors.
        described: (name, type as DuckDB reads it) of the file's columns.
        sources: columns that have other names in the table.
        wanted: see ``inputs.stored_types``.

    Returns:
        The table's columns that the file has, by ``fold_name``, and the conversions of those that
        are not found under their own name and type.

    Raises:
        InputError: the first column that does not fit (PartSchemaError).
    """
    dropped = {fold_name(name) for name in (*task.dropped, *not_data(task, described))}
    conversions = {fold_name(each.column): each.name for each in task.conversions}
    seen: dict[str, str] = {}
    converted: dict[str, Converted] = {}
    for held in _held(described, sources):
        if fold_name(held.name) in dropped:
            continue
        target = conversions.get(fold_name(held.name))
        folded = fold_name(held.name if target is None else target)
        problem = _problem(held, folded, seen, wanted, converted=target is not None)
        if problem:
            raise InputError(key, PartSchemaError(f"part {key} {problem}", next_step=_REWRITE))
        seen[folded] = held.name
        kind = wanted[folded][1]
        if target is not None:
            kind = sql_type(connection, target, dict(task.columns)[target])
            converted[folded] = Converted(held.name, held.value, held.kind, kind)
        elif held.moved or normalise(held.kind) != normalise(kind):
            converted[folded] = Converted(held.name, held.value, held.kind, kind, exact=True)
    return frozenset(seen), converted


def not_data(task: KernelTask, described: Iterable[tuple[str, str]]) -> list[str]:
    """Return columns of a file that its path has and the table does not; they are left out."""
    of_table = {fold_name(name) for name, _ in task.columns}
    of_table |= {fold_name(each.column) for each in task.conversions}
    path = {fold_name(name) for name in path_columns(task.partition)} - of_table
    return [name for name, _ in described if fold_name(name) in path]


def _problem(
    held: _Held,
    folded: str,
    seen: dict[str, str],
    stored: Mapping[str, tuple[str, str]],
    *,
    converted: bool,
) -> str:
    name, kind = held.name, held.kind
    if folded in seen:
        return f"has the columns {seen[folded]!r} and {name!r}, which are one name in SQL"
    if folded not in stored:
        return f"has a column {name!r} ({kind}) that the table's schema does not have"
    table_kind = stored[folded][1]
    if converted or normalise(kind) == normalise(table_kind) or widens(kind, table_kind):
        return ""
    return f"has column {name!r} as {kind}, the table has it as {table_kind}"


def _held(described: Sequence[tuple[str, str]], sources: Sequence[Source]) -> list[_Held]:
    """Return the columns of a file that the table knows, under the table's names."""
    hidden = {fold_name(source.column) for source in sources}
    hidden |= {fold_name(name) for source in sources for name in source.names}
    columns = [
        _Held(name, kind, quote_name(name), False)
        for name, kind in described
        if fold_name(name) not in hidden
    ]
    by_name = {fold_name(name): (name, kind) for name, kind in described}
    for source in sources:
        there = [by_name[fold_name(name)] for name in source.names if fold_name(name) in by_name]
        if not there:
            continue
        names, kinds = [quote_name(name) for name, _ in there], [kind for _, kind in there]
        widest = next((k for k in kinds if all(k == o or widens(o, k) for o in kinds)), kinds[0])
        value = names[0] if len(names) == 1 else f"COALESCE({', '.join(names)})"
        columns.append(_Held(source.column, widest, value, True))
    return columns


def sql_type(connection: duckdb.DuckDBPyConnection, column: str, kind: str) -> str:
    """Return DuckDB's spelling of a type from a log file, which may contain any text.

    Raises:
        PartSchemaError: it is not a type.
    """
    try:
        return str(connection.sqltype(kind))
    except duckdb.Error as error:
        raise PartSchemaError(
            f"column {column!r} has the type {kind!r} in the table's schema, which DuckDB "
            f"{duckdb.__version__} does not know",
            next_step="see `firnline schema show` for the table's columns, and give this column "
            "another type with `firnline schema fix --all-parts`",
        ) from error


def attribute_error(
    keys: Mapping[str, str], error: duckdb.Error, connection: duckdb.DuckDBPyConnection
) -> InputError | duckdb.Error:
    """Attribute an error to an input: return an InputError, or the error if no input caused it.

    DuckDB names the file in most errors about one. Not in those about damage that its Parquet
    reader did not expect, which are a bare ``Error``, and about what it does not support, such as
    encryption or a map without values: then each file is read separately.

    Args:
        keys: key by staged file.
        error: the error of a statement over these files.
        connection: the connection on which it ran; it must be idle.
    """
    culprit = next((path for path in keys if path in str(error)), None)
    if culprit is None and may_be_of_a_file(error):
        for path in keys:
            alone = _read(connection, path)
            if alone is not None:
                culprit, error = path, alone
                break
        else:
            only = len(keys) == 1 and type(error) is duckdb.Error
            culprit = next(iter(keys)) if only else None
    if culprit is None:
        return error
    # It needs pyarrow, whose threads the process of a query must not have.
    from firnline.kernel.forms import odd_columns_of

    key, odd = keys[culprit], odd_columns_of(Path(culprit))
    column = None if odd else _unreadable_column(connection, culprit)
    # The scratch path means nothing to the user.
    text = str(error).replace(f'Failed to read file "{culprit}": ', "").replace(culprit, key)
    return InputError(key, unreadable(key, RuntimeError(text), odd, column))


def may_be_of_a_file(error: Exception) -> bool:
    """Return True for errors of DuckDB's Parquet reader that do not name the file."""
    return type(error) in (duckdb.Error, duckdb.InvalidInputException, duckdb.IOException)


def _unreadable_column(connection: duckdb.DuckDBPyConnection, path: str) -> str | None:
    """Return the first column that cannot be read; None if none can, or the file is none."""
    try:
        described = connection.execute(f"DESCRIBE SELECT * FROM {scan([Path(path)])}").fetchall()
    except duckdb.Error:
        return None  # not Parquet: the error that is attributed says so
    names = [row[0] for row in described]
    bad = [name for name in names if _read(connection, path, quote_name(name)) is not None]
    return bad[0] if 0 < len(bad) < len(names) else None


def _read(
    connection: duckdb.DuckDBPyConnection, path: str, columns: str = "*"
) -> duckdb.Error | None:
    """Read all of a file, or of some columns; return the error, if any."""
    try:
        rows = connection.execute(f"SELECT {columns} FROM read_parquet({quote_text(path)})")
        while rows.fetchmany(_ROWS):
            pass
    except duckdb.Error as error:
        return error
    return None
