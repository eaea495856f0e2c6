"""Split the rows of a group into key ranges: one output each, or pieces of a sort.

Cut points are quantiles of a sample of the keys. Every row is in exactly one range whatever the
cut points are: a range is the number of the first cut point that the row is below, nulls being
above everything. Rows are read once and written once, into one file per range; memory stays within
the task's however large the group is, because every range is sorted separately and intermediate
rows are on disk.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import duckdb

from firnline.errors import KernelError
from firnline.kernel.cuts import Cut, Keys, bands, distinct, literal, range_number
from firnline.kernel.duckdb import quote_list, quote_text, tries
from firnline.kernel.inputs import scan
from firnline.kernel.sql import order_by, with_nulls
from firnline.kernel.task import Cluster, KernelTask
from firnline.next_steps import REPORT_UNCHANGED
from firnline.types.hashes import Hashes, HashRange
from firnline.types.sql import free_name, quote_name
from firnline.types.values import WITHOUT_BOUNDS

# ruff: noqa: S608 -- every name and literal is quoted; DuckDB is confined to this task's folder

_MOST_PASSES = 8.0
"""Mean number of passes that read a row, up to which passes are cheaper than files. Measured in
docs/rfcs/0007."""
SAMPLE_ROWS = 20_000
"""Number of sampled keys: the error of a range's share is about 1 %."""
RANK_BITS = 6
"""Bits per column of a z-order: 64 ranks, so that 2 columns distinguish 4,096 cells. More would
cost DuckDB more time in planning than they save in reading."""
SAMPLE = "firnline_sample"


@dataclass(frozen=True, slots=True)
class Range:
    """The rows of one output."""

    rows: str
    """Query for the columns of the table, in the order in which they are written."""
    count: int | None
    """None: not counted; who writes all ranges has to compare the sum."""
    files: tuple[Path, ...] = ()
    """Files that hold these rows and no others."""
    hashes: Hashes = ()
    """Hash range of these rows, where they were spread by hash."""
    number: int = 0
    """Place of the range among all, empty ones included."""
    partition: str | None = None
    """Partition of the output; None for that of the task."""


