"""The plan of a repartition: which partitions are not of the table's layout. Pure.

The layout is the table's own ``partition_by``, by which appends write: a settings file that names
another one has to be applied first. Which partitions are of it their names tell, so a partition
that was moved is not planned again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from firnline.errors import CHOICES, PropertiesDifferError, UsageError, some
from firnline.kernel.task import Layout
from firnline.next_steps import NEW_TABLE
from firnline.operations.groups import PlannedGroup
from firnline.operations.kernel_tasks import RowWork, levels
from firnline.operations.merge import tiers
from firnline.operations.requests import COMMIT_REQUESTS, FIXED_REQUESTS
from firnline.operations.selection import group_of
from firnline.parquet.partition import span_of
from firnline.properties.in_force import differences, from_settings
from firnline.properties.record import Properties
from firnline.settings.load import TableSettings
from firnline.state.holds import Held
from firnline.state.partitions import choose
from firnline.state.snapshot import Snapshot
from firnline.table import Table

OP = "repartition"


@dataclass(frozen=True, slots=True)
class Source:
    """A partition whose rows are moved in one transaction."""

    partition: str
    groups: tuple[PlannedGroup, ...]

    @property
    def parts(self) -> int:
        """Parts that would be read and replaced."""
        return sum(len(group.parts) for group in self.groups)

    @property
    def bytes(self) -> int:
        """Bytes to read, and about as many to write."""
        return sum(group.bytes for group in self.groups)


@dataclass(frozen=True, slots=True)
class RepartitionPlan:
    """The partitions to move, in the order of their names."""

    seq: int
    """Transaction of the snapshot it was made from."""
    layout: tuple[str, ...]
    """Fields of ``partition_by``."""
    sources: tuple[Source, ...]
    in_place: int
    """Chosen partitions whose names are of the layout; they are left alone."""

    @property
    def nothing_to_do(self) -> bool:
        """Return True if no partition is to be read."""
        return not self.sources

    @property
    def groups(self) -> list[PlannedGroup]:
        """Groups of all partitions."""
        return [group for source in self.sources for group in source.groups]

    @property
    def parts_in(self) -> int:
        """Parts that would be read."""
        return sum(source.parts for source in self.sources)

    @property
    def bytes_in(self) -> int:
        """Bytes that would be read, and about as many written."""
        return sum(source.bytes for source in self.sources)

    @property
    def requests(self) -> int:
        """Least number of requests: only the rows tell how many parts are written."""
        if self.nothing_to_do:
            return 0
        commits = COMMIT_REQUESTS * (len(self.sources) - 1)
        return self.parts_in + len(self.groups) + FIXED_REQUESTS - 1 + commits

    def to_json(self) -> dict[str, Any]:
        """Plain data: totals, and a row per partition."""
        return {
            "seq": self.seq,
            "layout": list(self.layout),
            "parts_in": self.parts_in,
            "bytes_in": self.bytes_in,
            "requests": self.requests,
            "in_place": self.in_place,
            "partitions": [
                {
                    "partition": source.partition,
                    "parts": source.parts,
                    "groups": len(source.groups),
                    "bytes": source.bytes,
                }
                for source in self.sources
            ],
        }


def plan_repartition(
    snapshot: Snapshot,
    settings: TableSettings,
    *,
    partitions: Sequence[str] = (),
    every: bool = False,
) -> RepartitionPlan:
    """Decide which partitions are moved.

    Args:
        snapshot: the state to plan on.
        settings: of the table, in force.
        partitions: globs over partition paths; empty for all.
        every: also read partitions whose names are of the layout.

    Raises:
        UsageError: a table without ``partition_by``, with a primary key, or without a column that
            the layout names; a glob that matches no partition.
    """
    _refuse(snapshot, settings)
    chosen = choose(snapshot.partitions, partitions, of=settings.name)
    former = [name for name in chosen if is_former(settings, name)]
    to_rewrite = chosen if every else former
    moved = ((name, m) for name in to_rewrite for m in snapshot.partitions[name])
    Held.of(snapshot).by_partition().refuse("a repartition", moved)
    return RepartitionPlan(
        seq=snapshot.seq,
        layout=tuple(map(str, settings.partition_by)),
        sources=tuple(_source(snapshot, settings, p) for p in to_rewrite),
        in_place=len(chosen) - len(former),
    )


def is_former(settings: TableSettings, partition: str) -> bool:
    """Return True if the name of a partition is not of the layout."""
    return span_of(partition, settings.partition_by) is None


def refuse_other_layout(table: Table, stated: Properties | None) -> None:
    """Raise PropertiesDifferError if the settings name another layout than the table has.

    Args:
        table: with the settings in force.
        stated: the table's own properties; None if it has none.
    """
    own = from_settings(table.settings) if stated is None else stated
    for difference in differences(table.wanted or table.settings, own):
        if difference.name == "partition_by":
            raise PropertiesDifferError(
                f"the settings of table {table.settings.name} say partition_by: "
                f"{difference.wanted}, and the table itself, by which appends go, says "
                f"{difference.table}",
                next_step="run `firnline properties apply` first, then this again",
            )


def work_of(table: Table) -> RowWork:
    """Return the work of the kernels."""
    layout = Layout(prefix=table.paths.prefix, levels=levels(table.settings))
    return RowWork(op=OP, layout=layout)


def _refuse(snapshot: Snapshot, settings: TableSettings) -> None:
    name = settings.name
    if not settings.partition_by:
        raise UsageError(
            f"table {name} has no partition_by, so each of its partitions is as it should be",
            next_step="set partition_by, run `firnline properties apply`, then this again",
        )
    if settings.primary_key:
        raise UsageError(
            f"table {name} has a primary key, and rows of one key that lie in two partitions would "
            "become one row",
            next_step=NEW_TABLE,
        )
    for field in settings.partition_by:
        if snapshot.schema and field.column not in snapshot.schema:
            choices = some(snapshot.schema, CHOICES)
            raise UsageError(
                f"table {name} has no column {field.column!r} (partition_by {field})",
                next_step=f"correct the setting; the columns are {choices}",
            )


def _source(snapshot: Snapshot, settings: TableSettings, partition: str) -> Source:
    policy = settings.merge
    ordered = sorted(snapshot.partitions[partition], key=lambda m: (*m.order(), m.p))
    tier = tiers.Tier(policy.target_size, 1, policy.max_parts_per_group)
    runs = tiers.group_in_order([m.b for m in ordered], tier)
    groups = (group_of(snapshot, partition, [ordered[i] for i in run]) for run in runs)
    return Source(partition, tuple(groups))
