"""Builds the SQL statements of a merge: text only, nothing is executed here."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from firnline.kernel.cuts import Keys, band
from firnline.kernel.duckdb import Try, quote_text
from firnline.kernel.inputs import Inputs, Staged, scan
from firnline.kernel.task import KernelTask, Slice
from firnline.kernel.visibility import goes, rank_in_key, stays, winners
from firnline.parquet.encodings import DICTIONARY_SHARE
from firnline.types.sql import fold_name, free_name, quote_name

# ruff: noqa: S608 -- every name and path is quoted; DuckDB is confined to this task's folder


_FILE_NUMBER = "CAST(parse_filename(filename, true) AS INTEGER)"
"""Number of a row's file, which sorts in insertion order: staged files are named by it. A number
instead of the name halves the time of ranking and joining rows by their places."""
_BYTES_PER_DISTINCT = 80
"""Bytes that DuckDB allocates per entry for an empty dictionary, whose limit is a power of 2.
Measured as the smallest sufficient ``memory_limit``: 26 MB of BIGINT, 44 MB of UUID for 524,288."""
_DECIMAL = re.compile(r"DECIMAL\s*\(.*?\)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Statements:
    """The SQL statements of one merge."""

    vanishing: str | None
    """Counts the rows hidden by deletes and keys (``deleted``) and removed by the filter
    (``removed``): rows of (which, path, count). None if neither applies. The path is empty unless
    the task is ``only_touched``."""
    primary_keys: str | None
    """Counts the distinct primary keys of the remaining rows; None without a primary key."""
    rows: str
    """The remaining rows, one per primary key, in the order of their insertion."""
    all_rows: str
    """All rows of the inputs, those that do not remain too."""
    gone: str | None = None
    """The rows that do not remain, without an order; None if there can be none."""
    losing: str | None = None
    """Counts the winning rows that are removed nevertheless: key tombstones, then rows that
    ``keep`` removes. None if neither applies."""


def statements(
    task: KernelTask, inputs: Inputs, types: dict[str, str], keys: Path | None = None
) -> Statements:
    """Return the SQL statements of one task.

    Args:
        task: the group.
        inputs: its checked inputs.
        types: DuckDB's spelling of its type by column, for columns missing in a file.
        keys: the staged key file.
    """
    names = [name for name, _ in task.columns]
    place = free_name("place", names), free_name("row", names)
    extra = place if task.primary_key else None
    key_rows = _key_rows(task, keys)
    staying = _all_staying(task, inputs, types, extra, keys)
    path = free_name("path", names) if task.only_touched else None
    gone = [
        (which, rows)
        for group in inputs.staged
        for which, rows in _gone(task, _select(task, types, group, None, path), group, key_rows)
    ]
    shown = "''" if path is None else quote_name(path)
    counts = [f"SELECT '{w}', {shown}, count(*) FROM ({rows}) GROUP BY ALL" for w, rows in gone]
    columns = ", ".join(map(quote_name, names))
    lost = [f"SELECT {columns} FROM ({rows})" for _, rows in gone]
    if task.primary_key:
        lost.append(_losers(task, names, staying, place, inputs))
    return Statements(
        vanishing=" UNION ALL ".join(counts) if counts else None,
        primary_keys=_count_keys(task, staying) if task.primary_key else None,
        rows=_last_of_each_key(task, names, staying, place, inputs),
        all_rows=" UNION ALL ".join(_select(task, types, g, None) for g in inputs.staged),
        gone=" UNION ALL ".join(lost) if lost else None,
        losing=_losing(task, staying, place, inputs),
    )


def changing(
    task: KernelTask, inputs: Inputs, types: dict[str, str], keys: Path | None = None
) -> str:
    """Return the statement that counts the rows of each file that ``changes`` is true for.

    With a primary key those of all files together, under an empty path. Arguments as of
    ``statements``.
    """
    condition = goes(str(task.changes))
    if task.primary_key:
        rows = statements(task, inputs, types, keys).rows
        return f"SELECT '', count(*) FROM ({rows}) WHERE {condition} HAVING count(*) > 0"
    path, key_rows = free_name("path", [name for name, _ in task.columns]), _key_rows(task, keys)
    visible = " UNION ALL ".join(
        _staying(task, _select(task, types, group, None, path), group, key_rows)
        for group in inputs.staged
    )
    return f"SELECT {quote_name(path)}, count(*) FROM ({visible}) WHERE {condition} GROUP BY 1"


def rows_in_all(task: KernelTask, types: dict[str, str], group: Staged) -> str:
    """Return the SELECT of the table's columns from all rows of some files."""
    return _select(task, types, group, None)