@dataclass(frozen=True, slots=True)
class Spreader:
    """Splits the rows of one task into ranges, in its database."""

    task: KernelTask
    cluster: Cluster
    connection: duckdb.DuckDBPyConnection
    folder: Path
    stop_if_asked: Callable[[], None]
    codes: Mapping[str, str]
    """See ``sort_codes``."""
    descending: tuple[bool, ...] = ()
    """With the method ``range``: the order of each column; empty: all ascending."""
    pieces: bool = False
    """The ranges are pieces of one file: they are not counted where that would be a pass of its
    own."""
    at_once: bool = False
    """Do not write rows to files of their ranges, but leave them in one range."""

    def run(self, rows: str, count: int, staged: Sequence[Path]) -> list[Range]:
        """Return the ranges of a query's rows, in the order of their keys; none without rows.

        Args:
            rows: the rows that stay.
            count: their number.
            staged: files that are not needed any more once the rows are split.

        Raises:
            KernelError: rows were lost or doubled.
        """
        self.connection.execute(take_sample(self.cluster.columns, rows))
        keys = self._keys()
        with_keys = keys.rows(rows)
        if self.cluster.outputs == 1:
            return [Range(self._ordered(keys, with_keys), count)]
        sample = keys.rows(f"SELECT * FROM {SAMPLE}")
        cuts = self._cuts(keys, sample, self.cluster.outputs)
        if not cuts or (self.at_once and not self._are_bands_cheap(keys, cuts, staged)):
            return [Range(self._ordered(keys, with_keys), count)]
        ranges = self._split(keys, with_keys, cuts, staged)
        counts = [each.count for each in ranges if each.count is not None]
        if len(counts) == len(ranges) and sum(counts) != count:
            raise KernelError(
                f"{count} rows were to be split into ranges, and these have {sum(counts)}",
                next_step=REPORT_UNCHANGED,
            )
        return [
            replace(each, hashes=keys.hashes(cuts, each.number))
            for each in ranges
            if each.count != 0
        ]

    def _split(
        self, keys: Keys, rows: str, cuts: Sequence[Cut], staged: Sequence[Path]
    ) -> list[Range]:
        if self._are_bands_cheap(keys, cuts, staged):
            return self._by_passes(keys, rows, bands(keys, cuts))
        number = range_number(keys, cuts)
        try:
            ranges = self._by_files(keys, rows, number, len(cuts) + 1)
        except duckdb.OutOfMemoryException:
            self.stop_if_asked()
            passes = [f"{number} = {index}" for index in range(len(cuts) + 1)]
            return self._by_passes(keys, rows, passes)
        for path in staged:
            path.unlink(missing_ok=True)  # room for the sorts
        return ranges

    def _are_bands_cheap(self, keys: Keys, cuts: Sequence[Cut], staged: Sequence[Path]) -> bool:
        """Return True if a pass per range reads little more than its rows, by the statistics.

        So it is with inputs that are sorted or lie apart; a row group is read by every pass whose
        range it overlaps, and writing the rows to files of their ranges reads and writes them once
        more.
        """
        if keys.made is not None or self.task.primary_key or self.task.query is not None:
            return False  # no bounds of them, or a pass is more than a scan
        if not WITHOUT_BOUNDS.isdisjoint(keys.types):
            return False  # DuckDB would skip row groups with NaN, which their bounds leave out
        overlaps = row_group_overlaps(keys, cuts[::-1] if keys.is_descending(0) else cuts, staged)
        passes: float | None = self.connection.execute(overlaps).fetchall()[0][0]
        return passes is not None and passes <= _MOST_PASSES

    def _keys(self) -> Keys:
        cluster = self.cluster
        described = self._fetch(f"DESCRIBE {SAMPLE}")
        types = [str(row[1]) for row in described]
        columns = list(zip(cluster.columns, types, strict=True))
        if cluster.method == "range":
            kinds = tuple(kind for _, kind in columns)
            return Keys(tuple(cluster.columns), kinds, descending=self.descending)
        name = free_name("cluster_key", dict(self.task.columns))
        if cluster.method == "hash":
            # It needs numpy, which executors have only where they hash.
            from firnline.kernel.hashes import forms_of, hash_expression

            forms = forms_of(types)
            if forms is not None:
                made = hash_expression(self.connection, cluster.columns, forms)
                hashed = HashRange(cluster.columns, forms, 0, 0, 0)
                return Keys((name,), ("UINTEGER",), made, hashed=hashed)
            listed = ", ".join(map(quote_name, cluster.columns))
            return Keys((name,), ("UBIGINT",), f"hash({listed})")
        ranks = 1 << RANK_BITS
        cuts = [
            self._cuts(Keys((column,), ()), f"SELECT * FROM {SAMPLE}", ranks)
            for column, _ in columns
        ]
        return Keys((name,), ("BIGINT",), z_order(columns, cuts, cluster.narrowed))

    def _cuts(self, keys: Keys, rows: str, count: int) -> list[Cut]:
        return distinct(self._fetch(cut_points(keys, rows, count)))

    def _by_files(self, keys: Keys, rows: str, number: str, count: int) -> list[Range]:
        """Split the rows in one pass, which writes each range to a folder of its own."""
        place, name = self.folder / "ranges", free_name("range_number", dict(self.task.columns))
        query = f"SELECT *, {number} AS {quote_name(name)} FROM ({rows})"
        split(self.connection, self.task, query, place, name, self.stop_if_asked)
        ranges: list[Range] = []
        for index in range(count):
            files = sorted((place / f"{name}={index}").glob("*.parquet"))
            if files:
                source = scan(files)
                total = self._fetch(f"SELECT count(*) FROM {source}")[0][0]
                ordered = self._ordered(keys, f"SELECT * FROM {source}")
                ranges.append(Range(ordered, int(total), tuple(files), number=index))
        return ranges

    def _by_passes(self, keys: Keys, rows: str, conditions: Sequence[str]) -> list[Range]:
        """Split the rows in one pass per range.

        For inputs of which a pass reads a share, and for rows too wide to keep the ranges in
        memory.
        """
        ranges: list[Range] = []
        for index, condition in enumerate(conditions):
            one = f"SELECT * FROM ({rows}) WHERE {condition}"
            total = (
                int(self._fetch(f"SELECT count(*) FROM ({one})")[0][0]) if not self.pieces else None
            )
            ranges.append(Range(self._ordered(keys, one), total, number=index))
        return ranges

    def _ordered(self, keys: Keys, rows: str) -> str:
        """Sort rows by the table's own order if it has one, else by the cluster keys."""
        columns = ", ".join(quote_name(name) for name, _ in self.task.columns)
        order = keys.order
        if self.cluster.method == "hash":  # equal values next to each other compress best
            order = ", ".join(f"{quote_name(c)} ASC NULLS LAST" for c in self.cluster.columns)
        if self.task.sort_by:
            order = order_by(self.task, self.codes)
        made = "" if keys.made is None else f", {quote_name(keys.names[0])}"
        rows = with_nulls(
            f"SELECT {columns}{made} FROM ({rows})", len(self.task.columns) + bool(made)
        )
        return f"SELECT {columns} FROM ({rows}) ORDER BY {order}"

    def _fetch(self, query: str) -> list[tuple[str, ...]]:
        return self.connection.execute(query).fetchall()


