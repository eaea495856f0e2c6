"""The legal holds of a table, as its page shows them: without a value that may be a key. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from firnline.operations.health.erases import Erased
from firnline.operations.hidden import columns_in, shown_partition
from firnline.operations.hold.plan import figures_of
from firnline.predicate.tree import columns_of, parse_json
from firnline.predicate.words import without_values
from firnline.properties.record import Hold
from firnline.state.holds import Held, in_partitions
from firnline.state.snapshot import Snapshot

PARTITIONS = 20
"""Partitions of a hold that are named."""
LOOKS = 500_000
"""Parts that are held against holds, of all holds together: about 10 µs each, beside the requests
of the page. What further holds cover is not told."""


def holds_of(
    snapshot: Snapshot, erases: Sequence[Erased], key: Sequence[str]
) -> list[dict[str, Any]]:
    """Return the holds in force as plain data, in the order in which they were put.

    Args:
        snapshot: the newest state.
        erases: of the table; partitions are shown without values of the columns of their keys.
        key: primary key, whose values are not shown either.
    """
    holds = Held.of(snapshot).holds
    told = LOOKS // max(1, len(snapshot.parts))
    return [
        {**_shown(snapshot, hold, erases, key), **_covered(snapshot, hold if at < told else None)}
        for at, hold in enumerate(holds)
    ]


def _covered(snapshot: Snapshot, hold: Hold | None) -> dict[str, Any]:
    """Return what a hold covers; None for one of which it is not told."""
    if hold is None:
        return {"live": None, "dead": None}
    found = figures_of(snapshot, hold)
    return {"live": msgspec.to_builtins(found.live), "dead": msgspec.to_builtins(found.dead)}


def _shown(
    snapshot: Snapshot, hold: Hold, erases: Sequence[Erased], key: Sequence[str]
) -> dict[str, Any]:
    tree = parse_json(hold.where) if hold.where else None
    names = sorted(name for name in snapshot.partitions if in_partitions(hold, name))
    hidden = {*key, *(columns_of(tree) if tree else ()), *_of_erases(erases, names)}
    shown = dict.fromkeys(shown_partition(name, hidden) for name in names)
    return {
        "name": hold.name,
        "why": hold.why,
        "by": hold.by,
        "approved_by": hold.approved_by,
        "t": hold.t,
        "rows": None if tree is None else without_values(tree),
        "by_partition": bool(hold.partitions),
        "partition_count": len(names),
        "partitions": list(shown)[:PARTITIONS] if hold.partitions else [],
    }


def _of_erases(erases: Sequence[Erased], partitions: Sequence[str]) -> set[str]:
    """Return the columns of the keys of erases; all that name partitions if one does not read."""
    if any(not erase.columns for erase in erases):
        return columns_in(partitions)
    return {column for erase in erases for column in erase.columns}
