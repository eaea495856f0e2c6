"""Split the rows of a group by partition, one output each (``KernelTask.layout``).

The rule of a row's partition is that of appends (``parquet.partition``). Only the columns that it
needs pass through Arrow; the rows themselves stay in DuckDB's files, and are matched with the
numbers of their partitions by position. Memory stays within the task's: rows are on disk, and
numbers are written a batch at a time. What was split is checked by the same rule once more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from firnline.errors import KernelError
from firnline.kernel.inputs import scan
from firnline.kernel.ranges import Range, split
from firnline.kernel.sql import in_order
from firnline.kernel.task import KernelTask, Layout
from firnline.next_steps import REPORT_UNCHANGED
from firnline.parquet.partition import partition_codes
from firnline.types.sql import free_name, quote_name

# ruff: noqa: S608 -- every name and path is quoted; DuckDB is confined to this task's folder

_BATCH = 65_536


@dataclass(frozen=True, slots=True)
class Partitioner:
    """Splits the rows of one task by partition, in its database."""

    task: KernelTask
    layout: Layout
    connection: duckdb.DuckDBPyConnection
    folder: Path
    stop_if_asked: Callable[[], None]
    copy: Callable[[Path, str], int]
    """Writes the rows of a query to a file that is read once more; returns their number."""
    codes: Mapping[str, str]
    """See ``sort_codes``."""

    def run(self, rows: str, count: int, staged: Sequence[Path]) -> list[Range] | None:
        """Return the rows of each partition; None if all belong to the task's own.

        Args:
            rows: query for the rows that stay.
            count: their number.
            staged: files that are not needed any more once the rows are written anew.

        Raises:
            KernelError: rows were lost, doubled or put into a wrong partition.
            UsageError: a value is too long for a directory, or has a type that has none.
        """
        visible = self.folder / "visible.parquet"
        written = self.copy(visible, rows)
        for path in staged:
            path.unlink(missing_ok=True)  # room for what follows
        numbers = self.folder / "numbers.parquet"
        name = free_name("partition_number", dict(self.task.columns))
        paths = self._number(visible, numbers, name)
        if paths == [self.task.partition]:
            return None
        place = self.folder / "partitions"
        query = f"SELECT * FROM {scan([visible])} POSITIONAL JOIN {scan([numbers])}"
        split(self.connection, self.task, query, place, name, self.stop_if_asked)
        visible.unlink()
        ranges = list(self._ranges(place, name, paths))
        total = sum(each.count or 0 for each in ranges)
        if not count == written == total:
            raise KernelError(
                f"{count} rows were to be put into partitions, and these have {total}",
                next_step=REPORT_UNCHANGED,
            )
        return ranges

    def _number(self, visible: Path, numbers: Path, name: str) -> list[str]:
        """Write the number of each row's partition, in the order of the rows; return the paths."""
        numbered = _Paths()
        schema = pa.schema([(name, pa.int64())])
        with pq.ParquetWriter(numbers, schema, compression="snappy") as writer:
            for codes, paths in self._codes(visible):
                own = np.array([numbered.number(path) for path in paths], np.int64)
                writer.write_table(pa.table({name: own[codes]}, schema=schema))
        return numbered.paths

    def _codes(self, path: Path) -> Iterator[tuple[np.ndarray, list[str]]]:
        fields = self.layout.levels
        columns = list(dict.fromkeys(field.column for field in fields))
        # Buffering ahead would keep the column of all row groups in memory.
        with pq.ParquetFile(path, pre_buffer=False) as file:
            for batch in file.iter_batches(_BATCH, columns=columns):
                self.stop_if_asked()
                if batch.num_rows:
                    yield partition_codes(pa.Table.from_batches([batch]), fields)

    def _ranges(self, place: Path, name: str, paths: Sequence[str]) -> Iterator[Range]:
        columns = ", ".join(quote_name(column) for column, _ in self.task.columns)
        for number, partition in enumerate(paths):
            files = sorted((place / f"{name}={number}").glob("*.parquet"))
            for file in files:
                wrong = {path for _, in_file in self._codes(file) for path in in_file} - {partition}
                if wrong:
                    raise KernelError(
                        f"rows of partition {min(wrong)!r} were put into {partition!r}",
                        next_step=REPORT_UNCHANGED,
                    )
            source = scan(files)
            total = self.connection.execute(f"SELECT count(*) FROM {source}").fetchall()[0][0]
            rows = in_order(self.task, f"SELECT {columns} FROM {source}", self.codes)
            yield Range(rows, int(total), tuple(files), partition=partition)


@dataclass(slots=True)
class _Paths:
    """Paths of partitions, numbered in the order in which they were met."""

    numbers: dict[str, int] = field(default_factory=dict)

    @property
    def paths(self) -> list[str]:
        return list(self.numbers)

    def number(self, path: str) -> int:
        return self.numbers.setdefault(path, len(self.numbers))