def split(
    connection: duckdb.DuckDBPyConnection,
    task: KernelTask,
    query: str,
    place: Path,
    name: str,
    stop_if_asked: Callable[[], None],
) -> None:
    """Write rows in one pass to folders ``{place}/{name}={number}``, without the number.

    Args:
        connection: database of the task.
        task: its memory and threads bound the pass.
        query: the rows, with a column ``name`` of numbers.
        place: folder, which is made; nothing is left of it after an error.
        name: of the column.
        stop_if_asked: called before a second attempt with less memory.

    Raises duckdb.OutOfMemoryException: the rows are too wide to keep those of all numbers.
    """
    first, last = tries(task.memory, task.threads)
    try:
        _write(connection, query, place, name, first.row_group_bytes)
    except duckdb.OutOfMemoryException:
        stop_if_asked()
        shutil.rmtree(place, ignore_errors=True)
        connection.execute(f"SET threads = {last.threads}")
        try:
            _write(connection, query, place, name, last.row_group_bytes)
        except duckdb.OutOfMemoryException:
            shutil.rmtree(place, ignore_errors=True)
            raise


def _write(
    connection: duckdb.DuckDBPyConnection, query: str, place: Path, name: str, group_bytes: int
) -> None:
    connection.execute(
        f"COPY ({query}) TO {quote_text(str(place))} (FORMAT parquet, COMPRESSION snappy,"
        f" PARTITION_BY ({quote_name(name)}), ROW_GROUP_SIZE 20480,"
        f" ROW_GROUP_SIZE_BYTES {group_bytes})"
    )


def take_sample(columns: Sequence[str], rows: str) -> str:
    """Return the statement that stores a random sample of a query's rows as table ``SAMPLE``."""
    listed = ", ".join(map(quote_name, columns))
    return (
        f"CREATE OR REPLACE TEMP TABLE {SAMPLE} AS SELECT {listed} FROM ({rows})"
        f" USING SAMPLE reservoir({SAMPLE_ROWS} ROWS) REPEATABLE (1)"
    )


def cut_points(keys: Keys, rows: str, count: int) -> str:
    """Return the query for the ``count - 1`` cut points of ``count`` equal shares of a sample.

    Args:
        keys: key columns.
        rows: the sample, with these columns.
        count: number of ranges.
    """
    names, order = ", ".join(map(quote_name, keys.names)), keys.order
    texts = ", ".join(f"CAST({quote_name(name)} AS VARCHAR)" for name in keys.names)
    share = f"number * {count} // total"
    return (
        f"WITH ranked AS (SELECT {names}, row_number() OVER (ORDER BY {order}) - 1 AS number,"
        f" count(*) OVER () AS total FROM ({rows}))"
        f" SELECT {texts} FROM ranked"
        f" WHERE number > 0 AND {share} > (number - 1) * {count} // total ORDER BY number"
    )


