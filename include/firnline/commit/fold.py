"""Content of a transaction's log file besides its own changes (docs/format.md, "Folding").

Folding limits the size of the log and never matters for correctness: it gathers small log files
into one, each marker in its state in the snapshot and not in the file (for v1 readers, who go by
file order, a stale alive copy would win). Pure functions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import msgspec

from firnline.log import dated, keyed, taken_back
from firnline.log.fence import Fence
from firnline.log.reader import LogObject
from firnline.log.records import Delete, LogTombstone, Marker
from firnline.log.superseded import without_superseded
from firnline.state.snapshot import Snapshot, standing

TIER = 2
"""Factor: a merged log file is folded if it is at most this many times what is gathered."""


@dataclass(frozen=True, slots=True)
class Folded:
    """Content that a transaction's log file takes over from others."""

    keys: tuple[str, ...]
    markers: tuple[Marker, ...]
    tombstones: tuple[LogTombstone, ...]
    deletes: tuple[Delete, ...]
    other: tuple[bytes, ...]
    standing: tuple[int, ...]
    """Transactions of the base whose log files stay unfolded: readers check that all exist."""


def choose(
    snapshot: Snapshot, own_bytes: int, purged: int = 0, head_bytes: int = 0
) -> tuple[str, ...]:
    """Choose log files to fold: appends, what v1 clients folded, merged ones by size, emptied.

    With tiers a commit rewrites O(change x log N) of the log, and a table of N parts keeps
    O(log N) merged log files. A file of which at least half may be left out is folded whatever
    its size: the space saved pays for the rewriting, and nothing else would ever remove it.

    Args:
        snapshot: the base of the transaction.
        own_bytes: bytes that the transaction writes in any case.
        purged: purge horizon of the transaction.
        head_bytes: bytes of the content common to every log file, counted also in those to fold.
    """
    unfolded = [snapshot.listing[key] for key in standing(snapshot.log)]
    kept = {
        item.name.key: item.size
        for item in unfolded
        # A client of version 1 carries no extension records: what only it has folded is folded
        # again, with them, before our tombstone says that no reader needs it.
        if item.name.kind == "append" or item.name.key in snapshot.log_tombstones
    }
    kept |= _emptied(snapshot, unfolded, purged)
    gathered = head_bytes + own_bytes + sum(kept.values())
    merged = [item for item in unfolded if item.name.key not in kept]
    for item in sorted(merged, key=lambda item: (item.size, item.name.key)):
        # A log file with nothing behind its head would end in a newline, on which clients of
        # version 1 fail: so at least one is folded.
        if item.size > TIER * gathered and (kept or own_bytes):
            break
        kept[item.name.key] = item.size
        gathered += item.size
    return tuple(sorted(kept))


def _emptied(snapshot: Snapshot, items: Iterable[LogObject], purged: int) -> dict[str, int]:
    """Return the log files with half their markers, or half of all lines, removable.

    With the approximate bytes that are left of each. Half the tombstones are not enough: of a log
    file of a thousand markers the only one would have all of them written again.
    """
    gone = {p for p, m in snapshot.parts.items() if m.tmb is not None and m.tmb <= purged}
    gone -= _listed_alive(snapshot, gone)
    passed = {p for p, t in snapshot.log_tombstones.items() if t <= snapshot.fence.t}
    gone |= passed - snapshot.listing.keys()
    emptied: dict[str, int] = {}
    for item in items if gone else ():
        content = snapshot.contents[item.name.key]
        markers = [marker.p in gone for marker in content.markers]
        lines = markers + [tombstone.p in gone for tombstone in content.tombstones]
        if any(True in each and 2 * sum(each) >= len(each) for each in (markers, lines)):
            emptied[item.name.key] = item.size * lines.count(False) // len(lines)
    return emptied


