"""Give a read to Polars as a frame; Polars is an extra, and is imported only here."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import polars as pl
import pyarrow as pa
from polars.io.plugins import register_io_source

from firnline.read.batches import stream
from firnline.read.duckdb import Limits
from firnline.read.task import ReadTask
from firnline.store.base import Store


def lazy_frame(task: ReadTask, store: Store, limits: Limits) -> pl.LazyFrame:
    """Return a frame that reads when it is collected, and only the columns its query needs."""

    def rows(
        with_columns: list[str] | None,
        predicate: pl.Expr | None,
        n_rows: int | None,
        _batch_size: int | None,
    ) -> Iterator[pl.DataFrame]:
        left = n_rows
        for batch in stream(_only(task, with_columns), store, limits):
            frame = pl.DataFrame(batch)
            if left is not None:
                frame = frame.head(left)
                left -= len(frame)
            yield frame if predicate is None else frame.filter(predicate)
            if left == 0:
                return

    nothing = stream(msgspec.structs.replace(task, parts=()), store, limits).read_all()
    schema = pl.DataFrame(nothing).schema
    return register_io_source(rows, schema=schema, explain_name="firnline")


def frame_of(rows: pa.Table) -> pl.DataFrame:
    """Return rows as a frame, with the types of ``lazy_frame``."""
    return pl.DataFrame(rows)


def _only(task: ReadTask, names: list[str] | None) -> ReadTask:
    """Return the same rows with fewer columns."""
    if not names:
        return task
    kinds = dict(task.columns)
    return msgspec.structs.replace(task, columns=tuple((name, kinds[name]) for name in names))
