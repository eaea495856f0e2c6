"""A data part as its writer knows it, before a log file names it."""

from __future__ import annotations

import msgspec

from firnline.types.values import Stats


class WrittenPart(msgspec.Struct, frozen=True, kw_only=True):
    """One Parquet object that exists in the store and that no log file names yet."""

    key: str
    partition: str
    """The path between ``_data/`` and the file name; empty for an unpartitioned table."""
    bytes: int
    rows: int
    stats: Stats
