# ruff: noqa: S608 -- every name and path is quoted; DuckDB is confined to this task's folder
"""Brings the rows of a group into key ranges: one file for each, read once, written once.

Memory stays within the task's however large the group is, because every range is sorted by itself
and the rows on their way are on disk.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import duckdb

from firnline.errors import KernelError
from firnline.kernel import ranges
from firnline.kernel.duckdb import quote_text, tries
from firnline.kernel.inputs import scan
from firnline.kernel.ranges import Cut, Keys
from firnline.kernel.task import Cluster, KernelTask
from firnline.types.sql import quote_name


@dataclass(frozen=True, slots=True)
class Range:
    """Rows of one output."""

    rows: str
    """Query for the columns of the table, in the order in which they are written."""
    count: int


@dataclass(frozen=True, slots=True)
class Spreader:
    """One task's ranges in its database."""

    task: KernelTask
    cluster: Cluster
    connection: duckdb.DuckDBPyConnection
    folder: Path
    stop_if_asked: Callable[[], None]

    def run(self, rows: str, count: int, staged: Sequence[Path]) -> list[Range]:
        """The ranges of a query's rows, in the order of their keys; none without a row.

        Args:
            rows: the rows that stay.
            count: how many they are.
            staged: files that are read no more once the rows are spread.

        Raises:
            KernelError: rows were lost or doubled on the way.
        """
        self.connection.execute(ranges.take_sample(self.cluster.columns, rows))
        keys = self._keys()
        with_keys = keys.rows(rows)
        if self.cluster.outputs == 1:
            return [Range(self._ordered(keys, with_keys), count)]
        sample = keys.rows(f"SELECT * FROM {ranges.SAMPLE}")
        cuts = self._cuts(keys.names, sample, self.cluster.outputs)
        if not cuts:
            return [Range(self._ordered(keys, with_keys), count)]
        number = ranges.range_number(keys, cuts)
        try:
            found = self._by_files(keys, with_keys, number, len(cuts) + 1)
            for path in staged:
                path.unlink(missing_ok=True)  # room for the sorts
        except duckdb.OutOfMemoryException:
            self.stop_if_asked()
            found = self._by_passes(keys, with_keys, number, len(cuts) + 1)
        if sum(each.count for each in found) != count:
            raise KernelError(
                f"{count} rows were to be cut into ranges, and these have "
                f"{sum(each.count for each in found)}",
                next_step="nothing was changed; report this with the log of the run",
            )
        return [each for each in found if each.count]

    def _keys(self) -> Keys:
        cluster = self.cluster
        described = self._fetch(f"DESCRIBE {ranges.SAMPLE}")
        types = [str(row[1]) for row in described]
        columns = list(zip(cluster.columns, types, strict=True))
        if cluster.method == "range":
            return Keys(tuple(cluster.columns), tuple(kind for _, kind in columns))
        name = ranges.free_name(self.task, "cluster_key")
        if cluster.method == "hash":
            listed = ", ".join(map(quote_name, cluster.columns))
            return Keys((name,), ("UBIGINT",), f"hash({listed})")
        ranks = 1 << ranges.RANK_BITS
        cuts = [
            self._cuts([column], f"SELECT * FROM {ranges.SAMPLE}", ranks) for column, _ in columns
        ]
        return Keys((name,), ("BIGINT",), ranges.z_order(columns, cuts))

    def _cuts(self, names: Sequence[str], rows: str, count: int) -> list[Cut]:
        return ranges.distinct(self._fetch(ranges.cut_points(names, rows, count)))

    def _by_files(self, keys: Keys, rows: str, number: str, count: int) -> list[Range]:
        """One pass over the rows, which writes each range to a folder of its own."""
        place, name = self.folder / "ranges", ranges.free_name(self.task, "range_number")
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
        """As many passes as ranges: rows too wide to be kept apart in memory."""
        found: list[Range] = []
        for index in range(count):
            one = f"SELECT * FROM ({rows}) WHERE {number} = {index}"
            total = int(self._fetch(f"SELECT count(*) FROM ({one})")[0][0])
            found.append(Range(self._ordered(keys, one), total))
        return found

    def _ordered(self, keys: Keys, rows: str) -> str:
        """The table's own order within a part comes first; else that of the clusters."""
        columns = ", ".join(quote_name(name) for name, _ in self.task.columns)
        order = keys.order
        if self.cluster.method == "hash":  # equal values side by side compress best
            order = ", ".join(f"{quote_name(c)} ASC NULLS LAST" for c in self.cluster.columns)
        if self.task.sort_by:
            order = ", ".join(
                f"{quote_name(key.column)} {'DESC' if key.descending else 'ASC'} NULLS LAST"
                for key in self.task.sort_by
            )
        return f"SELECT {columns} FROM ({rows}) ORDER BY {order}"

    def _fetch(self, query: str) -> list[tuple[str, ...]]:
        return self.connection.execute(query).fetchall()
