"""Rules of primary keys for operations that replace parts (docs/format.md, "Primary keys").

For every key of a partition a reader sees the row that wins: the largest version, else the last
inserted one. An operation that removes that row must not let an older one come back, and one that
combines parts must not change which row wins. Pure functions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import takewhile
from typing import Any

from firnline.errors import CommitConflictError, UsageError
from firnline.log.records import Marker
from firnline.next_steps import PLANNED_ON_CURRENT
from firnline.properties.in_force import waits
from firnline.settings.load import TableSettings
from firnline.state.snapshot import Snapshot
from firnline.types.schema import normalise
from firnline.types.values import Scalar, Stats, bound_key, canonical

Place = tuple[int, int, str]
"""First and last insertion time of a part (unix ms) and its key: its place in the order."""
_COMPARED = 200
"""Number of parts whose bounds are compared with one part's; more are assumed to overlap it."""


def place(marker: Marker) -> Place:
    """Return the place of a part in the order of insertion."""
    return (*marker.order(), marker.p)


def refuse_outside_key(
    settings: TableSettings, columns: Iterable[str], what: str, *, next_step: str
) -> None:
    """Raise UsageError if an operation hides rows by columns that differ between versions.

    Args:
        settings: settings of the table.
        columns: columns that decide which rows are hidden.
        what: the operation, as the beginning of a sentence: "a lazy delete".
        next_step: the alternative to suggest.
    """
    other = settings.outside_key(columns)
    if other:
        raise UsageError(
            f"{what} on table {settings.name} can only name columns of its primary key "
            f"({', '.join(settings.primary_key)}), not {other[0]!r}: it would hide the newest row "
            "of a key and bring an older one back",
            next_step=next_step,
        )


def check_deleted(settings: TableSettings, schema: Mapping[str, str]) -> None:
    """Raise UsageError if the column of key tombstones is missing or not BOOLEAN."""
    column = settings.deleted
    if column is None or not schema:
        return
    kind = schema.get(column)
    if kind is None or normalise(kind) != "BOOLEAN":
        raise UsageError(
            f"column {column!r} of table {settings.name} (setting deleted) is "
            f"{'missing' if kind is None else kind}",
            next_step="name a BOOLEAN column, which is true in rows that delete their key",
        )


def units(parts: Sequence[Marker]) -> Iterator[list[Marker]]:
    """Yield parts in order of insertion, grouped by insertion time.

    Within a group only their names tell which came later, and a replacement has another name.
    """
    unit: list[Marker] = []
    for marker in sorted(parts, key=place):
        if unit and unit[-1].order() != marker.order():
            yield unit
            unit = []
        unit.append(marker)
    if unit:
        yield unit


def ranks(parts: Iterable[Marker]) -> dict[str, int]:
    """Return the rank of each part among those of its partition with the same insertion time.

    To replace parts one by one, new names must sort like the old ones: their time is a base plus
    this number of milliseconds.
    """
    folders: dict[str, list[Marker]] = {}
    for marker in parts:
        folders.setdefault(marker.p.rpartition("/")[0], []).append(marker)
    return {
        marker.p: number
        for each in folders.values()
        for unit in units(each)
        for number, marker in enumerate(unit)
    }


def stretches(parts: Sequence[Marker], ready: frozenset[str]) -> Iterator[list[list[Marker]]]:
    """Yield runs of neighbouring groups (``units``) of which every part may be merged."""
    stretch: list[list[Marker]] = []
    for unit in units(parts):
        if all(m.p in ready for m in unit):
            stretch.append(unit)
            continue
        if stretch:
            yield stretch
        stretch = []
    if stretch:
        yield stretch


def refuse_between(
    snapshot: Snapshot,
    settings: TableSettings,
    planned: Snapshot,
    replaces: frozenset[str],
    adds: Iterable[Marker],
) -> None:
    """Raise CommitConflictError if a part lies between those that a new part is made of.

    An append may land late, with a time before that of parts that were merged meanwhile: the merged
    part would come before it as a whole, and later rows would lose to it. Among parts of one
    millisecond only the names tell which came last, and the name of a new part is later than any:
    one that landed there meanwhile would lose its place, too.

    Args:
        snapshot: the state to commit on.
        settings: settings of the table.
        planned: the state on which the change was planned.
        replaces: parts that are replaced.
        adds: new parts.
    """
    if not settings.primary_key:
        return
    spans: dict[str, set[tuple[int, int]]] = {}
    for new in adds:
        if new.o is not None:  # else its rows come with this very transaction
            partition = snapshot.paths.parse_part(new.p).partition
            spans.setdefault(partition, set()).add(new.order())
    for partition, span in spans.items():
        parts = snapshot.partitions.get(partition, ())
        others = [m for m in parts if m.p not in replaces]
        part = _within(others, span, planned)
        if part is not None:
            raise CommitConflictError(
                f"part {part} was inserted between the parts of a group meanwhile",
                next_step=PLANNED_ON_CURRENT,
            )


def _within(parts: Sequence[Marker], spans: set[tuple[int, int]], planned: Snapshot) -> str | None:
    """Return a part that lies in one of the spans, if any."""
    for marker in parts:
        # Several new parts of one group have the same span, and no key in common. A part that was
        # known and stays, as beside an unreadable one, would not move in a new plan either.
        if marker.order() in spans and marker.p not in planned.parts:
            return marker.p
    wide = [span for span in spans if span[0] < span[1]]
    for marker in parts:
        low, high = order = marker.order()
        if any(first <= low and high <= last and order != (first, last) for first, last in wide):
            return marker.p
    return None


