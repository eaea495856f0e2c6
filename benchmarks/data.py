"""The data set of the merge benchmark: seeded, made once, cached in an ignored folder.

100 snappy files, 10 M rows, one partition: ``ts`` (microseconds, UTC; file f covers ten minutes,
up to 30 s late, unsorted), ``event`` (200 values, Zipf 0.8), ``user_id`` (1 M), ``props`` (31
characters, 16 of them random) and ``value`` (log-normal, 2 decimals).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

SEED = 20_130_101
COLUMNS = (
    ("ts", "TIMESTAMP WITH TIME ZONE"),
    ("event", "VARCHAR"),
    ("user_id", "BIGINT"),
    ("props", "VARCHAR"),
    ("value", "DOUBLE"),
)
SORT = ("event", "ts")
START_US = 1_767_225_600_000_000
_ALPHABET = np.frombuffer(b"0123456789abcdef", dtype=np.uint8)


def make_table(file: int, rows: int) -> pa.Table:
    """The rows of one file; the same for the same arguments on every machine."""
    rng = np.random.default_rng([SEED, file])
    weights = 1.0 / np.arange(1, 201) ** 0.8
    start = START_US + file * 600_000_000
    ts = start + rng.integers(0, 600_000_000, rows) - rng.integers(0, 30_000_000, rows)
    event = rng.choice(200, rows, p=weights / weights.sum()).astype(np.int32)
    names = pa.array([f"event_{i:03d}" for i in range(200)])
    return pa.table(
        {
            "ts": pa.array(ts, pa.timestamp("us", tz="UTC")),
            "event": pa.DictionaryArray.from_arrays(event, names).cast(pa.string()),
            "user_id": pa.array(rng.integers(0, 1_000_000, rows)),
            "props": _props(rng, rows),
            "value": pa.array(np.round(rng.lognormal(3.0, 1.0, rows), 2)),
        }
    )


def _props(rng: np.random.Generator, rows: int) -> pa.Array:
    """``{"k":"<16 hex digits>","n":10}``: 31 characters, 16 of them random."""
    return hex_texts(rng, rows, b'{"k":"0123456789abcdef","n":10}', slice(6, 22))


def hex_texts(rng: np.random.Generator, rows: int, pattern: bytes, random: slice) -> pa.Array:
    """The pattern again and again, some of its characters replaced by random hex digits."""
    size = len(pattern)
    text = np.empty((rows, size), dtype=np.uint8)
    text[:] = np.frombuffer(pattern, dtype=np.uint8)
    text[:, random] = _ALPHABET[rng.integers(0, 16, (rows, random.stop - random.start))]
    offsets = pa.py_buffer(np.arange(0, size * (rows + 1), size, dtype=np.int32))
    return pa.StringArray.from_buffers(rows, offsets, pa.py_buffer(text.tobytes()))


def make(
    folder: Path, files: int = 100, rows: int = 100_000, *, in_order: bool = False
) -> list[Path]:
    """The files of the data set under ``folder``, written where they are missing.

    Args:
        folder: created if missing.
        files: number of them.
        rows: of each.
        in_order: each file is sorted by SORT, and says so.
    """

    def table(file: int) -> pa.Table:
        made = make_table(file, rows)
        return made.sort_by([(column, "ascending") for column in SORT]) if in_order else made

    return write(folder, files, table, SORT if in_order else ())


def write(
    folder: Path, files: int, table: Callable[[int], pa.Table], sorted_by: Sequence[str] = ()
) -> list[Path]:
    """Snappy files under ``folder``, written where they are missing.

    Args:
        folder: created if missing.
        files: number of them.
        table: the rows of a file, by its number.
        sorted_by: columns that each file says its rows are sorted by.
    """
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"part-{file:05d}.parquet" for file in range(files)]
    for file, path in enumerate(paths):
        if path.exists():
            continue
        half, rows = path.with_suffix(".tmp"), table(file)
        order = [pq.SortingColumn(rows.schema.get_field_index(name)) for name in sorted_by]
        pq.write_table(rows, half, compression="snappy", sorting_columns=order or None)
        half.rename(path)
    return paths