def fold(
    snapshot: Snapshot,
    keys: tuple[str, ...],
    t: int,
    *,
    own: frozenset[str],
    purged: int,
    delete_cutoff: int,
    fence: Fence,
    keys_cutoff: int = 0,
) -> Folded:
    """Gather the content of log files, each marker in its state in the snapshot.

    Args:
        snapshot: the base of the transaction.
        keys: log files to fold, all of them read.
        t: time of the transaction.
        own: parts whose markers the transaction writes itself.
        purged: purge horizon of the transaction.
        delete_cutoff: a delete visible since before this time (unix ms) may be dropped.
        fence: that of the transaction.
        keys_cutoff: the key of an append seen before this time (unix ms) may be dropped; 0: none.
    """
    carried = _carried(snapshot, keys, own, purged)
    open_still = {*standing(snapshot.log)}.difference(keys)
    tombstones = dict.fromkeys(keys, t) | _log_tombstones(snapshot, keys, open_still, fence)
    deletes = {d.id: d for key in keys for d in snapshot.contents[key].deletes}
    stay = frozenset(open_still)
    lines = [
        line
        for key in keys
        for line in keyed.as_folded(
            snapshot.contents[key].other, t, snapshot.listing[key].modified_ms
        )
    ]
    other = keyed.without_expired(without_superseded(lines), keys_cutoff, fence.t)
    return Folded(
        keys=keys,
        markers=tuple(carried),
        tombstones=tuple(LogTombstone(p, at) for p, at in sorted(tombstones.items())),
        deletes=tuple(
            delete
            for delete in deletes.values()
            if not delete_is_over(snapshot, delete, delete_cutoff, purged, stay, fence)
        ),
        other=tuple(_needed(snapshot, other, purged)),
        standing=tuple(sorted(s for key in open_still if (s := snapshot.listing[key].name.seq))),
    )


def _needed(snapshot: Snapshot, lines: Sequence[bytes], purged: int) -> Iterator[bytes]:
    """Leave out dates and spans that are over; all parts count, not only the folded ones."""
    best = dated.recorded(lines)
    used = snapshot.dates_used() if best else frozenset()
    kept = (line for line in lines if not dated.is_corrected(line, best))
    return (
        line
        for line in kept
        if not (dated.is_over(line, purged, used) or taken_back.is_over(line, purged))
    )


def _log_tombstones(
    snapshot: Snapshot, keys: Iterable[str], open_still: set[str], fence: Fence
) -> dict[str, int]:
    """Return the log tombstones to carry on: log file -> time of its first folding, unix ms.

    The tombstone of a deleted log file is no longer needed once the fence has passed the
    transaction that first folded it. Until then whoever created it may have slept, and create it
    once more. And a listing of several pages is not atomic: a log file may land on a page that was
    read already, and the transaction that folded it on a page that was not.
    """
    carried: dict[str, int] = {}
    for tombstone in (item for key in keys for item in snapshot.contents[key].tombstones):
        at = snapshot.log_tombstones[tombstone.p]
        there = tombstone.p in snapshot.listing or at > fence.t
        # The tombstone of a v1 client for a file that nothing else has folded is not taken over.
        if there and tombstone.p not in open_still:
            carried[tombstone.p] = at
    return carried


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
    """Return the parts that some existing log file, folded or not, still lists alive."""
    if snapshot.skipped:
        # The content of an unread file is unknown: keep every marker.
        return set(paths)
    return {
        m.p
        for content in snapshot.contents.values()
        for m in content.markers
        if m.tmb is None and m.p in paths
    }


def with_sequence(snapshot: Snapshot, marker: Marker) -> Marker:
    """Return the marker as a transaction rewrites it: with the sequence of its part.

    The sequence of a foreign part follows from the names of transactions that may be folded and
    gone by the time this copy is read, so it is written down now.
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
    fence: Fence | None = None,
) -> bool:
    """Return True if no pending append can still land before the delete, and no part needs it.

    The record may also be a change of the schema: every part without that change needs it, and so
    do schema lines that would mean something else without it.

    A dead part needs a delete as long as a reader may ask for a time at which the part was live and
    the delete in effect: without the record its rows would come back in that past.

    Args:
        snapshot: the state.
        delete: the record.
        cutoff: unix ms; the record must have been visible since before this time.
        purged: purge horizon from then on.
        stay: log files whose schema lines count from then on; None: those that count now.
        fence: the fence from then on; None: that of the state.
    """
    passed = snapshot.fence if fence is None else fence
    # An append that began before the record, and slept, lands behind the fence.
    if delete.seq > passed.seq or visible_since(snapshot, delete.id) > cutoff:
        return False
    if any(change.id == delete.id for change in snapshot.changes):
        return _change_is_over(snapshot, delete.id, purged, stay)
    latest = max(purged, delete.t)
    return not any(
        delete in snapshot.pending_deletes(marker, snapshot.paths.partition_of(path))
        for path, marker in snapshot.parts.items()
        if marker.tmb is None or marker.tmb > latest
    )


def _change_is_over(
    snapshot: Snapshot, change_id: str, purged: int, stay: frozenset[str] | None
) -> bool:
    lines = standing(snapshot.log) if stay is None else stay
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
    """Return the oldest last-modified time of the log files that carry a delete, unix ms.

    Not the delete's own ``t``: a committer may have died between commit and publication. Log
    files that were not read could only make the result earlier, so it errs on the side of keeping
    the record.
    """
    return min(
        snapshot.listing[key].modified_ms
        for key, content in snapshot.contents.items()
        if any(d.id == delete_id for d in content.deletes)
    )
