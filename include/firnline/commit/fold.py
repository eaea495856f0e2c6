"""What a transaction's log file holds besides its own changes (docs/format.md, "Folding").

Folding is for size, never for correctness: it gathers small log files into one, each marker in
its state of the snapshot and not of the file (for v1 readers, who go by file order, a stale alive
copy would win). Pure functions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import msgspec

from firnline.log import dated
from firnline.log.reader import LogObject, LogRead
from firnline.log.records import Delete, LogTombstone, Marker
from firnline.log.sinks import without_superseded
from firnline.state.snapshot import Snapshot, standing

TIER = 2
"""A merged log file is folded while it is no larger than this many times what is gathered."""


@dataclass(frozen=True, slots=True)
class Folded:
    """What a transaction's log file takes over from others."""

    keys: tuple[str, ...]
    markers: tuple[Marker, ...]
    tombstones: tuple[LogTombstone, ...]
    deletes: tuple[Delete, ...]
    other: tuple[bytes, ...]
    standing: tuple[int, ...]
    """Transactions of the base whose log files nobody has folded then: readers miss none."""


def choose(
    snapshot: Snapshot, own_bytes: int, purged: int = 0, head_bytes: int = 0
) -> tuple[str, ...]:
    """Which log files to fold: appends, what v1 clients folded, merged ones by size tiers, emptied.

    With tiers a commit rewrites O(change x log N) of the log, and a table of N parts keeps
    O(log N) merged log files. A file of which at least half may be left out is folded whatever
    its size: what goes pays for what is written again, and nobody else would ever get rid of it.

    Args:
        snapshot: the base of the transaction.
        own_bytes: size of what the transaction writes anyway.
        purged: purge horizon of the transaction.
        head_bytes: of what every log file has besides, as the ones to fold have it.
    """
    unfolded = [snapshot.listing[key] for key in standing(_log(snapshot))]
    kept = {
        item.name.key: item.size
        for item in unfolded
        # A client of version 1 carries no extension records: what it alone has folded is folded
        # again, with them, before a tombstone of ours says that nobody need read it.
        if item.name.kind == "append" or item.name.key in snapshot.log_tombstones
    }
    kept |= _emptied(snapshot, unfolded, purged)
    gathered = head_bytes + own_bytes + sum(kept.values())
    merged = [item for item in unfolded if item.name.key not in kept]
    for item in sorted(merged, key=lambda item: (item.size, item.name.key)):
        # A log file with nothing at all behind its head would end in a newline, at which clients
        # of version 1 stumble: one is folded in any case.
        if item.size > TIER * gathered and (kept or own_bytes):
            break
        kept[item.name.key] = item.size
        gathered += item.size
    return tuple(sorted(kept))


def _emptied(snapshot: Snapshot, items: Iterable[LogObject], purged: int) -> dict[str, int]:
    """Log files at least half of whose markers may be left out -> about the bytes that stay."""
    gone = {p for p, m in snapshot.parts.items() if m.tmb is not None and m.tmb <= purged}
    gone -= _listed_alive(snapshot, gone)
    found: dict[str, int] = {}
    for item in items if gone else ():
        markers = snapshot.contents[item.name.key].markers
        left_out = sum(m.p in gone for m in markers)
        if left_out and 2 * left_out >= len(markers):
            found[item.name.key] = item.size * (len(markers) - left_out) // len(markers)
    return found


def fold(
    snapshot: Snapshot,
    keys: tuple[str, ...],
    t: int,
    *,
    own: frozenset[str],
    purged: int,
    delete_cutoff: int,
    stone_cutoff: int,
) -> Folded:
    """Gather the content of log files in its state of the snapshot.

    Args:
        snapshot: the base of the transaction.
        keys: log files to fold, all of them read.
        t: time of the transaction.
        own: parts whose markers the transaction writes itself.
        purged: purge horizon of the transaction.
        delete_cutoff: a delete visible since before this time (unix ms) may be dropped.
        stone_cutoff: a log file that is not listed and was folded before this time (unix ms) is
            gone: before the listing was begun, by a clock that is ahead by at most the grace.
    """
    carried = _carried(snapshot, keys, own, purged)
    open_still = {*standing(_log(snapshot))}.difference(keys)
    stones = dict.fromkeys(keys, t) | _stones(snapshot, keys, open_still, stone_cutoff)
    deletes = {d.id: d for key in keys for d in snapshot.contents[key].deletes}
    stay = frozenset(open_still)
    other = without_superseded(line for key in keys for line in snapshot.contents[key].other)
    return Folded(
        keys=keys,
        markers=tuple(carried),
        tombstones=tuple(LogTombstone(p, at) for p, at in sorted(stones.items())),
        deletes=tuple(
            delete
            for delete in deletes.values()
            if not delete_is_over(snapshot, delete, delete_cutoff, purged, stay)
        ),
        other=tuple(_needed(snapshot, other, purged)),
        standing=tuple(sorted(s for key in open_still if (s := snapshot.listing[key].name.seq))),
    )