def refuse_beneath(
    snapshot: Snapshot, settings: TableSettings, planned: Snapshot, replaces: Iterable[str]
) -> None:
    """Raise CommitConflictError if an older row of a key came in below the part of its winner.

    An operation that replaces the first parts of a partition may drop key tombstones and winners,
    since they hide nothing. A restore that commits meanwhile brings back older parts, whose rows
    nothing would hide any more. (An append cannot: see ``forgettable``.)

    Args:
        snapshot: the state to commit on.
        settings: settings of the table.
        planned: the state on which the change was planned.
        replaces: parts that are replaced.
    """
    since = snapshot.times_after(planned.seq)
    if not settings.primary_key or not since:
        return
    gone = frozenset(replaces)
    for partition in sorted({planned.paths.parse_part(path).partition for path in gone}):
        last = _last_of_head(planned.partitions.get(partition, ()), gone, settings)
        if last is None:
            continue
        for marker in snapshot.partitions.get(partition, ()):
            below = settings.version is not None or place(marker) < last
            if below and marker.t in since and marker.p not in planned.parts:
                raise CommitConflictError(
                    f"part {marker.p} was restored beneath parts of a group meanwhile",
                    next_step=PLANNED_ON_CURRENT,
                )


def _last_of_head(
    parts: Sequence[Marker], gone: frozenset[str], settings: TableSettings
) -> Place | None:
    """Return the end of the gapless run of replaced parts at the beginning of a partition."""
    head = list(takewhile(lambda m: m.p in gone, sorted(parts, key=place)))
    if not head or (settings.version is not None and len(head) < len(parts)):
        return None
    return place(head[-1])


def forgettable(
    snapshot: Snapshot,
    settings: TableSettings,
    partition: str,
    parts: Sequence[Marker],
    now_ms: int,
) -> frozenset[str]:
    """Return the parts of a group whose key tombstones have nothing left to hide.

    No older row of their keys is outside the group, and none can land any more: an append is not
    published later than ``append.ttl``, and clocks are assumed to differ by less than the grace.
    """
    if settings.deleted is None:
        return frozenset()
    names = {m.p for m in parts}
    others = [m for m in snapshot.partitions.get(partition, ()) if m.p not in names]
    age = waits(snapshot.properties, settings, now_ms).late_append
    if settings.version is None:
        last = max(place(m) for m in parts)
        if any(place(m) < last for m in others):
            return frozenset()
    elif others or settings.deleted_keep is None:
        return frozenset()
    else:
        age = max(age, settings.deleted_keep)
    # A place in the order may be years ahead: the rows existed when their part did.
    rows = ((m, min(m.order()[1], snapshot.effective(m.t))) for m in parts)
    return frozenset(m.p for m, inserted in rows if inserted <= now_ms - age)


def may_go(
    snapshot: Snapshot, settings: TableSettings, partition: str, gone: Sequence[Marker]
) -> list[Marker]:
    """Return the parts to remove after whose removal no older row of a key comes back."""
    if not settings.primary_key:
        return list(gone)
    left = sorted(gone, key=place)
    while left:
        names = {m.p for m in left}
        stays = [m for m in snapshot.partitions[partition] if m.p not in names]
        kept = [m for m in left if not _reveals(snapshot, settings, m, stays)]
        if len(kept) == len(left):
            break
        left = kept
    return left


def _reveals(
    snapshot: Snapshot, settings: TableSettings, part: Marker, stays: Sequence[Marker]
) -> bool:
    """Return True if a row of a part that stays may win once ``part`` is gone."""
    version = settings.version
    if version is None:
        stays = [m for m in stays if place(m) < place(part)]
    if len(stays) > _COMPARED:
        return True
    stats, schema = snapshot.stats_of(part), snapshot.schema
    for other in stays:
        theirs = snapshot.stats_of(other)
        if any(_apart(stats, theirs, name, schema) for name in settings.primary_key):
            continue
        if version is not None and _above(theirs, stats, version, schema):
            continue
        return True
    return False


def _bounds(stats: Stats, column: str, schema: Mapping[str, str]) -> tuple[Any, Any] | None:
    """Return comparable bounds of a column without nulls; None if they are unknown."""
    bounds, kind = stats.get(column), normalise(schema.get(column, ""))
    key = bound_key(kind)
    if bounds is None or key is None or bounds[2] or bounds[0] is None or bounds[1] is None:
        return None

    def comparable(value: Scalar) -> Any:  # noqa: ANN401 - of one type per column
        return key(canonical(kind, value))

    try:
        return comparable(bounds[0]), comparable(bounds[1])
    except (ValueError, TypeError):
        return None  # bounds of another type, which a foreign writer may leave


def _apart(a: Stats, b: Stats, column: str, schema: Mapping[str, str]) -> bool:
    """Return True if two parts certainly share no value of a column."""
    one, two = _bounds(a, column, schema), _bounds(b, column, schema)
    return one is not None and two is not None and (one[1] < two[0] or two[1] < one[0])


def _above(a: Stats, b: Stats, column: str, schema: Mapping[str, str]) -> bool:
    """Return True if all values of the first part are certainly larger than those of the second."""
    one, two = _bounds(a, column, schema), _bounds(b, column, schema)
    return one is not None and two is not None and bool(one[0] > two[1])