def z_order(
    columns: Sequence[tuple[str, str]],
    cuts: Sequence[Sequence[Cut]],
    narrowed: Sequence[float] = (),
) -> str:
    """Return an expression that interleaves the bits of the columns' ranks.

    The next bit is always of the column whose values have been halved least, the first of several.

    Args:
        columns: (name, type) of each.
        cuts: for each the cut points between its ranks.
        narrowed: how often the values of each have been halved already; empty: never.
    """
    pieces = [
        _rank(name, kind, [cut[0] for cut in points if cut[0] is not None], weights)
        for (name, kind), points, weights in zip(
            columns, cuts, _weights(narrowed or [0] * len(columns)), strict=True
        )
    ]
    return f"CAST({' + '.join(pieces)} AS BIGINT)"


def _weights(narrowed: Sequence[float]) -> list[list[int]]:
    """Return for each column the values of the bits of its rank in a z-order, the top one first."""
    halvings = sorted(
        (before + level, place)
        for place, before in enumerate(narrowed)
        for level in range(RANK_BITS)
    )
    weights: list[list[int]] = [[] for _ in narrowed]
    for bit, (_, place) in enumerate(halvings, 1):
        weights[place].append(1 << (len(halvings) - bit))
    return weights


def _rank(name: str, kind: str, cuts: Sequence[str], weights: Sequence[int]) -> str:
    """Return an expression for the spread bits of a rank: a binary search in the cut points."""
    top = (1 << RANK_BITS) - 1

    def leaf(rank: int) -> int:
        scaled = rank * top // len(cuts) if cuts else 0
        return sum(weight for bit, weight in enumerate(reversed(weights)) if scaled >> bit & 1)

    def search(low: int, high: int) -> str:
        if low == high:
            return str(leaf(low))
        middle = (low + high + 1) // 2
        above, below = search(middle, high), search(low, middle - 1)
        bound = literal(cuts[middle - 1], kind)
        return f"CASE WHEN {quote_name(name)} >= {bound} THEN {above} ELSE {below} END"

    return (
        f"CASE WHEN {quote_name(name)} IS NULL THEN {sum(weights)} ELSE {search(0, len(cuts))} END"
    )


def row_group_overlaps(keys: Keys, ascending: Sequence[Cut], paths: Sequence[Path]) -> str:
    """Return the query for the mean number of ranges that a row of these files is read for.

    Null where a row group has no bounds of the first column: then nothing can be skipped.

    Args:
        keys: the keys.
        ascending: cut points, the smallest first.
        paths: the files.
    """
    name, kind = keys.names[0], keys.types[0]
    values = [cut[0] for cut in ascending if cut[0] is not None]
    low, high = (f"TRY_CAST(stats_{end}_value AS {kind})" for end in ("min", "max"))
    # The ranges between which a row group lies: those that begin after its least value and not
    # after its greatest are read besides the one with its least value.
    crossed = "".join(
        f" + CASE WHEN low <= {one} AND {one} <= high THEN 1 ELSE 0 END"
        for one in (literal(cut, kind) for cut in values)
    )
    chunks = (
        f"SELECT row_group_num_rows AS rows, {low} AS low, {high} AS high"
        f" FROM parquet_metadata({quote_list(list(paths))})"
        f" WHERE lower(path_in_schema) = {quote_text(name.lower())}"
    )
    unknown = "count(*) = 0 OR count(low) < count(*) OR count(high) < count(*)"
    mean = f"sum(rows * (1{crossed})) / sum(rows)"
    return f"SELECT CASE WHEN {unknown} THEN NULL ELSE {mean} END FROM ({chunks})"
