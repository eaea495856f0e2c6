"""Input and output of a merge kernel: plain data that is sent between processes as JSON."""

from __future__ import annotations

from functools import lru_cache
from typing import Literal

import msgspec

from firnline.parquet.part import WrittenPart
from firnline.rows.given import Fitting
from firnline.types.hashes import Hashes
from firnline.types.order import SortKey
from firnline.types.sql import SqlType, parse_sql_type

_FREE_FORM = frozenset({
    "BIGNUM", "BIT", "GEOMETRY", "HUGEINT", "INTERVAL", '"NULL"', "TIME WITH TIME ZONE", "UHUGEINT",
    "VARIANT",
})  # fmt: skip
"""Types of which DuckDB may write a value in another form than it was read in: no digest."""


@lru_cache(maxsize=4096)
def _has_digests(type_text: str) -> bool:
    kind = parse_sql_type(type_text)
    return kind is None or not _is_free(kind)


def _is_free(kind: SqlType) -> bool:
    return kind.name in _FREE_FORM or any(_is_free(child) for _, child in kind.fields)


class Source(msgspec.Struct, frozen=True, kw_only=True):
    """A column of the table that a part holds under other names, or does not have."""

    column: str
    """Name of the column in the table."""
    names: tuple[str, ...]
    """Names in the part; of several the first one with a value counts. None: every row has a null,
    and what the part holds as ``column`` is ignored."""


class KernelInput(msgspec.Struct, frozen=True, kw_only=True):
    """One part to read."""

    key: str
    bytes: int
    rows: int | None
    """From the marker; None if a foreign client wrote it (then the footer states it)."""
    where_hidden: str | None = None
    """DuckDB condition that is true for the rows of this part that deletes hide."""
    order: tuple[int, int] | None = None
    """Its insertion order, unix ms; required with ``only_touched``, where the kernel decides which
    inputs the output is made of."""
    sources: tuple[Source, ...] = ()
    """Columns stored under other names than their own; from ``log.schema_changes``."""
    row_groups: tuple[int, ...] | None = None
    """Numbers of the row groups to read, ascending; None: all, with one GET. With an ``intake``
    they have ``rows`` rows; with a ``slice`` the rows of the others are not the task's."""
    forget: bool = False
    """Drop winning key tombstones of this part too: nothing older is left for them to hide."""
    fitting: Fitting = Fitting()
    """With an ``intake``. Else its ``casts`` name the columns of a part that is written anew by
    Arrow before DuckDB reads it, since it is written in a form that readers understand otherwise,
    and the types that they have."""
    digest: str | None = None
    """Of its rows (``types.digests``), from the marker; None: nobody has stated it."""


class Conversion(msgspec.Struct, frozen=True, kw_only=True):
    """A column of the inputs that has another type or name in the output.

    A value that the other type cannot hold exactly is an error.
    """

    column: str
    """Name in the inputs, where it may have any type."""
    name: str
    """Name in ``KernelTask.columns``."""


class Cluster(msgspec.Struct, frozen=True, kw_only=True):
    """Distribution of the rows over the outputs."""

    method: Literal["range", "zorder", "hash"]
    columns: tuple[str, ...]
    outputs: int
    """Maximum number of outputs; fewer if there are too few distinct values to separate them."""
    narrowed: tuple[float, ...] = ()
    """With ``zorder``, in a slice: for each column how often its values have been halved by the
    cuts between slices. The outputs of all slices then narrow all columns alike. Empty: never."""


class KeyRange(msgspec.Struct, frozen=True, kw_only=True):
    """A range of the values of one column."""

    column: str
    low: str | None
    """Rows at or after this value, as text that DuckDB casts to the column's type; None: all."""
    high: str | None
    """Rows before this value; None: all, nulls included, which come after every value."""


class Slice(msgspec.Struct, frozen=True, kw_only=True):
    """The rows of a group that are in a key range, or in several of different columns.

    Other tasks have the other rows. The row groups that are left out of the task's inputs, and the
    inputs that are left out of it, have no row of the slice.
    """

    ranges: tuple[KeyRange, ...]
    """A row of the slice is in all of them."""


class Bucket(msgspec.Struct, frozen=True, kw_only=True):
    """A field ``bucket(count, column)`` of the table's partitions."""

    column: str
    count: int


class KeyFile(msgspec.Struct, frozen=True, kw_only=True):
    """A Parquet object in the table's bucket with the keys of rows to hide, one per row."""

    key: str
    bytes: int
    columns: tuple[str, ...]
    """Columns of the table; the file has them under the same names."""


