"""Texts by which DuckDB answers IS NULL wrongly, unless parts are written with care.

Columns have one value and nulls; ``late`` only in some of its pages.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import duckdb
import pyarrow as pa

PLAIN = ("one", "empty", "blob", "late")
NULLS = (*PLAIN, "s.x")
"""Columns and fields that may be null."""


def with_nulls(start: int, rows: int) -> pa.Table:
    """Return rows whose texts are all alike but for ``late``, each second of them null."""
    ids = range(start, start + rows)
    texts = [f"{n:09d}" if n < start + rows // 2 else "z" for n in ids]
    return pa.table(
        {
            "id": list(ids),
            "one": [None if n % 2 else "a" for n in ids],
            "empty": [None if n % 2 else "" for n in ids],
            "blob": [None if n % 2 else b"a" for n in ids],
            "late": [None if n % 2 else text for n, text in zip(ids, texts, strict=True)],
            "s": [{"x": None if n % 2 else "a"} for n in ids],
        }
    )


def nulls_by_duckdb(path: Path, names: Sequence[str] = NULLS) -> Iterator[int]:
    """Yield how many nulls DuckDB finds in each column, asked as users ask."""
    for name in names:
        query = f"SELECT count(*) FROM read_parquet(?) WHERE {name} IS NULL"
        yield duckdb.execute(query, [str(path)]).fetchall()[0][0]
