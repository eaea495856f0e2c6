"""What a merge kernel takes and gives: plain data that travels between processes as JSON."""

from __future__ import annotations

import msgspec

from firnline.part import WrittenPart


class SortKey(msgspec.Struct, frozen=True):
    """One column of the sort order; nulls last either way."""

    column: str
    descending: bool = False


class KernelInput(msgspec.Struct, frozen=True, kw_only=True):
    """One part to read."""

    key: str
    bytes: int
    rows: int | None
    """From the marker; None when a foreign client wrote it (then the footer says)."""
    where_hidden: str | None = None
    """DuckDB condition that is true for rows which deletes hide in this part."""


class KernelTask(msgspec.Struct, frozen=True, kw_only=True):
    """One group: several parts of one partition become one (or, over target, a few)."""

    group: int
    partition: str
    inputs: tuple[KernelInput, ...]
    """In insertion order: among rows of one primary key the last one wins."""
    columns: tuple[tuple[str, str], ...]
    """The table's schema, (name, SQL type) in the order to write."""
    sort_by: tuple[SortKey, ...]
    stats_columns: tuple[str, ...]
    primary_key: tuple[str, ...] = ()
    version: str | None = None
    metadata: dict[str, str] = {}
    """Parquet key-value metadata (``firnline.*``) for the outputs; the kernel adds ``rows``."""
    data_prefix: str
    """Key prefix for outputs, ending in ``/``; the kernel appends ``{uuid7}.parquet``."""
    memory: int
    """``kernel_memory``: bytes the whole task may use, within a factor of 1.3."""
    threads: int
    row_group_rows: int
    compression_level: int


class KernelResult(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a group. Either parts and counts, or an error."""

    group: int
    parts: tuple[WrittenPart, ...] = ()
    rows_in: int = 0
    rows_deleted: int = 0
    """Rows that a delete hid."""
    rows_deduplicated: int = 0
    requests: dict[str, int] = {}
    seconds: float = 0.0
    error: str | None = None
    """Message of the FirnlineError that stopped the group, without its next step."""
    error_type: str | None = None
    """Class name in firnline.errors."""
    error_next_step: str | None = None
    error_key: str | None = None
    """The input at fault, when one is."""