class BloomFilters(msgspec.Struct, frozen=True, kw_only=True):
    """Bloom filters of the outputs' column chunks that have a dictionary."""

    false_positives: float = 0.01
    """Fraction of the absent values that a filter does not exclude."""
    max_distinct: int | None = None
    """Maximum distinct values of a row group for which a column has a dictionary, as far as memory
    allows; None: a fifth of the row group's rows."""


class Level(msgspec.Struct, frozen=True, kw_only=True):
    """One level of the partition directory: a ``PartitionField`` of the settings as plain data."""

    column: str
    transform: str
    buckets: int | None = None
    label: str
    """The part of the directory name before ``=``, unquoted."""
    text: str
    """As the settings say it, such as ``month(ts)``."""

    def __str__(self) -> str:
        return self.text


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """A condition that all new rows have to fulfil."""

    columns: tuple[str, ...]
    condition: str
    """DuckDB condition over these columns; a row for which it is not true is refused."""
    text: str
    """The same in words, for the error."""


class Intake(msgspec.Struct, frozen=True, kw_only=True):
    """New rows for a table: its inputs are Parquet files that hold them, and no parts."""

    table: str
    """Name of the table, for errors."""
    prefix: str
    """Key prefix of the table: parts go into any of its partitions."""
    place: str
    """URL that the keys of the inputs are below, for errors."""
    partition_by: tuple[Level, ...] = ()
    """Empty: all rows go into the task's partition."""
    limits: Limits | None = None
    """Condition that every new row has to fulfil; None: no condition."""
    part_bytes: int
    """Size of a Parquet file at which a part is closed."""
    buffer_bytes: int
    """Bytes of rows kept in memory, in Arrow's size."""
    every_fault: bool = False
    """After a file that does not fit look at the others, too: the result names all such files."""


class InputFault(msgspec.Struct, frozen=True, kw_only=True):
    """An input that does not read or fit."""

    key: str
    error: str
    """Message of a FirnlineError, without its next step."""
    error_type: str
    """Name of its class in firnline.errors."""
    error_next_step: str


class Layout(msgspec.Struct, frozen=True, kw_only=True):
    """Distribution of the rows over partitions: each output belongs to one of them."""

    prefix: str
    """Key prefix of the table."""
    levels: tuple[Level, ...]
    """Outermost first."""


