"""The difference between the rows before and after a prepared change, as figures."""

from __future__ import annotations

from typing import Literal

import msgspec

PARTITIONS = 1_000
"""Partitions that are named."""
SAMPLES = 20
"""Rows of one kind that are shown at most, over all partitions."""

Kind = Literal["removed", "added", "changed"]


class PartitionDifference(msgspec.Struct, frozen=True, kw_only=True):
    """The rows of one partition."""

    partition: str
    rows_before: int
    """Rows that readers see in the parts that are compared: of a table with a primary key all of
    the partition, else those that are replaced."""
    rows_after: int
    removed: int
    """Rows that go, and no row with their key comes."""
    added: int
    changed: int
    """Rows whose key is in both, with other values; 0 without a key."""


class Sample(msgspec.Struct, frozen=True, kw_only=True):
    """One row, its values as text; of a change only its key and the columns that change."""

    partition: str
    kind: Kind
    before: dict[str, str | None] = {}
    after: dict[str, str | None] = {}


class Evidence(msgspec.Struct, frozen=True, kw_only=True):
    """The rows that go, come and change, and what was asserted of them."""

    keys: tuple[str, ...] = ()
    """Columns by which rows are matched; none: a changed row is one removed and one added."""
    partitions: tuple[PartitionDifference, ...] = ()
    """The first 1,000."""
    partition_count: int = 0
    rows_before: int = 0
    rows_after: int = 0
    removed: int = 0
    added: int = 0
    changed: int = 0
    columns: dict[str, int] = {}
    """Changed values by column, of the rows that change."""
    samples: tuple[Sample, ...] = ()
    assertions: tuple[str, ...] = ()
    """They hold."""


def summed(
    keys: tuple[str, ...],
    each: list[PartitionDifference],
    columns: dict[str, int],
    samples: list[Sample],
    assertions: tuple[str, ...],
) -> Evidence:
    """Return the evidence of several partitions."""
    return Evidence(
        keys=keys,
        partitions=tuple(each[:PARTITIONS]),
        partition_count=len(each),
        rows_before=sum(p.rows_before for p in each),
        rows_after=sum(p.rows_after for p in each),
        removed=sum(p.removed for p in each),
        added=sum(p.added for p in each),
        changed=sum(p.changed for p in each),
        columns={name: count for name, count in columns.items() if count},
        samples=tuple(samples),
        assertions=assertions,
    )
