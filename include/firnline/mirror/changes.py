"""The difference between what the mirror shows and the newest state of the table.

Appends have no order, so a version names the state that it shows as a stream's offset does: the
newest transaction, and the appends that none has folded. From both, the table's own log tells which
parts came since and which went, without a look at earlier versions of the mirror. Whether that was
all of them is known by their number, which a version states too. Where the log does not tell, as
after a rebuild, the mirror itself is read. Pure functions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from firnline.log.records import REARRANGING, Marker
from firnline.mirror.position import Position
from firnline.state.snapshot import Snapshot

_RESTARTS = frozenset({"rebuild", "downgrade", "clone"})
"""Transactions that bring parts which are not dated by them."""


@dataclass(frozen=True, slots=True)
class Hidden:
    """Rows that deletes hide in parts that the mirror shows."""

    rows: Mapping[str, int] = field(default_factory=dict)
    """Number of rows that a version hides, by path as the mirror spells it."""
    pending: frozenset[str] = frozenset()
    """Keys of the live parts of which deletes may hide rows."""


NONE_HIDDEN = Hidden()

Ops = Callable[[Iterable[int]], Mapping[int, str]]
"""Numbers of transactions -> their ``op``; those that are not known any more are left out."""
Spell = Callable[[str], str]
"""Key of a part -> its path as the mirror spells it."""


@dataclass(frozen=True, slots=True)
class Difference:
    """The files that come and go with the next version."""

    adds: tuple[Marker, ...]
    removes: tuple[tuple[str, int | None], ...]
    """Path as the mirror spells it, bytes."""
    rearranged: frozenset[str] = frozenset()
    """Keys and paths of files that come and go without a change of any row."""
    replayed: bool = False
    """The mirror itself was read."""

    @property
    def empty(self) -> bool:
        """Return True if the files are the same."""
        return not (self.adds or self.removes)


@dataclass(frozen=True, slots=True)
class State:
    """The state that a version shows, as its ``commitInfo`` states it."""

    seq: int
    t: int
    seen: str


def state_of(snapshot: Snapshot) -> State:
    """Return the newest transaction of a state and the appends that none has folded."""
    dates = {seq: t for t, seq in snapshot.times}
    seen = sorted(map(snapshot.paths.append_name, unfolded(snapshot)))
    return State(snapshot.seq, dates.get(snapshot.seq, 0), " ".join(seen))


def unfolded(snapshot: Snapshot) -> list[str]:
    """Return the keys of the appends of a state that no transaction has folded."""
    folded = snapshot.log_tombstones
    return [
        key
        for key, item in snapshot.listing.items()
        if item.name.kind == "append" and key not in folded
    ]


def told_since(grace_ms: int, now_ms: int) -> tuple[int, int]:
    """Return since when the log tells about every transaction and append: half of the grace."""
    return now_ms - grace_ms // 2, now_ms


def find_difference(
    snapshot: Snapshot,
    position: Position | None,
    replayed: Callable[[], Iterable[str]],
    ops: Ops,
    spell: Spell,
    *,
    told_ms: tuple[int, int],
    queried: bool,
    hidden: Hidden = NONE_HIDDEN,
) -> Difference:
    """Return what changes between the state of a version and the newest one.

    Args:
        snapshot: the newest state.
        position: of the version; None for a table without a mirror.
        replayed: returns the paths that the mirror shows, where the log does not tell.
        ops: looks transactions up that the log does not hold as such any more.
        spell: returns a part's path in the mirror.
        told_ms: first and last time, unix ms, of which the log tells all transactions and appends
            since; see ``told_since``.
        queried: merges run a query, which may change rows, where the log does not say if one did.
        hidden: rows that deletes hide.
    """
    if position is None:
        return Difference(tuple(_sorted(snapshot.live.values())), ())
    state = state_of(snapshot)
    if (position.seq, position.t, position.seen, position.files) == (
        state.seq,
        state.t,
        state.seen,
        len(snapshot.live),
    ) and not _has_foreign(snapshot):
        return Difference((), ())
    first, last = told_ms
    if first <= position.at <= last:
        difference = _by_log(snapshot, position, ops, spell, hidden, queried=queried)
        if difference is not None:
            return difference
    return by_replay(snapshot, frozenset(replayed()), spell)


def by_replay(snapshot: Snapshot, shown: frozenset[str], spell: Spell) -> Difference:
    """Return what changes, by the paths that the mirror shows."""
    live = {spell(key): marker for key, marker in snapshot.live.items()}
    adds = _sorted(marker for path, marker in live.items() if path not in shown)
    sizes = {spell(m.p): m.b for m in snapshot.parts.values() if m.tmb is not None}
    removes = sorted((path, sizes.get(path)) for path in shown if path not in live)
    return Difference(tuple(adds), tuple(removes), replayed=True)


def _by_log(
    snapshot: Snapshot,
    position: Position,
    ops: Ops,
    spell: Spell,
    hidden: Hidden,
    *,
    queried: bool,
) -> Difference | None:
    """Return the difference by the table's log; None if the log does not tell."""
    dates = _dates_since(snapshot, position)
    if dates is None:
        return None
    kinds = _kinds(snapshot, dates, ops)
    if len(kinds) < len(dates) or not _RESTARTS.isdisjoint(kinds.values()):
        return None
    gone = frozenset(dates.values())
    new, live = _new_parts(snapshot, position, gone), snapshot.live
    adds = [m for m in live.values() if new.has(m)]
    dead = [m for m in snapshot.parts.values() if m.tmb in gone]
    removed = [m for m in dead if not new.has(m)]
    if position.files + len(adds) - len(removed) != len(live):
        return None
    moved: frozenset[str] = frozenset()
    same = REARRANGING.issuperset(kinds.values()) and len(removed) == len(dead)
    made = [m for m in adds if m.t in gone]
    same = same and not _is_queried(snapshot, kinds, unsaid=queried)
    same = same and hidden.pending.isdisjoint(m.p for m in made)
    left_out = sum(hidden.rows.get(spell(m.p), 0) for m in removed) if same else 0
    if same and _as_many(removed, made, left_out):
        moved = frozenset([*(m.p for m in made), *(spell(m.p) for m in removed)])
    removes = sorted((spell(m.p), m.b) for m in removed)
    return Difference(tuple(_sorted(adds)), tuple(removes), moved)


