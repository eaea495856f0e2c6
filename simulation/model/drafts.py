"""The log file of a transaction: own changes, and what it folds (``commit.fold``)."""

from __future__ import annotations

from dataclasses import dataclass, field

from simulation.model.files import File, Listing, Marker, Record, Ref, Rows, Snap, Stone

TTL = GRACE = 1
"""Ticks. One tick is longer than any of ``append.ttl``, ``commit_ttl`` and the grace, and what is
as old as all of them together is two ticks old."""


@dataclass(frozen=True, slots=True)
class Change:
    """What a transaction changes (``commit.change.Change``)."""

    kills: tuple[str, ...] = ()
    adds: tuple[Marker, ...] = ()
    hides: Rows | None = None
    """Rows of its delete record."""
    confirmed: frozenset[str] = frozenset()
    """Parts that a clean-up has seen deleted."""
    everything: bool = False


@dataclass(frozen=True, slots=True)
class Base:
    """A reading on which a transaction is prepared."""

    listing: Listing
    snap: Snap
    tick: int
    """When it was listed."""
    off: frozenset[str] = field(default=frozenset())
    wait: int = TTL + GRACE
    """Ticks after which whatever began before a transaction has ended."""


def draft(base: Base, change: Change, owner: str, now: int, *, keep_old: bool = False) -> Ref:
    """Return the log file of a transaction on a base.

    Stands for ``commit.transaction._draft`` and ``commit.fold.fold``.

    Args:
        base: the reading.
        change: what the transaction changes.
        owner: who commits it.
        now: tick of the clock.
        keep_old: leave the first log file as it is (``fold.choose`` goes by sizes).
    """
    snap, off, seq = base.snap, base.off, base.snap.seq + 1
    folds = [f for f in snap.unfolded if not (keep_old and f.seq == 1)]
    fence, candidates = fence_of(base)
    purged = _horizon(snap, change.confirmed)
    there = {f.name for f, _ in base.listing}
    kept = frozenset(
        s
        for f in folds
        for s in f.file.stones
        if s.file in there or (s.seq > fence and "a log tombstone goes before the fence" not in off)
    )
    own = [] if change.hides is None else [Record(f"delete of {owner}", seq, change.hides)]
    records = {r for f in folds for r in f.file.records}
    alive, dead = _carried(base, change, folds, seq, purged)
    return Ref.of(
        File(
            name=f"transaction {seq} of {owner}",
            seq=seq,
            q=snap.seq,
            alive=frozenset(alive),
            dead=frozenset(dead),
            stones=kept | {Stone(f.name, seq) for f in folds},
            records=frozenset({r for r in records if not _unneeded(r, base, fence, now)} | {*own}),
            standing=frozenset(f.seq for f in snap.unfolded if f.seq and f not in folds),
            fence=fence,
            candidates=candidates,
            purged=purged,
            before="" if snap.newest is None else snap.newest.name,
        )
    )


def fence_of(base: Base) -> tuple[int, frozenset[tuple[int, int]]]:
    """Return the fence that a transaction states (rule F1), and its candidates for later ones.

    Stands for ``log.fence.raised``.
    """
    wait = 0 if "the fence waits for nobody" in base.off else base.wait
    known = {(f.seq, written) for f, written in base.listing if f.seq}
    known.update(c for f in base.snap.unfolded for c in f.file.candidates)
    passed = (seq for seq, written in known if written <= base.tick - wait)
    fence = max(base.snap.fence, *passed, 0)
    return fence, frozenset(c for c in known if c[0] > fence)


def _horizon(snap: Snap, confirmed: frozenset[str]) -> int:
    """Stands for ``operations.cleanup.plan.purge_horizon``."""
    still = {p: at for p, (_, at) in snap.dead.items() if at > snap.purged}
    pending = min((at for p, at in still.items() if p not in confirmed), default=None)
    done = (at for at in still.values() if pending is None or at < pending)
    return max(done, default=snap.purged)


def _unneeded(record: Record, base: Base, fence: int, now: int) -> bool:
    """Stands for ``commit.fold.delete_is_over``, and for the fence of delete records."""
    if "delete records are dropped at once" in base.off:
        return True
    seen = min(at for f, at in base.listing if record in f.file.records)
    if seen > now - (TTL + GRACE):
        return False
    if record.seq > fence and "a delete record goes before the fence" not in base.off:
        return False
    return not any(
        m.q < record.seq and record.name not in m.done and record.rows & m.rows
        for m in base.snap.live.values()
    )


def _carried(
    base: Base, change: Change, folds: list[Ref], seq: int, purged: int
) -> tuple[list[Marker], list[tuple[Marker, int]]]:
    """Stands for ``commit.fold._carried`` and ``commit.transaction._own_markers``."""
    snap = base.snap
    named = {m.part for f in folds for m in (*f.file.alive, *(d for d, _ in f.file.dead))}
    if "a fold copies markers as they stand" in base.off:
        alive = [m for f in folds for m in f.file.alive if m.part not in change.kills]
        dead = [d for f in folds for d in f.file.dead]
    else:
        alive = [snap.live[p] for p in named if p in snap.live and p not in change.kills]
        dead = [snap.dead[p] for p in named if p in snap.dead]
        dead = [d for d in dead if d[1] > purged or d[0].part in _listed_alive(base, change)]
    killed = [(snap.live[p], seq) for p in change.kills if p in snap.live]
    return [*alive, *change.adds], [*dead, *killed]


def _listed_alive(base: Base, change: Change) -> set[str]:
    """Return the dead parts that an existing log file still lists alive."""
    if "a purge ignores who lists a part alive" in base.off:
        return set()
    if not change.everything and any(f.name in base.snap.folded for f, _ in base.listing):
        return {*base.snap.dead}  # what is in the folded ones was not read
    return {m.part for f, _ in base.listing for m in f.file.alive}