def rows_by_file(task: KernelTask, inputs: Inputs, types: dict[str, str]) -> str:
    """Return the statement that counts the rows of each file that the task works on.

    A file of which it works on no row has none.
    """
    path = free_name("path", [name for name, _ in task.columns])
    selects = (_select(task, types, group, None, path) for group in inputs.staged)
    name = quote_name(path)
    return f"SELECT {name}, count(*) FROM ({' UNION ALL '.join(selects)}) GROUP BY {name}"


def _select(
    task: KernelTask,
    types: dict[str, str],
    group: Staged,
    place: tuple[str, str] | None,
    path: str | None = None,
) -> str:
    """Select all columns of the table in one scan, null for those that the files lack.

    Of a slice, the rows that are in it.
    """
    names = [name for name, _ in task.columns]
    columns = [_column(name, types[name], group) for name in names]
    # A file may spell a column in another case than the table.
    selected = [
        f"{column} AS {quote_name(name)}" for column, name in zip(columns, names, strict=True)
    ]
    if place is not None:
        selected += [
            f"{_FILE_NUMBER} AS {quote_name(place[0])}",
            f"file_row_number AS {quote_name(place[1])}",
        ]
    if path is not None:
        selected.append(quote_name(path))
    rows = f"SELECT {', '.join(selected)} FROM {scan(group.paths, path)}"
    return rows if task.slice is None else _within(rows, task.slice, types)


def _within(rows: str, share: Slice, types: Mapping[str, str]) -> str:
    """Return the rows of a query that are in a slice; other tasks merge the rest of the group.

    A task reads the row groups that may hold its rows. They hold others too, so every scan has the
    condition of the ranges, and rows are counted by it: the slices of a group together have each
    row once, whatever the statistics of its inputs say.

    Args:
        rows: a query.
        share: the slice.
        types: DuckDB's type by column of the query.
    """
    kinds = {fold_name(name): (name, kind) for name, kind in types.items()}
    conditions: list[str] = []
    for each in share.ranges:
        column, kind = kinds[fold_name(each.column)]
        low, high = (None if end is None else (end,) for end in (each.low, each.high))
        conditions.append(band(Keys((column,), (kind,)), low, high))
    return f"SELECT * FROM ({rows}) WHERE {' AND '.join(conditions)}"


def _column(name: str, kind: str, group: Staged) -> str:
    made = group.converted.get(fold_name(name))
    if made is not None:
        return made.sql
    return quote_name(name) if fold_name(name) in group.columns else f"CAST(NULL AS {kind})"


def _key_rows(task: KernelTask, path: Path | None) -> tuple[str, str] | None:
    """Return the key file's rows as ``k``, with a condition that joins them to rows named ``r``."""
    if task.keys is None or path is None:
        return None
    names = list(map(quote_name, task.keys.columns))
    columns = ", ".join(f"{name} AS k{number}" for number, name in enumerate(names))
    equal = " AND ".join(f"r.{name} = k.k{number}" for number, name in enumerate(names))
    return f"(SELECT {columns} FROM {scan([path])}) AS k", equal


def _visible(rows: str, group: Staged, keys: tuple[str, str] | None) -> str:
    """Select rows that neither a delete nor a key hides."""
    if group.where_hidden:
        rows = f"SELECT * FROM ({rows}) WHERE {stays(group.where_hidden)}"
    if keys:
        rows = f"SELECT r.* FROM ({rows}) AS r ANTI JOIN {keys[0]} ON {keys[1]}"
    return rows


def _all_staying(
    task: KernelTask,
    inputs: Inputs,
    types: dict[str, str],
    place: tuple[str, str] | None,
    keys: Path | None,
) -> str:
    """Select the rows that no delete, key or filter takes, whatever their primary keys."""
    key_rows = _key_rows(task, keys)
    return " UNION ALL ".join(
        _staying(task, _select(task, types, group, place), group, key_rows)
        for group in inputs.staged
    )


def _staying(task: KernelTask, rows: str, group: Staged, keys: tuple[str, str] | None) -> str:
    visible = _visible(rows, group, keys)
    kept = f" WHERE ({task.keep}) IS TRUE" if task.keep and not task.keep_winners else ""
    return f"SELECT * FROM ({visible}){kept}"


