"""The difference between the rows before and after a prepared change, as figures."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal

import msgspec

PARTITIONS = 1_000
"""Partitions that are named."""
SAMPLES = 20
"""Rows of one kind that are shown at most, over all partitions."""

Kind = Literal["removed", "added", "changed"]
_KINDS: tuple[Kind, ...] = ("removed", "added", "changed")


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


def added(found: Evidence, more: Evidence, samples: int) -> Evidence:
    """Return the evidence of the pieces of both, of which those of ``found`` come first.

    It is the same in whatever groups pieces are added up: the first partitions are named, and the
    first rows of each kind shown.
    """
    columns = dict(found.columns)
    for name, count in more.columns.items():
        columns[name] = columns.get(name, 0) + count
    left = left_of(found.samples, samples)
    return Evidence(
        keys=found.keys,
        partitions=(*found.partitions, *more.partitions)[:PARTITIONS],
        partition_count=found.partition_count + more.partition_count,
        rows_before=found.rows_before + more.rows_before,
        rows_after=found.rows_after + more.rows_after,
        removed=found.removed + more.removed,
        added=found.added + more.added,
        changed=found.changed + more.changed,
        columns=columns,
        samples=(*found.samples, *_first(more.samples, left)),
    )


def left_of(shown: Sequence[Sample], samples: int) -> dict[Kind, int]:
    """Return how many rows of each kind are still to be shown."""
    kinds = [each.kind for each in shown]
    return {kind: max(0, samples - kinds.count(kind)) for kind in _KINDS}


def _first(samples: Iterable[Sample], left: dict[Kind, int]) -> Iterator[Sample]:
    """Yield rows while fewer of their kind were shown than is asked for."""
    for sample in samples:
        if left[sample.kind]:
            left[sample.kind] -= 1
            yield sample


def sample_text(sample: Mapping[str, Any]) -> str:
    """Return a ``Sample``, as plain data, as ``n=1, s=s1 → one``; a null is ``null``."""
    before, after = sample.get("before", {}), sample.get("after", {})
    shown_texts = []
    for name in dict.fromkeys([*before, *after]):
        # Of a row that changes only its key is the same on both sides.
        values = dict.fromkeys(side[name] for side in (before, after) if name in side)
        texts = ("null" if value is None else value for value in values)
        shown_texts.append(f"{name}={' → '.join(texts)}")
    return ", ".join(shown_texts)
