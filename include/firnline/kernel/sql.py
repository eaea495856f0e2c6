# ruff: noqa: S608 -- every name and path is quoted; DuckDB is confined to this task's folder
"""The statements of a merge: text only, nothing runs here."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from firnline.kernel.duck import quote_text
from firnline.kernel.inputs import Inputs, Staged, scan
from firnline.kernel.model import KernelTask
from firnline.sql_types import fold_name, quote_name


@dataclass(frozen=True, slots=True)
class Statements:
    """One merge as SQL."""

    hidden: str | None
    """Counts the rows that deletes hide; None when no delete applies."""
    keys: str | None
    """Counts the distinct primary keys of the visible rows; None without a primary key."""
    merged: str
    """The rows of the output, in their order."""


def statements(task: KernelTask, inputs: Inputs, types: dict[str, str]) -> Statements:
    """The SQL of one task.

    Args:
        task: the group.
        inputs: its checked inputs.
        types: column -> DuckDB's spelling of its type, for columns that a file lacks.
    """
    names = [name for name, _ in task.columns]
    place = _free_name("place", names), _free_name("row", names)
    extra = place if task.primary_key else None
    with_deletes = [_select(names, types, group, extra) for group in inputs.staged]
    hidden = [
        f"SELECT 1 FROM ({rows}) WHERE ({group.where_hidden}) IS TRUE"
        for rows, group in zip(with_deletes, inputs.staged, strict=True)
        if group.where_hidden is not None
    ]
    visible = " UNION ALL ".join(
        # Three-valued logic: a row for which the condition is null stays.
        f"SELECT * FROM ({rows})"
        + (f" WHERE ({group.where_hidden}) IS NOT TRUE" if group.where_hidden else "")
        for rows, group in zip(with_deletes, inputs.staged, strict=True)
    )
    return Statements(
        hidden=f"SELECT count(*) FROM ({' UNION ALL '.join(hidden)})" if hidden else None,
        keys=_count_keys(task, visible) if task.primary_key else None,
        merged=_last_of_each_key(task, names, visible, place) + _order_by(task),
    )


def _select(
    names: list[str], types: dict[str, str], group: Staged, place: tuple[str, str] | None
) -> str:
    """All columns of the table from one scan, nulls for those the files lack."""
    columns = [
        quote_name(name) if fold_name(name) in group.columns else f"CAST(NULL AS {types[name]})"
        for name in names
    ]
    # A file may spell a column in other letters than the table.
    selected = [
        f"{column} AS {quote_name(name)}" for column, name in zip(columns, names, strict=True)
    ]
    if place is not None:
        selected += [
            f"filename AS {quote_name(place[0])}",
            f"file_row_number AS {quote_name(place[1])}",
        ]
    return f"SELECT {', '.join(selected)} FROM {scan(group.paths)}"


def _last_of_each_key(
    task: KernelTask, names: list[str], visible: str, place: tuple[str, str]
) -> str:
    """One row per primary key: the largest version, else the one inserted last.

    Staged files are named by their number, so their names sort in insertion order.
    """
    columns = ", ".join(map(quote_name, names))
    if not task.primary_key:
        return f"SELECT {columns} FROM ({visible})"
    version = [task.version] if task.version else []
    last = ", ".join(f"{quote_name(name)} DESC NULLS LAST" for name in (*version, *place))
    return (
        f"SELECT {columns} FROM ({visible}) QUALIFY row_number() OVER "
        f"(PARTITION BY {_keys(task)} ORDER BY {last}) = 1"
    )


def _count_keys(task: KernelTask, visible: str) -> str:
    """Sorted and compared with the row before: DISTINCT keeps texts in memory, sorts go to disk.

    As rows, because a lone null would not differ from the nothing before the first row.
    """
    keys = _keys(task)
    return (
        "SELECT count(*) FILTER (WHERE one IS DISTINCT FROM before) FROM "
        f"(SELECT row({keys}) AS one, lag(row({keys})) OVER (ORDER BY {keys}) AS before"
        f" FROM ({visible}))"
    )


def _keys(task: KernelTask) -> str:
    return ", ".join(map(quote_name, task.primary_key))


def _order_by(task: KernelTask) -> str:
    if not task.sort_by:
        return ""
    return " ORDER BY " + ", ".join(
        f"{quote_name(key.column)} {'DESC' if key.descending else 'ASC'} NULLS LAST"
        for key in task.sort_by
    )


def copy_to(path: Path, rows: str, task: KernelTask, row_count: int, row_group_bytes: int) -> str:
    """The statement that writes the output; its metadata is the task's and the row count."""
    metadata = {**task.metadata, "firnline.rows": str(row_count)}
    pairs = ", ".join(f"{quote_text(key)}: {quote_text(text)}" for key, text in metadata.items())
    options = (
        "FORMAT parquet",
        "COMPRESSION zstd",
        f"COMPRESSION_LEVEL {task.compression_level}",
        f"ROW_GROUP_SIZE {task.row_group_rows}",
        f"ROW_GROUP_SIZE_BYTES {row_group_bytes}",
        f"KV_METADATA {{{pairs}}}",
    )
    return f"COPY ({rows}) TO {quote_text(str(path))} ({', '.join(options)})"


def _free_name(wish: str, taken: list[str]) -> str:
    """A column name that the table does not have."""
    folded = {fold_name(name) for name in taken}
    while wish in folded:
        wish += "_"
    return wish
