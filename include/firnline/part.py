"""A data part as its writer knows it, before a log file names it."""

from __future__ import annotations

import msgspec

Scalar = str | int | float | bool | None
"""A statistics bound as JSON holds it; docs/format.md says how each column type is written."""

Stats = dict[str, tuple[Scalar, Scalar, int]]
"""column -> (min, max, nulls). Both bounds None: no non-null value (nulls == rows)."""


class WrittenPart(msgspec.Struct, frozen=True, kw_only=True):
    """One Parquet object that exists in the store and that no log file names yet."""

    key: str
    partition: str
    """The path between ``_data/`` and the file name; empty for an unpartitioned table."""
    bytes: int
    rows: int
    stats: Stats
