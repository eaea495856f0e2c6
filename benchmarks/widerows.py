"""A table of a hundred columns, as those of events that a product gathers; seeded.

30 integers, 20 doubles, 30 texts of few values, 8 texts that differ in nearly every row, 6
decimals, a list of integers, a struct, a URL, and three that rows are found by: ``user_id``, ``ts``
(microseconds, UTC; a file covers ten minutes, unsorted) and ``row``, which is of one row alone.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa

from benchmarks import data

SORT = ("user_id", "ts")
_USERS = 50_000
_COUNTRIES = ("de", "fr", "nl", "pl", "us")


def make_table(file: int, rows: int) -> pa.Table:
    """The rows of one file; the same for the same arguments on every machine."""
    rng = np.random.default_rng([data.SEED, 100, file])
    start = data.START_US + file * 600_000_000
    columns: dict[str, pa.Array] = {
        "user_id": pa.array(rng.integers(0, _USERS, rows)),
        "ts": pa.array(start + rng.integers(0, 600_000_000, rows), pa.timestamp("us", tz="UTC")),
        "row": pa.array(np.arange(file * rows, (file + 1) * rows)),
    }
    for n in range(30):
        top = 10 ** (1 + n % 8)
        kind = np.int32 if n % 2 else np.int64
        columns[f"int_{n:02d}"] = pa.array(rng.integers(0, top, rows).astype(kind))
    for n in range(20):
        columns[f"double_{n:02d}"] = pa.array(np.round(rng.lognormal(3.0, 1.0, rows), 1 + n % 6))
    for n in range(30):
        columns[f"label_{n:02d}"] = _labels(rng, rows, n)
    for n in range(8):
        columns[f"text_{n}"] = data.hex_texts(rng, rows, b'{"k":"0123456789abcdef"}', slice(6, 22))
    for n in range(6):
        cents = pa.array(rng.integers(-(10**7), 10**7, rows)).cast(pa.decimal128(19, 0))
        columns[f"decimal_{n}"] = pa.Array.from_buffers(
            pa.decimal128(19, 2), rows, cents.buffers()
        ).cast(pa.decimal128(18, 2))
    columns["items"] = _items(rng, rows)
    columns["device"] = pa.StructArray.from_arrays(
        [_labels(rng, rows, 3), pa.array(rng.integers(0, 5_000, rows).astype(np.int32))],
        names=["model", "width"],
    )
    columns["url"] = _urls(rng, rows)
    return pa.table(columns)


def _labels(rng: np.random.Generator, rows: int, number: int) -> pa.Array:
    """Few values, the first of them most often; in every fifth column some are missing."""
    count = 4 + 7 * number
    weights = 1.0 / np.arange(1, count + 1)
    chosen = rng.choice(count, rows, p=weights / weights.sum()).astype(np.int32)
    missing = rng.random(rows) < 0.1 if number % 5 == 0 else None
    names = pa.array([f"value {number} of {n:03d}" for n in range(count)])
    indices = pa.array(chosen, mask=missing)
    return pa.DictionaryArray.from_arrays(indices, names).cast(pa.string())


def _items(rng: np.random.Generator, rows: int) -> pa.Array:
    """Up to four integers a row."""
    offsets = np.concatenate([[0], np.cumsum(rng.integers(0, 5, rows))]).astype(np.int32)
    values = pa.array(rng.integers(0, 10_000, int(offsets[-1])).astype(np.int32))
    return pa.ListArray.from_arrays(pa.array(offsets), values)


def _urls(rng: np.random.Generator, rows: int) -> pa.Array:
    countries = rng.integers(0, len(_COUNTRIES), rows)
    pages = rng.integers(0, 200_000, rows)
    return pa.array(
        f"https://shop.example/{_COUNTRIES[country]}/item/{page}?from=mail"
        for country, page in zip(countries.tolist(), pages.tolist(), strict=True)
    )


def make(folder: Path, files: int, rows: int) -> list[Path]:
    """The files of the table under ``folder``, snappy, written where they are missing."""
    return data.write(folder, files, lambda file: make_table(file, rows))
