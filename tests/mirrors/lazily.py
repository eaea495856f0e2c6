"""A table whose deletes wait for merges, and whose mirror has deletion vectors for them."""

from __future__ import annotations

import datetime as dt
from typing import Any

import numpy as np
import pyarrow as pa

import firnline
from firnline.appends.append import Appender
from firnline.log.txn_file import RunIdentity
from firnline.operations.delete.run import run_delete
from firnline.operations.merge.run import run_merge
from firnline.operations.mirror.check import run_check
from firnline.operations.operation import Work
from firnline.operations.options import DeleteOptions, MergeOptions, ReplaceOptions
from firnline.operations.replace.run import run_replace
from tests.mirrors.conftest import Mirrored, Rows, in_order

RUN = RunIdentity(run_id="r")
READERS = frozenset({"DataFusion", "Polars", "DuckDB, Delta"})
"""Those that know vectors, without Spark; as the table of docs/testing.md names them."""
LAZY = {
    "mirror": [{"delta": {"deletes": "vectors"}}],
    "deletes": "lazy",
    "partition_by": ["day(ts)"],
}


class Lazily(Mirrored):
    """A table whose deletes wait for merges, and whose mirror has vectors for them."""

    def table(self, **settings: Any) -> Any:
        return super().table(**{**LAZY, **settings})

    def delete(self, where: str) -> None:
        run_delete(Work(self.table(), RUN, self.engine), DeleteOptions(where=where))

    def replace(self, start: int, end: int, *ids: int) -> None:
        """Only these of the interval's rows are there afterwards, as new ones."""
        rows = pa.concat_tables([self.made(each, 1) for each in ids], promote_options="default")
        interval = ReplaceOptions(column="k", start=start, end=end)
        run_replace(Work(self.table(), RUN, self.engine), interval, data=rows)

    def merge(self) -> None:
        run_merge(Work(self.table(), RUN, self.engine), MergeOptions(full=True))

    def shown(self) -> list[int]:
        """The keys that every reader of vectors sees, after one publication."""
        assert self.publish().written
        ours = in_order(firnline.scan(self.table()).to_arrow().to_pylist())
        for reader, seen in self.seen(READERS).items():
            assert seen == ours, reader
        assert run_check(self.table()).same
        return [row["k"] for row in ours]

    def ours_of(self, *columns: str) -> Rows:
        """These columns of the rows that ``firnline read`` shows."""
        return in_order(firnline.scan(self.table(), columns=columns).to_arrow().to_pylist())


def delete_of_many(lazily: Lazily) -> None:
    """Several containers of both kinds, row groups that statistics exclude, NaN and null."""
    count = 90_000
    ids = np.arange(count)
    ratio = np.where(ids % 1_000 == 7, np.nan, ids / 2)
    given = {"k": ids, "ts": [dt.datetime(2024, 3, 5)] * count, "ratio": ratio}  # noqa: DTZ001
    Appender(lazily.table(statistics=["ratio"])).append(pa.table(given))
    lazily.delete("k between 20000 and 75000 and k != 70000")
    lazily.delete("ratio > 44990 and k < 89990")
    lazily.delete("k in (3, 65535, 65536, 80001)")