class KernelTask(msgspec.Struct, frozen=True, kw_only=True):
    """One group: several parts of one partition become one (or, over target, a few).

    With ``intake``: several files with new rows become parts.
    """

    group: int
    partition: str
    inputs: tuple[KernelInput, ...]
    """In insertion order: among rows of one primary key the last one wins."""
    columns: tuple[tuple[str, str], ...]
    """The table's schema, (name, SQL type) in the order to write."""
    sort_by: tuple[SortKey, ...]
    stats_columns: tuple[str, ...]
    hashes: Hashes = ()
    """Hash ranges of all inputs together; with a ``query`` they do not hold for the output."""
    buckets: tuple[Bucket, ...] = ()
    """Buckets of which the outputs state a range: that of ``hashes``, or one that is counted."""
    primary_key: tuple[str, ...] = ()
    version: str | None = None
    deleted: str | None = None
    """With a primary key: BOOLEAN column, true in key tombstones."""
    metadata: dict[str, str] = {}
    """Parquet key-value metadata (``firnline.*``) for the outputs; the kernel adds ``rows``."""
    data_prefix: str
    """Key prefix for outputs, ending in ``/``; the kernel appends ``{uuid7}.parquet``."""
    named_ms: int | None = None
    """Time in the names of the outputs, unix ms; None: when they are written. Parts that were
    inserted at one time are ordered by their names."""
    memory: int
    """``kernel_memory``: bytes that the whole task may use, within a factor of 1.3 or 64 MiB."""
    threads: int
    row_group_rows: int
    compression_level: int
    bloom_filters: BloomFilters | None = BloomFilters()
    """None: no filters."""
    query: str | None = None
    """DuckDB query over the visible rows, which returns the output's rows (columns and types must
    be the table's); None: the rows unchanged."""
    source: str = "_rows"
    """Name of the visible rows in ``query``."""
    changes: str | None = None
    """With a ``query`` that computes rows one by one, and ``only_touched``: DuckDB condition of the
    rows that it changes. Inputs without a visible one stay unchanged; with a primary key either all
    or none stay."""
    time_limit_ms: int | None = None
    """Maximum run time of ``query``."""
    keep: str | None = None
    """DuckDB condition: visible rows for which it is not true (false or null) are removed."""
    keep_winners: bool = False
    """With a primary key: ``keep`` is evaluated on the winning row, unless it is a key tombstone,
    and a removed row removes all older ones of its key too. Without: on every row."""
    keys: KeyFile | None = None
    """Rows whose ``keys.columns`` equal a row of this file are hidden, in every input. Equal as in
    SQL: a null is equal to nothing."""
    cluster: Cluster | None = None
    """None: one output with all rows."""
    slice: Slice | None = None
    """Work on a part of the group's rows. ``metadata`` names all inputs of the group. Not together
    with ``only_touched``, ``layout`` or ``conversions``."""
    layout: Layout | None = None
    """Write an output for each partition that has rows by this layout, instead of one in
    ``partition``. If all rows are of ``partition`` already, all inputs stay unchanged. Not
    together with ``primary_key``, ``cluster``, ``query`` or ``only_touched``."""
    conversions: tuple[Conversion, ...] = ()
    """Conversions of columns whose type or name in the inputs differs from ``columns``."""
    dropped: tuple[str, ...] = ()
    """Columns that inputs may hold and the output does not have."""
    only_touched: bool = False
    """Leave out inputs of which no row is hidden or removed, or with ``changes`` changed: they stay
    unchanged. With a primary key either all or none stay: any of them may hold an older row of a
    removed key."""
    proof: Literal["rows", "counts"] = "rows"
    """``rows``: the digest of the rows that are read has to be that of the outputs, read back, and
    of the rows that go; ``counts``: their numbers only."""
    intake: Intake | None = None
    """The inputs hold new rows. Of the other fields these count: ``partition``, ``columns``,
    ``sort_by``, ``stats_columns``, the key, ``metadata``, ``memory`` and the form of the parts."""

    @property
    def keeps_rows(self) -> bool:
        """True if all rows that no delete hides are rows of the only output."""
        changes = (self.query, self.keep, self.keys, self.cluster, self.layout, self.intake)
        kept = all(each is None for each in changes)
        return kept and not (self.primary_key or self.only_touched)

    @property
    def leaves_out(self) -> bool:
        """True if the rows of the only output are rows of the inputs as they are: some, or all."""
        changes = (self.query, self.cluster, self.layout, self.intake, self.slice)
        return all(each is None for each in changes) and not self.conversions

    @property
    def is_plain(self) -> bool:
        """True if ``keeps_rows``, in any order."""
        return self.keeps_rows and not self.sort_by

    @property
    def name(self) -> str:
        """The group as messages call it."""
        where = f"partition {self.partition!r}" if self.partition else "the whole table"
        return f"group {self.group} ({where})"

    @property
    def has_digests(self) -> bool:
        """True unless a column has a type without digests; then rows are only counted."""
        return all(_has_digests(kind) for _, kind in self.columns)


class KernelResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a group: either parts and counts, or an error."""

    group: int
    parts: tuple[WrittenPart, ...] = ()
    rows_in: int = 0
    rows_deleted: int = 0
    """Rows hidden by deletes."""
    rows_deduplicated: int = 0
    """Rows that a newer one of their key hides, and dropped key tombstones."""
    rows_removed: int = 0
    """Visible rows that ``keep`` removed, and visible rows minus rows that ``query`` returned."""
    rows_changed: int = 0
    """With ``changes``: rows for which it is true."""
    unchanged: tuple[str, ...] = ()
    """Keys of inputs that ``only_touched`` or ``layout`` left as they are; their rows are not
    counted."""
    left_out: tuple[str, ...] = ()
    """Columns that inputs hold because their path has them; the table does not have them."""
    rows_hidden: dict[str, int] = {}
    """Rows hidden in or removed from each rewritten input, with ``only_touched``."""
    columns: dict[str, str] = {}
    """With ``intake``: SQL type by column of the new rows."""
    digest: str | None = None
    """Of all rows that were read, as the outputs and the rows that went give it; None if rows were
    changed on purpose, or not proven."""
    requests: dict[str, int] = {}
    seconds: float = 0.0
    error: str | None = None
    """Message of the FirnlineError that stopped the group, without its next step."""
    error_type: str | None = None
    """Name of its class in firnline.errors."""
    error_next_step: str | None = None
    error_key: str | None = None
    """Key of the input that caused it, if one did."""
    faults: tuple[InputFault, ...] = ()
    """With ``intake.every_fault``: all inputs that do not read or fit. Then there are no parts."""