def _needed(snapshot: Snapshot, lines: Sequence[bytes], purged: int) -> Iterator[bytes]:
    """Without dates that are over; all parts count, not only those that are folded."""
    best = dated.recorded(lines)
    used = snapshot.dates_used() if best else frozenset()
    kept = (line for line in lines if not dated.is_corrected(line, best))
    return (line for line in kept if not dated.is_over(line, purged, used))


def _stones(
    snapshot: Snapshot, keys: Iterable[str], open_still: set[str], cutoff: int
) -> dict[str, int]:
    """Return the log tombstones to carry on: log file -> when it was first folded, unix ms.

    One for a log file that is gone has done its work. But a listing of several pages is not of one
    moment: a log file may land on a page that was read already, and who has folded it on one that
    was not. That transaction is then younger than the base, and so than the cutoff.
    """
    # The clock of who has folded it may have been behind: then the store says when that was. One
    # that is dated years ahead took effect when it was there.
    written = {i.name.t: i.modified_ms for i in snapshot.listing.values() if i.name.seq}
    found: dict[str, int] = {}
    for stone in (stone for key in keys for stone in snapshot.contents[key].tombstones):
        at = snapshot.log_tombstones[stone.p]
        folded = max(snapshot.effective(at), written.get(at, 0))
        there = stone.p in snapshot.listing or folded > cutoff
        # One of a v1 client's, for a file that nobody else has folded, is not taken over.
        if there and stone.p not in open_still:
            found[stone.p] = at
    return found


def _log(snapshot: Snapshot) -> LogRead:
    return LogRead(snapshot.listing, snapshot.contents)


def _carried(
    snapshot: Snapshot, keys: Iterable[str], own: frozenset[str], purged: int
) -> list[Marker]:
    named = {m.p: None for key in keys for m in snapshot.contents[key].markers}
    states = [snapshot.parts[path] for path in named if path not in own]
    gone = {m.p for m in states if m.tmb is not None and m.tmb <= purged}
    if gone:
        gone -= _listed_alive(snapshot, gone)
    return [with_sequence(snapshot, m) for m in states if m.p not in gone]


def _listed_alive(snapshot: Snapshot, paths: set[str]) -> set[str]:
    """Which parts some existing log file, folded or not, still lists alive."""
    if snapshot.skipped:
        # What stands in a file that was not read is not known: keep every marker.
        return set(paths)
    return {
        m.p
        for content in snapshot.contents.values()
        for m in content.markers
        if m.tmb is None and m.p in paths
    }


def with_sequence(snapshot: Snapshot, marker: Marker) -> Marker:
    """Return the marker as a transaction writes it again: with the sequence of its part.

    That of a foreign part follows from the names of transactions that may be folded and gone by
    the time somebody reads this copy: what is known now is written down.
    """
    if marker.q is not None or not snapshot.times:
        return marker
    return msgspec.structs.replace(marker, q=snapshot.sequence_of(marker))


def delete_is_over(
    snapshot: Snapshot,
    delete: Delete,
    cutoff: int,
    purged: int,
    stay: frozenset[str] | None = None,
) -> bool:
    """No append that began before the delete can still land, and no part needs it.

    The record may also be a change of the schema: that is needed by every part that does not show
    it, whenever a reader asks for it, and by schema lines that would say something else without.

    A dead part needs it as long as a reader may ask for a time at which the part was live and the
    delete was there: without the record its rows would come back in that past.

    Args:
        snapshot: the state.
        delete: the record.
        cutoff: it must have been visible since before this time, unix ms.
        purged: purge horizon from then on.
        stay: log files whose schema lines count from then on; None: those that count now.
    """
    if visible_since(snapshot, delete.id) > cutoff:
        return False
    if any(change.id == delete.id for change in snapshot.changes):
        return _change_is_over(snapshot, delete.id, purged, stay)
    start, latest = len(snapshot.paths.data_dir), max(purged, delete.t)
    return not any(
        delete in snapshot.pending_deletes(marker, path[start : max(start, path.rfind("/"))])
        for path, marker in snapshot.parts.items()
        if marker.tmb is None or marker.tmb > latest
    )


def _change_is_over(
    snapshot: Snapshot, change_id: str, purged: int, stay: frozenset[str] | None
) -> bool:
    lines = standing(_log(snapshot)) if stay is None else stay
    without = replace(snapshot, changes=tuple(c for c in snapshot.changes if c.id != change_id))
    if any(dict(snapshot.line(key)) != dict(without.line(key)) for key in lines):
        return False
    return not any(
        change.id == change_id
        for marker in snapshot.parts.values()
        if marker.tmb is None or marker.tmb > purged
        for change in snapshot.pending_changes(marker)
    )


def visible_since(snapshot: Snapshot, delete_id: str) -> int:
    """Oldest last-modified time among the existing log files that carry a delete, unix ms.

    Not the delete's own ``t``: a committer may have died between commit and publication. Log
    files that were not read can only make this earlier than said, so the answer errs on the
    side of keeping the record.
    """
    return min(
        snapshot.listing[key].modified_ms
        for key, content in snapshot.contents.items()
        if any(d.id == delete_id for d in content.deletes)
    )
