"""Split the rows of a group into key ranges, one output each (``cluster_by``).

Cut points are quantiles of a sample of the keys. Every row is in exactly one range whatever the
cut points are: a range is the number of the first cut point that the row is below, nulls being
above everything. Rows are read once and written once, into one file per range; memory stays within
the task's however large the group is, because every range is sorted separately and intermediate
rows are on disk.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import duckdb

from firnline.errors import KernelError
from firnline.kernel.duckdb import quote_text, tries
from firnline.kernel.inputs import scan
from firnline.kernel.task import Cluster, KernelTask
from firnline.types.sql import free_name, quote_name

# ruff: noqa: S608 -- every name and literal is quoted; DuckDB is confined to this task's folder


@dataclass(frozen=True, slots=True)
class Range:
    """The rows of one output."""

    rows: str
    """Query for the columns of the table, in the order in which they are written."""
    count: int


@dataclass(frozen=True, slots=True)
class Spreader:
    """Splits the rows of one task into ranges, in its database."""

    task: KernelTask
    cluster: Cluster
    connection: duckdb.DuckDBPyConnection
    folder: Path
    stop_if_asked: Callable[[], None]

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
        cuts = self._cuts(keys.names, sample, self.cluster.outputs)
        if not cuts:
            return [Range(self._ordered(keys, with_keys), count)]
        number = range_number(keys, cuts)
        try:
            found = self._by_files(keys, with_keys, number, len(cuts) + 1)
            for path in staged:
                path.unlink(missing_ok=True)  # room for the sorts
        except duckdb.OutOfMemoryException:
            self.stop_if_asked()
            found = self._by_passes(keys, with_keys, number, len(cuts) + 1)
        if sum(each.count for each in found) != count:
            raise KernelError(
                f"{count} rows were to be split into ranges, and these have "
                f"{sum(each.count for each in found)}",
                next_step="nothing was changed; report this with the log of the run",
            )
        return [each for each in found if each.count]

    def _keys(self) -> Keys:
        cluster = self.cluster
        described = self._fetch(f"DESCRIBE {SAMPLE}")
        types = [str(row[1]) for row in described]
        columns = list(zip(cluster.columns, types, strict=True))
        if cluster.method == "range":
            return Keys(tuple(cluster.columns), tuple(kind for _, kind in columns))
        name = free_name("cluster_key", dict(self.task.columns))
        if cluster.method == "hash":
            listed = ", ".join(map(quote_name, cluster.columns))
            return Keys((name,), ("UBIGINT",), f"hash({listed})")
        ranks = 1 << RANK_BITS
        cuts = [self._cuts([column], f"SELECT * FROM {SAMPLE}", ranks) for column, _ in columns]
        return Keys((name,), ("BIGINT",), z_order(columns, cuts))

    def _cuts(self, names: Sequence[str], rows: str, count: int) -> list[Cut]:
        return distinct(self._fetch(cut_points(names, rows, count)))

    def _by_files(self, keys: Keys, rows: str, number: str, count: int) -> list[Range]:
        """Split the rows in one pass, which writes each range to a folder of its own."""
        place, name = self.folder / "ranges", free_name("range_number", dict(self.task.columns))
        first, last = tries(self.task.memory, self.task.threads)
        query = f"SELECT *, {number} AS {quote_name(name)} FROM ({rows})"
        try:
            self._partition(query, place, name, first.row_group_bytes)
        except duckdb.OutOfMemoryException:
            self.stop_if_asked()
            shutil.rmtree(place, ignore_errors=True)
            self.connection.execute(f"SET threads = {last.threads}")
            try:
                self._partition(query, place, name, last.row_group_bytes)
            except duckdb.OutOfMemoryException:
                shutil.rmtree(place, ignore_errors=True)
                raise
        found: list[Range] = []
        for index in range(count):
            files = sorted((place / f"{name}={index}").glob("*.parquet"))
            if files:
                source = scan(files)
                total = self._fetch(f"SELECT count(*) FROM {source}")[0][0]
                found.append(Range(self._ordered(keys, f"SELECT * FROM {source}"), int(total)))
        return found

    def _partition(self, query: str, place: Path, name: str, row_group_bytes: int) -> None:
        self.connection.execute(
            f"COPY ({query}) TO {quote_text(str(place))} (FORMAT parquet, COMPRESSION snappy,"
            f" PARTITION_BY ({quote_name(name)}), ROW_GROUP_SIZE 20480,"
            f" ROW_GROUP_SIZE_BYTES {row_group_bytes})"
        )

    def _by_passes(self, keys: Keys, rows: str, number: str, count: int) -> list[Range]:
        """Split the rows in one pass per range: for rows too wide to keep the ranges in memory."""
        found: list[Range] = []
        for index in range(count):
            one = f"SELECT * FROM ({rows}) WHERE {number} = {index}"
            total = int(self._fetch(f"SELECT count(*) FROM ({one})")[0][0])
            found.append(Range(self._ordered(keys, one), total))
        return found

    def _ordered(self, keys: Keys, rows: str) -> str:
        """Sort rows by the table's own order if it has one, else by the cluster keys."""
        columns = ", ".join(quote_name(name) for name, _ in self.task.columns)
        order = keys.order
        if self.cluster.method == "hash":  # equal values next to each other compress best
            order = ", ".join(f"{quote_name(c)} ASC NULLS LAST" for c in self.cluster.columns)
        if self.task.sort_by:
            order = ", ".join(
                f"{quote_name(key.column)} {'DESC' if key.descending else 'ASC'} NULLS LAST"
                for key in self.task.sort_by
            )
        return f"SELECT {columns} FROM ({rows}) ORDER BY {order}"

    def _fetch(self, query: str) -> list[tuple[str, ...]]:
        return self.connection.execute(query).fetchall()


