"""How the columns of a file become those of the table; what does not fit is an error."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import duckdb

from firnline.errors import PartSchemaError
from firnline.kernel.staging import InputError
from firnline.kernel.task import KernelTask, Source
from firnline.paths import path_columns
from firnline.types.schema import normalise
from firnline.types.sql import fold_name, quote_name
from firnline.types.widening import widens

_REWRITE = (
    "see with `firnline verify --deep` whether other parts are like it; `firnline schema fix` with "
    "--all-parts mends a column, `firnline drop` drops the partition"
)


@dataclass(frozen=True, slots=True)
class Converted:
    """A column of files that becomes one of another type or name."""

    column: str
    """As the table called it before, or the files do."""
    value: str
    """Its value in a row of the files, as SQL."""
    stored: str
    """Its type there."""
    wanted: str
    """The type it gets, as DuckDB spells it."""
    exact: bool = False
    """Whether the type is wider: no value can be lost."""

    @property
    def sql(self) -> str:
        """The new value of a row."""
        return f"CAST({self.value} AS {self.wanted})"


@dataclass(frozen=True, slots=True)
class _Held:
    """A column of a file by the name that the table has for it."""

    name: str
    kind: str
    value: str
    """In a row of the file, as SQL."""
    moved: bool
    """Whether it has another name in the file."""


def fit(
    connection: duckdb.DuckDBPyConnection,
    task: KernelTask,
    key: str,
    described: Sequence[tuple[str, str]],
    sources: Sequence[Source],
    wanted: dict[str, tuple[str, str]],
) -> tuple[frozenset[str], dict[str, Converted]]:
    """Compare the columns of a file with the table's.

    A narrower type than the table's is taken in all the same: it loses nothing, and an append that
    had not heard of a wider one yet may have written it.

    Args:
        connection: the task's database.
        task: the group.
        key: of the part, for errors.
        described: (name, type as DuckDB reads it) of the file's columns.
        sources: which of them go by other names in the table.
        wanted: see ``inputs.stored_types``.

    Returns:
        the table's columns that the file has, by ``fold_name``, and of what those are made that
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
    """Return the columns of a file that its path has and the table does not: they are left out."""
    known = {fold_name(name) for name, _ in task.columns}
    known |= {fold_name(each.column) for each in task.conversions}
    path = {fold_name(name) for name in path_columns(task.partition)} - known
    return [name for name, _ in described if fold_name(name) in path]


def _problem(
    held: _Held,
    folded: str,
    seen: dict[str, str],
    wanted: dict[str, tuple[str, str]],
    *,
    converted: bool,
) -> str:
    name, kind = held.name, held.kind
    if folded in seen:
        return f"has the columns {seen[folded]!r} and {name!r}, which are one name in SQL"
    if folded not in wanted:
        return f"has a column {name!r} ({kind}) that the table's schema does not have"
    known = wanted[folded][1]
    if converted or normalise(kind) == normalise(known) or widens(kind, known):
        return ""
    return f"has column {name!r} as {kind}, the table has it as {known}"


def _held(described: Sequence[tuple[str, str]], sources: Sequence[Source]) -> list[_Held]:
    """The columns of a file that the table sees, under its names."""
    hidden = {fold_name(source.column) for source in sources}
    hidden |= {fold_name(name) for source in sources for name in source.names}
    found = [
        _Held(name, kind, quote_name(name), False)
        for name, kind in described
        if fold_name(name) not in hidden
    ]
    known = {fold_name(name): (name, kind) for name, kind in described}
    for source in sources:
        there = [known[fold_name(name)] for name in source.names if fold_name(name) in known]
        if not there:
            continue
        names, kinds = [quote_name(name) for name, _ in there], [kind for _, kind in there]
        widest = next((k for k in kinds if all(k == o or widens(o, k) for o in kinds)), kinds[0])
        value = names[0] if len(names) == 1 else f"COALESCE({', '.join(names)})"
        found.append(_Held(source.column, widest, value, True))
    return found


def sql_type(connection: duckdb.DuckDBPyConnection, column: str, kind: str) -> str:
    """DuckDB's own spelling of a type from a log file, which is text that anybody may write.

    Raises:
        PartSchemaError: it is not a type.
    """
    try:
        return str(connection.sqltype(kind))
    except duckdb.Error as error:
        raise PartSchemaError(
            f"column {column!r} has the type {kind!r} in the table's schema, which DuckDB "
            f"{duckdb.__version__} does not know",
            next_step="see `firnline schema show` for what the table has, and give the column "
            "another type with `firnline schema fix --all-parts`",
        ) from error