def _gone(
    task: KernelTask, rows: str, group: Staged, keys: tuple[str, str] | None
) -> Iterator[tuple[str, str]]:
    """Yield the rows that ``_staying`` leaves out, with inverted conditions, and the reason."""
    if group.where_hidden:
        yield "deleted", f"SELECT * FROM ({rows}) WHERE {goes(group.where_hidden)}"
    if keys:
        left = _visible(rows, group, None)
        yield "deleted", f"SELECT r.* FROM ({left}) AS r SEMI JOIN {keys[0]} ON {keys[1]}"
    if task.keep and not task.keep_winners:
        visible = _visible(rows, group, keys)
        yield "removed", f"SELECT * FROM ({visible}) WHERE {stays(task.keep)}"


def _last_of_each_key(
    task: KernelTask, names: list[str], visible: str, place: tuple[str, str], inputs: Inputs
) -> str:
    """Select one row per primary key, unless it is removed nevertheless."""
    columns = ", ".join(map(quote_name, names))
    if not task.primary_key:
        return f"SELECT {columns} FROM ({visible})"
    losers = [piece for piece in _goes(task, place, inputs) if piece != "false"]
    kept = f" WHERE NOT ({' OR '.join(losers)})" if losers else ""
    return f"SELECT {columns} FROM ({_winners(task, visible, place)}){kept}"


def _losers(
    task: KernelTask, names: list[str], visible: str, place: tuple[str, str], inputs: Inputs
) -> str:
    """Select the rows that ``_last_of_each_key`` leaves out, with an inverted condition.

    They are ranked by keys and places alone, and looked up by their places: ranking whole rows a
    second time costs twice as much.
    """
    columns = ", ".join(f"r.{quote_name(name)}" for name in names)
    rank = rank_in_key(task.primary_key, task.version, place)
    reasons = [f"{rank} > 1", *(p for p in _goes(task, place, inputs) if p != "false")]
    at = ", ".join(map(quote_name, place))
    lost = f"SELECT {at} FROM ({visible}) QUALIFY {' OR '.join(reasons)}"
    equal = " AND ".join(f"r.{name} = l.{name}" for name in map(quote_name, place))
    return f"SELECT {columns} FROM ({visible}) AS r SEMI JOIN ({lost}) AS l ON {equal}"


def _losing(task: KernelTask, visible: str, place: tuple[str, str], inputs: Inputs) -> str | None:
    tombstone, removed = _goes(task, place, inputs)
    if not task.primary_key or tombstone == removed == "false":
        return None
    return (
        f"SELECT count(*) FILTER (WHERE {tombstone}), count(*) FILTER (WHERE {removed})"
        f" FROM ({_winners(task, visible, place)})"
    )


def _winners(task: KernelTask, visible: str, place: tuple[str, str]) -> str:
    """Select of each key the row that wins, key tombstones included."""
    return winners(visible, task.primary_key, task.version, place)


def _goes(task: KernelTask, place: tuple[str, str], inputs: Inputs) -> tuple[str, str]:
    """Return conditions of winners to remove: dropped key tombstones, rows not kept."""
    dead = f"{quote_name(task.deleted)} IS TRUE" if task.deleted else "false"
    numbers = [int(path.stem) for group in inputs.staged for path in group.paths]
    old = [str(number) for number in numbers if task.inputs[number].forget]
    tombstone = f"({dead} AND {quote_name(place[0])} IN ({', '.join(old)}))"
    return (
        tombstone if task.deleted and old else "false",
        f"(NOT {dead} AND {stays(task.keep)})" if task.keep and task.keep_winners else "false",
    )


def _count_keys(task: KernelTask, visible: str) -> str:
    """Count distinct keys by sorting: DISTINCT keeps texts in memory, sorts spill to disk.

    Each key is compared with the one before as a row value, because a single null would not differ
    from the missing value before the first row.
    """
    keys = ", ".join(map(quote_name, task.primary_key))
    return (
        "SELECT count(*) FILTER (WHERE one IS DISTINCT FROM before) FROM "
        f"(SELECT row({keys}) AS one, lag(row({keys})) OVER (ORDER BY {keys}) AS before"
        f" FROM ({visible}))"
    )


def with_nulls(rows: str, columns: int) -> str:
    """Return rows of so many columns in a form in which DuckDB expects nulls in each.

    It writes a column in which it expects none as required. All parts of a table have one Parquet
    schema instead, and can be joined.
    """
    nulls = ", ".join(["NULL"] * columns)
    never = "(SELECT random() AS number) WHERE number > 2"  # which the optimizer does not know
    return f"SELECT * FROM ({rows} UNION ALL SELECT {nulls} FROM {never})"


