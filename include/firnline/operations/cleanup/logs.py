"""Select the folded log files whose deletion loses nothing (docs/format.md, "Clean-up").

Whoever folds a log file carries all of it, so its tombstone alone would do for our own folds. But
clients of version 1 drop extension records when they fold, and a mistake here loses rows: every
record is looked up in the log files that stay.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass

from firnline.commit.fold import delete_is_over
from firnline.log import dated, keyed
from firnline.log.records import LogContent, Marker
from firnline.log.superseded import without_superseded
from firnline.state.snapshot import Snapshot, union_parts
from firnline.types.sql import fold_name

_FOR_EVER = 2**62
"""A time after all others, unix ms: the age of a record does not count."""


def deletable(
    snapshot: Snapshot, due: Set[str], delete_cutoff: int, keys_cutoff: int
) -> frozenset[str]:
    """Return those of ``due`` whose every record stands in a log file that stays.

    Args:
        snapshot: read with ``everything=True``.
        due: folded log files that every reader has had time to see folded.
        delete_cutoff: a delete visible since before this time (unix ms) may be forgotten.
        keys_cutoff: the key of an append seen before this time (unix ms) may be forgotten.
    """
    stays = _newest_and_standing(snapshot)
    going = {key for key in due if snapshot.listing[key].name.seq not in stays}
    going -= _witnesses(snapshot, going)
    while going:
        rest = _rest(snapshot, going)
        lost = {k for k in going if _lacks(snapshot, rest, k, delete_cutoff, keys_cutoff)}
        if not lost:
            break
        # Else the log files that stay could list a part alive that only a deleted one lists dead.
        going -= lost
    return frozenset(going)


def _newest_and_standing(snapshot: Snapshot) -> frozenset[int]:
    """Return the newest transaction and those it says stand that only a v1 client has folded.

    Without its log file the next base would take an older transaction for the newest and publish
    this one again, with parts alive that are dead by then. Without one of the others the log would
    be taken for lost (``state.health``). The next transaction folds them, and they may go.
    """
    mark = snapshot.log.mark
    return frozenset() if mark is None else frozenset((mark.seq, *(mark.standing or ())))


def _witnesses(snapshot: Snapshot, going: Set[str]) -> frozenset[str]:
    """Return the log files that say for how long a record has been visible that no part needs.

    A fold drops such a record once the oldest log file that carries it is older than any append
    under way. If clean-up took that file before, the next oldest would count, of the last fold: the
    record would stay for as long as the table is looked after, and an erase's keys with it.
    """
    carriers: dict[str, list[str]] = {}
    for key, content in snapshot.contents.items():
        for delete in content.deletes:
            carriers.setdefault(delete.id, []).append(key)
    oldest = {
        record: min(keys, key=lambda key: snapshot.listing[key].modified_ms)
        for record, keys in carriers.items()
        if not going >= set(keys)
    }
    return frozenset(
        key
        for record, key in oldest.items()
        if key in going
        and record in snapshot.records
        and delete_is_over(snapshot, snapshot.records[record], _FOR_EVER, snapshot.purged)
    )


@dataclass(frozen=True, slots=True)
class _Rest:
    """The contents of the log files that stay."""

    parts: Mapping[str, Marker]
    columns: Set[str]
    """By ``fold_name``."""
    deletes: Set[str]
    properties: Set[tuple[int, str]]
    """By ``PropertiesRecord.identity``."""
    other: Set[bytes]
    keys: Set[tuple[str, int]]
    """Of appends (``keyed.named``)."""


def _rest(snapshot: Snapshot, going: Set[str]) -> _Rest:
    contents = [content for key, content in snapshot.contents.items() if key not in going]
    other = {line for content in contents for line in content.other}
    return _Rest(
        parts=union_parts(contents),
        columns=set().union(*(_stated(snapshot, key) for key in snapshot.contents.keys() - going)),
        deletes={delete.id for content in contents for delete in content.deletes},
        properties={r.identity for content in contents for r in content.properties},
        other=other,
        keys=keyed.named(other),
    )


def _lacks(snapshot: Snapshot, rest: _Rest, key: str, delete_cutoff: int, keys_cutoff: int) -> bool:
    content = snapshot.contents[key]
    return (
        _date_lost(snapshot, rest, key)
        or any(_marker_lost(snapshot, rest, marker.p) for marker in content.markers)
        or not _columns(snapshot, key) <= rest.columns
        or _properties_lost(rest, content)
        or _others_lost(snapshot, rest, _others(snapshot, rest, key, keys_cutoff))
        or any(
            delete.id not in rest.deletes
            and not delete_is_over(snapshot, delete, delete_cutoff, snapshot.purged)
            for delete in content.deletes
        )
    )


def _properties_lost(rest: _Rest, content: LogContent) -> bool:
    """Return True if only this log file states a property that nothing has superseded.

    The log file of each transaction says all that somebody may still go by.
    """
    newest = max((seq for seq, _ in rest.properties), default=-1)
    return any(r.identity not in rest.properties and r.seq >= newest for r in content.properties)


def _date_lost(snapshot: Snapshot, rest: _Rest, key: str) -> bool:
    """Return True while the listing alone says when a log file that is dated far ahead was there.

    The next transaction writes it down.
    """
    t = snapshot.listing[key].name.t
    seen = snapshot.dated.get(t)
    if seen is None or dated.recorded(rest.other).get(t, seen + 1) <= seen:
        return False
    return t >= snapshot.purged or t in snapshot.dates_used()


def _others(snapshot: Snapshot, rest: _Rest, key: str, keys_cutoff: int) -> list[bytes]:
    """Return the extension records of a log file without keys that are carried, or over.

    Whoever folds the log file of an append adds to its record when that was.
    """
    at, seen = snapshot.log_tombstones.get(key, 0), snapshot.listing[key].modified_ms
    return [
        line
        for line in keyed.as_folded(snapshot.contents[key].other, at, seen)
        if keyed.named([line]).isdisjoint(rest.keys)
        and not keyed.is_over(line, keys_cutoff, snapshot.fence.t)
    ]


def _others_lost(snapshot: Snapshot, rest: _Rest, lines: Sequence[bytes]) -> bool:
    """Return True if an extension record stands nowhere else and may still be needed."""
    missing = {line for line in lines if line not in rest.other}
    if missing:
        used, best = snapshot.dates_used(), dated.recorded(rest.other)
        missing = {line for line in missing if not dated.is_corrected(line, best)}
        missing = {ln for ln in missing if not dated.is_over(ln, snapshot.purged, used)}
    # A later batch of the same query, and a later erase, stand for those before them.
    return bool(missing) and not missing.isdisjoint(without_superseded(rest.other | missing))


def _stated(snapshot: Snapshot, key: str) -> set[str]:
    return {fold_name(name) for name in snapshot.line(key)}


def _columns(snapshot: Snapshot, key: str) -> set[str]:
    """Return the table's columns that a log file states; a dropped column is not lost with it."""
    stated = _stated(snapshot, key)
    return stated if snapshot.conflict else stated & {fold_name(name) for name in snapshot.schema}


def _marker_lost(snapshot: Snapshot, rest: _Rest, path: str) -> bool:
    state, kept = snapshot.parts[path], rest.parts.get(path)
    if kept is None:
        return state.tmb is None or state.tmb > snapshot.purged
    return kept.tmb != state.tmb