def _dates_since(snapshot: Snapshot, position: Position) -> dict[int, int] | None:
    """Return number -> date of all transactions since a version; None if one is not known."""
    if _has_foreign(snapshot):
        return None
    dates = {seq: t for t, seq in snapshot.times}
    if position.seq and dates.get(position.seq, position.t) != position.t:
        return None  # the log was made again
    since = range(position.seq + 1, snapshot.seq + 1)
    if snapshot.seq < position.seq or not all(seq in dates for seq in since):
        return None
    return {seq: dates[seq] for seq in since}


def _has_foreign(snapshot: Snapshot) -> bool:
    """Return True if a client of version 1, which keeps no record of it, has folded log files."""
    return any(item.name.kind == "foreign-merge" for item in snapshot.listing.values())


@dataclass(frozen=True, slots=True)
class _New:
    """Parts that came since a version."""

    keys: frozenset[str]
    dates: frozenset[int]

    def has(self, marker: Marker) -> bool:
        return marker.t in self.dates or marker.p in self.keys


def _new_parts(snapshot: Snapshot, position: Position, dates: frozenset[int]) -> _New:
    """Return the parts of transactions and of appends since a version.

    Those of an append that was folded meanwhile are known by its date only. Another append may have
    the same one; then there is one part too many, which their number shows.
    """
    paths = snapshot.paths
    seen = frozenset(f"{paths.log_dir}{name}.jsonl" for name in position.seen.split())
    times = set(dates)
    keys: set[str] = set()
    for key, t in snapshot.log_tombstones.items():
        if t in dates and key not in seen:
            name = paths.parse_log(key)
            if name.kind == "append":
                times.add(name.t)
    for key in unfolded(snapshot):
        if key not in seen:
            content = snapshot.contents.get(key)
            if content is None:  # a checkpoint holds it
                times.add(snapshot.listing[key].name.t)
            else:
                keys.update(marker.p for marker in content.markers)
    return _New(frozenset(keys), frozenset(times))


def _kinds(snapshot: Snapshot, dates: Mapping[int, int], ops: Ops) -> dict[int, str]:
    ops_by_seq = {c.x.seq: c.x.op for c in snapshot.contents.values() if c.x is not None}
    kinds = {seq: ops_by_seq[seq] for seq in dates if seq in ops_by_seq}
    folded = [seq for seq in dates if seq not in ops_by_seq]
    return {**kinds, **ops(folded)} if folded else kinds


def _is_queried(snapshot: Snapshot, kinds: Mapping[int, str], *, unsaid: bool) -> bool:
    """Return True if a merge among some transactions ran a query of the user, who may change rows.

    Args:
        snapshot: the newest state.
        kinds: number -> ``op``.
        unsaid: of a merge of which the log does not say it, or not any more.
    """
    queries = {c.x.seq: c.x.query for c in snapshot.contents.values() if c.x is not None}
    of_merges = [queries.get(seq) for seq, op in kinds.items() if op == "merge"]
    return any(unsaid if query is None else query for query in of_merges)


def _as_many(before: Iterable[Marker], after: Iterable[Marker], hidden: int) -> bool:
    """Return True if parts are known to show as many rows as others.

    Args:
        before: parts that went.
        after: parts that came.
        hidden: rows of the former that the version hid.
    """
    old, new = [m.n for m in before], [m.n for m in after]
    if None in old or None in new:
        return False
    return sum(n or 0 for n in old) - hidden == sum(n or 0 for n in new)


def _sorted(markers: Iterable[Marker]) -> list[Marker]:
    return sorted(markers, key=lambda marker: marker.p)
