"""What a merge kernel takes and gives: plain data that travels between processes as JSON."""

from __future__ import annotations

from typing import Literal

import msgspec

from firnline.parquet.part import WrittenPart


class SortKey(msgspec.Struct, frozen=True):
    """One column of the sort order; nulls last either way."""

    column: str
    descending: bool = False


class Source(msgspec.Struct, frozen=True, kw_only=True):
    """A column of the table that a part holds under other names, or does not show."""

    column: str
    """Of the table."""
    names: tuple[str, ...]
    """In the part; of several the first that has a value counts. None: every row has a null, and
    what the part holds as ``column`` is not looked at."""


class KernelInput(msgspec.Struct, frozen=True, kw_only=True):
    """One part to read."""

    key: str
    bytes: int
    rows: int | None
    """From the marker; None when a foreign client wrote it (then the footer says)."""
    where_hidden: str | None = None
    """DuckDB condition that is true for rows which deletes hide in this part."""
    order: tuple[int, int] | None = None
    """Its insertion order, unix ms; needed with ``only_touched``, where the kernel decides of what
    the output is made."""
    sources: tuple[Source, ...] = ()
    """Of columns that are not found under their own names; ``log.schema_changes`` says which."""
    forget: bool = False
    """Key tombstones of this part that win go too: nothing older is left for them to hide."""


class Conversion(msgspec.Struct, frozen=True, kw_only=True):
    """A column of the inputs that the output has in another type or under another name.

    A value that the other type cannot hold exactly is an error.
    """

    column: str
    """In the inputs, in any type."""
    name: str
    """In ``KernelTask.columns``."""


class Cluster(msgspec.Struct, frozen=True, kw_only=True):
    """Which rows go into which output."""

    method: Literal["range", "zorder", "hash"]
    columns: tuple[str, ...]
    outputs: int
    """How many at most; fewer when there are too few distinct values to tell them apart."""


class KeyFile(msgspec.Struct, frozen=True, kw_only=True):
    """A Parquet object in the table's bucket: the keys of rows to hide, one row each."""

    key: str
    bytes: int
    columns: tuple[str, ...]
    """Columns of the table and, by the same names, of the file."""


class BloomFilters(msgspec.Struct, frozen=True, kw_only=True):
    """Of the outputs' column chunks that have a dictionary."""

    false_positives: float = 0.01
    """Part of the absent values that a filter does not exclude."""
    max_distinct: int | None = None
    """Distinct values of a row group up to which a column has a dictionary, as far as memory
    suffices; None: a fifth of the row group's rows."""


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
    deleted: str | None = None
    """With a primary key: BOOLEAN column, true in key tombstones."""
    metadata: dict[str, str] = {}
    """Parquet key-value metadata (``firnline.*``) for the outputs; the kernel adds ``rows``."""
    data_prefix: str
    """Key prefix for outputs, ending in ``/``; the kernel appends ``{uuid7}.parquet``."""
    named_ms: int | None = None
    """Time in the names of the outputs, unix ms; None: when they are written. Of parts that were
    inserted at one time the names are the order."""
    memory: int
    """``kernel_memory``: bytes the whole task may use, within a factor of 1.3 or 64 MiB."""
    threads: int
    row_group_rows: int
    compression_level: int
    bloom_filters: BloomFilters | None = BloomFilters()
    """None: no filters."""
    query: str | None = None
    """DuckDB query over the visible rows, which makes the output's rows (columns and types must be
    the table's); None: the rows as they are."""
    source: str = "_rows"
    """What ``query`` calls the visible rows."""
    time_limit_ms: int | None = None
    """How long ``query`` may run."""
    keep: str | None = None
    """DuckDB condition: visible rows for which it is not true (false or null) are removed."""
    keep_winners: bool = False
    """With a primary key: ``keep`` is asked of the row that wins, no key tombstone, and a row that
    goes takes all older ones of its key along. Without, of every row."""
    keys: KeyFile | None = None
    """Rows whose ``keys.columns`` equal a row of this file are hidden, in every input. Equal as in
    SQL: a null is equal to nothing."""
    cluster: Cluster | None = None
    """None: one output with all rows."""
    conversions: tuple[Conversion, ...] = ()
    """Of columns that the inputs do not hold as ``columns`` says."""
    dropped: tuple[str, ...] = ()
    """Columns that inputs may hold and the output does not have."""
    only_touched: bool = False
    """Leave out inputs of which no row is hidden or removed: they stay as they are. With a primary
    key all of them stay or none: of a row that goes any of them may hold an older one."""


class KernelResult(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a group. Either parts and counts, or an error."""

    group: int
    parts: tuple[WrittenPart, ...] = ()
    rows_in: int = 0
    rows_deleted: int = 0
    """Rows that a delete hid."""
    rows_deduplicated: int = 0
    """Rows that a newer one of their key hides, and key tombstones that are forgotten."""
    rows_removed: int = 0
    """Visible rows that ``keep`` took away, and visible rows minus rows that ``query`` made."""
    untouched: tuple[str, ...] = ()
    """Keys of inputs that ``only_touched`` left out; their rows are in no count."""
    left_out: tuple[str, ...] = ()
    """Columns that inputs hold because their path has them; the table does not have them."""
    rows_hidden: dict[str, int] = {}
    """Input -> rows hidden in it or removed from it, of the touched ones, with ``only_touched``."""
    requests: dict[str, int] = {}
    seconds: float = 0.0
    error: str | None = None
    """Message of the FirnlineError that stopped the group, without its next step."""
    error_type: str | None = None
    """Class name in firnline.errors."""
    error_next_step: str | None = None
    error_key: str | None = None
    """The input at fault, when one is."""
