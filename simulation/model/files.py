"""Log files of the model and what a reader makes of them (``log.records``, ``state.snapshot``)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

Rows = frozenset[str]


class Marker(NamedTuple):
    """A part in a log file; its rows stand here and not in an object, because nobody changes it."""

    part: str
    q: int
    done: frozenset[str]
    """Records that are applied in it (``d``)."""
    rows: Rows


class Record(NamedTuple):
    """A delete record."""

    name: str
    seq: int
    rows: Rows


class Stone(NamedTuple):
    """A log tombstone."""

    file: str
    seq: int
    """Transaction that folded the log file first."""


class File(NamedTuple):
    """A log file; one of a transaction is its object under ``_txn/`` too."""

    name: str
    seq: int
    """Number of the transaction; 0 for an append."""
    q: int
    alive: frozenset[Marker] = frozenset()
    dead: frozenset[tuple[Marker, int]] = frozenset()
    """With the number of the transaction that killed it."""
    stones: frozenset[Stone] = frozenset()
    records: frozenset[Record] = frozenset()
    standing: frozenset[int] = frozenset()
    fence: int = 0
    candidates: frozenset[tuple[int, int]] = frozenset()
    """Transactions above the fence, with the tick at which their log files were written."""
    purged: int = 0
    before: str = ""
    """Name of the transaction before: stands for its digest."""


class Ref:
    """A log file that is compared and hashed by identity: equal files are one object."""

    __slots__ = ("file", "key", "name", "seq")
    known: dict[File, Ref] = {}

    def __init__(self, file: File) -> None:
        self.file, self.seq, self.name = file, file.seq, file.name
        self.key = (file.seq, file.name, len(Ref.known))

    @classmethod
    def of(cls, file: File) -> Ref:
        """Return the one object for these bytes."""
        found = cls.known.get(file)
        if found is None:
            found = cls.known[file] = cls(file)
        return found

    def __repr__(self) -> str:
        return self.name


Listing = tuple[tuple[Ref, int], ...]
"""Log files with the tick at which each was last modified."""


@dataclass(frozen=True, slots=True)
class Snap:
    """What a reader sees (``state.snapshot.Snapshot``)."""

    seq: int
    newest: Ref | None
    fence: int
    purged: int
    live: dict[str, Marker]
    dead: dict[str, tuple[Marker, int]]
    records: dict[str, Record]
    unfolded: tuple[Ref, ...]
    """Log files that count and that no transaction has folded."""
    folded: frozenset[str]
    """Names of log files with a tombstone."""
    behind: tuple[Ref, ...]
    """Log files that do not count: they are behind the fence or came back."""
    whole: bool
    """False: a transaction that the newest one names as standing is missing."""

    def visible(self) -> dict[str, int]:
        """Return how often each row is seen."""
        found: dict[str, int] = {}
        for marker in self.live.values():
            for row in self.shown(marker):
                found[row] = found.get(row, 0) + 1
        return found

    def shown(self, marker: Marker) -> Rows:
        """Return the rows of a part that no record hides."""
        rows = marker.rows
        for record in self.records.values():
            if marker.q < record.seq and record.name not in marker.done:
                rows -= record.rows
        return rows


def read(files: frozenset[Ref], off: frozenset[str], *, everything: bool) -> Snap:
    """Unite log files as a reader does.

    Stands for ``log.reader.read_log``, ``log.fence.behind`` and ``state.snapshot.build``.

    Args:
        files: what is listed.
        off: rules that are switched off.
        everything: folded log files are read too, as by clean-up and sweep.
    """
    txns = [f for f in files if f.seq]
    newest = max(txns, key=lambda f: f.key, default=None)
    named = newest.file.standing if newest is not None else frozenset[int]()
    chain = [f for f in txns if f is newest or f.seq in named]
    stones = {s.file for f in chain for s in f.file.stones}
    fence = max((f.file.fence for f in chain), default=0)
    unfolded = [f for f in chain if f.name not in stones]
    behind: list[Ref] = []
    for f in files:
        if f.name not in stones and f not in chain:
            (behind if _counts_for_nobody(f, fence, off) else unfolded).append(f)
    unfolded.sort(key=lambda f: f.key)
    folded = [f for f in files if f.name in stones] if everything else []
    purged = 0 if newest is None else newest.file.purged
    live, dead = parts_of(unfolded, folded, purged, off)
    return Snap(
        seq=0 if newest is None else newest.seq,
        newest=newest,
        fence=fence,
        purged=purged,
        live=live,
        dead=dead,
        records={r.name: r for f in (*unfolded, *folded) for r in f.file.records},
        unfolded=tuple(unfolded),
        folded=frozenset(stones),
        behind=tuple(behind),
        whole=named <= {f.seq for f in txns},
    )


def _counts_for_nobody(file: Ref, fence: int, off: frozenset[str]) -> bool:
    """Return True for a log file that came back or is behind the fence (F2)."""
    if file.seq:
        return "readers take log files that came back" not in off
    return "readers take what is behind the fence" not in off and file.file.q < fence


def parts_of(
    unfolded: list[Ref], folded: list[Ref], purged: int, off: frozenset[str]
) -> tuple[dict[str, Marker], dict[str, tuple[Marker, int]]]:
    """Return the live and the dead parts. Stands for ``state.folded.parts_of``."""
    alive: dict[str, Marker] = {}
    dead: dict[str, tuple[Marker, int]] = {}
    for f in (*unfolded, *folded):
        for m in f.file.alive:
            was = alive.get(m.part)
            alive[m.part] = m if was is None else m._replace(done=m.done | was.done)
        for m, at in f.file.dead:
            known = dead.get(m.part)
            dead[m.part] = (m, at if known is None else min(at, known[1]))
    if "an alive marker beats a dead one" in off:
        dead = {p: d for p, d in dead.items() if p not in alive}
    if folded and "folded log files list parts alive" not in off:
        named = {m.part for f in unfolded for m in f.file.alive}
        named |= {m.part for f in unfolded for m, _ in f.file.dead}
        forgotten = {p: m for p, m in alive.items() if p not in dead and p not in named}
        dead |= {p: (m, purged) for p, m in forgotten.items()}
    return {p: m for p, m in alive.items() if p not in dead}, dead