def in_order(task: KernelTask, rows: str, codes: Mapping[str, str]) -> str:
    """Sort rows by the table's sort order, if it has one; for ``codes`` see ``order_by``."""
    rows = with_nulls(rows, len(task.columns))
    return f"{rows} ORDER BY {order_by(task, codes)}" if task.sort_by else rows


def places(
    task: KernelTask,
    inputs: Inputs,
    types: dict[str, str],
    codes: Mapping[str, str],
    keys: Path | None = None,
) -> str:
    """Select of the remaining rows the number of their file and their place in it, in order.

    Without a sort order that of their insertion. Arguments as of ``statements`` and ``order_by``.
    """
    names = [name for name, _ in task.columns]
    place = free_name("place", names), free_name("row", names)
    staying = _all_staying(task, inputs, types, place, keys)
    rows = _last_of_each_key(task, [*names, *place], staying, place, inputs)
    columns = ", ".join(map(quote_name, place))
    order = order_by(task, codes) if task.sort_by else columns
    return f"SELECT {columns} FROM ({rows}) ORDER BY {order}"


def order_by(task: KernelTask, codes: Mapping[str, str]) -> str:
    """Return the expressions for ORDER BY of the table's sort order.

    Args:
        task: the group.
        codes: see ``sort_codes``.
    """
    return ", ".join(
        f"{_coded(key.column, codes)} {'DESC' if key.descending else 'ASC'} NULLS LAST"
        for key in task.sort_by
    )


def _coded(name: str, codes: Mapping[str, str]) -> str:
    column = quote_name(name)
    return f"CAST({column} AS {codes[name]})" if name in codes else column


def copy_to(
    path: Path,
    rows: str,
    task: KernelTask,
    metadata: dict[str, str] | None,
    how: Try,
) -> str:
    """Return the statement that writes rows to a file.

    With metadata the file is an output, in the table's format; without, it is read once more and
    deleted, so it gets fast compression.
    """
    options = [
        "FORMAT parquet",
        f"ROW_GROUP_SIZE {task.row_group_rows}",
        f"ROW_GROUP_SIZE_BYTES {how.row_group_bytes}",
    ]
    if metadata is None:
        options.append("COMPRESSION snappy")
    else:
        pairs = ", ".join(f"{quote_text(k)}: {quote_text(text)}" for k, text in metadata.items())
        options += [
            "COMPRESSION zstd",
            f"COMPRESSION_LEVEL {task.compression_level}",
            *bloom_options(task, how),
            f"KV_METADATA {{{pairs}}}",
        ]
    return f"COPY ({rows}) TO {quote_text(str(path))} ({', '.join(options)})"


def bloom_options(task: KernelTask, how: Try) -> list[str]:
    """Return bloom filter options of the COPY that writes an output.

    DuckDB writes a filter for every column chunk that has a dictionary, and for no other; the
    columns cannot be chosen. A chunk has a dictionary up to a number of distinct values, by
    default a fifth of the row group's rows.
    """
    filters = task.bloom_filters
    if filters is None:
        return ["WRITE_BLOOM_FILTER false"]
    options = [
        "WRITE_BLOOM_FILTER true",
        f"BLOOM_FILTER_FALSE_POSITIVE_RATIO {filters.false_positives}",
    ]
    limit = distinct_limit(task, how)
    if limit is not None:
        options.append(f"DICTIONARY_SIZE_LIMIT {limit}")
    return options


def distinct_limit(task: KernelTask, how: Try) -> int | None:
    """Return the maximum distinct values for a dictionary in a row group; None: DuckDB's default.

    Limited by memory, because all columns allocate theirs at once; never less than DuckDB's own
    limit.
    """
    if task.bloom_filters is None or task.bloom_filters.max_distinct is None:
        return None
    leaves = sum(_DECIMAL.sub("", kind).count(",") + 1 for _, kind in task.columns)
    fits = how.dictionary_bytes // (_BYTES_PER_DISTINCT * max(leaves, 1))
    power = 1 << (fits.bit_length() - 1) if fits else 0
    limit = min(task.bloom_filters.max_distinct, task.row_group_rows, power)
    return limit if limit >= task.row_group_rows // DICTIONARY_SHARE else None