SAMPLE_ROWS = 20_000
"""Number of sampled keys: the error of a range's share is about 1 %."""
RANK_BITS = 6
"""Bits per column of a z-order: 64 ranks, so that 2 columns distinguish 4,096 cells. More would
cost DuckDB more time in planning than they save in reading."""

SAMPLE = "firnline_sample"

Cut = tuple[str | None, ...]
"""One value per key column, as text."""


@dataclass(frozen=True, slots=True)
class Keys:
    """The keys by which rows are clustered."""

    names: tuple[str, ...]
    """Names of the key columns."""
    types: tuple[str, ...]
    made: str | None = None
    """Expression of the single key column; None: they are columns of the table."""

    def rows(self, rows: str) -> str:
        """Return rows with their key columns."""
        if self.made is None:
            return rows
        return f"SELECT *, {self.made} AS {quote_name(self.names[0])} FROM ({rows})"

    @property
    def order(self) -> str:
        """The expressions for ORDER BY."""
        return ", ".join(f"{quote_name(name)} ASC NULLS LAST" for name in self.names)


def take_sample(columns: Sequence[str], rows: str) -> str:
    """Return the statement that stores a random sample of a query's rows as table ``SAMPLE``."""
    listed = ", ".join(map(quote_name, columns))
    return (
        f"CREATE TEMP TABLE {SAMPLE} AS SELECT {listed} FROM ({rows})"
        f" USING SAMPLE reservoir({SAMPLE_ROWS} ROWS) REPEATABLE (1)"
    )


def cut_points(names: Sequence[str], rows: str, count: int) -> str:
    """Return the query for the ``count - 1`` cut points of ``count`` equal shares of a sample.

    Args:
        names: key columns.
        rows: the sample, with these columns.
        count: number of ranges.
    """
    keys = ", ".join(map(quote_name, names))
    order = ", ".join(f"{quote_name(name)} ASC NULLS LAST" for name in names)
    texts = ", ".join(f"CAST({quote_name(name)} AS VARCHAR)" for name in names)
    share = f"number * {count} // total"
    return (
        f"WITH ranked AS (SELECT {keys}, row_number() OVER (ORDER BY {order}) - 1 AS number,"
        f" count(*) OVER () AS total FROM ({rows}))"
        f" SELECT {texts} FROM ranked"
        f" WHERE number > 0 AND {share} > (number - 1) * {count} // total ORDER BY number"
    )


def distinct(cuts: Sequence[Cut]) -> list[Cut]:
    """Return cut points without repetitions: no row would lie between equal ones."""
    return list(dict.fromkeys(cuts))


def range_number(keys: Keys, cuts: Sequence[Cut]) -> str:
    """Return the expression for the range of a row, 0 to ``len(cuts)``."""
    cases = " ".join(
        f"WHEN NOT {_at_or_above(keys.names, keys.types, cut)} THEN {number}"
        for number, cut in enumerate(cuts)
    )
    return f"CASE {cases} ELSE {len(cuts)} END" if cuts else "0"


def z_order(columns: Sequence[tuple[str, str]], cuts: Sequence[Sequence[Cut]]) -> str:
    """Return an expression that interleaves the bits of the columns' ranks, the first on top.

    Args:
        columns: (name, type) of each.
        cuts: for each the cut points between its ranks.
    """
    count = len(columns)
    pieces = [
        _rank(name, kind, [cut[0] for cut in points if cut[0] is not None], count, place)
        for place, ((name, kind), points) in enumerate(zip(columns, cuts, strict=True))
    ]
    return f"CAST({' + '.join(pieces)} AS BIGINT)"


def _rank(name: str, kind: str, cuts: Sequence[str], count: int, place: int) -> str:
    """Return an expression for the spread bits of a rank: a binary search in the cut points."""
    top = (1 << RANK_BITS) - 1

    def leaf(rank: int) -> int:
        scaled = rank * top // len(cuts) if cuts else 0
        return sum(
            (scaled >> bit & 1) << (bit * count + count - 1 - place) for bit in range(RANK_BITS)
        )

    def search(low: int, high: int) -> str:
        if low == high:
            return str(leaf(low))
        middle = (low + high + 1) // 2
        above, below = search(middle, high), search(low, middle - 1)
        bound = literal(cuts[middle - 1], kind)
        return f"CASE WHEN {quote_name(name)} >= {bound} THEN {above} ELSE {below} END"

    nulls = sum(1 << (bit * count + count - 1 - place) for bit in range(RANK_BITS))
    return f"CASE WHEN {quote_name(name)} IS NULL THEN {nulls} ELSE {search(0, len(cuts))} END"


def _at_or_above(names: Sequence[str], types: Sequence[str], cut: Cut) -> str:
    """Return a condition that a row's key is at or above a cut point; true or false, never null."""
    if not names:
        return "true"
    column, rest = quote_name(names[0]), _at_or_above(names[1:], types[1:], cut[1:])
    if cut[0] is None:
        return f"({column} IS NULL AND {rest})"
    value = literal(cut[0], types[0])
    return f"({column} IS NULL OR {column} > {value} OR ({column} = {value} AND {rest}))"


def literal(text: str, kind: str) -> str:
    """Return a value as a literal, from its text."""
    # A NUL character ends the statement for DuckDB's parser.
    pieces = ["'" + piece.replace("'", "''") + "'" for piece in text.split("\0")]
    return f"CAST(({' || chr(0) || '.join(pieces)}) AS {kind})"


# ruff: noqa: S608 -- every name and path is quoted; DuckDB is confined to this task's folder
