"""What became of every row, by what was committed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from firnline.log.records import LogContent, Marker
from firnline.log.txn_file import TxnHeader
from firnline.state.snapshot import Snapshot
from simulation.keyed import Keyed, Row, in_order, seen, spans_another, superseded
from simulation.kinds import is_tombstone
from simulation.world import AHEAD, GRACE, TTL

_TAKES_PARTS = frozenset({"drop", "ttl", "rewrite"})
_REPLACES_PARTS = frozenset({"merge", "delete", "erase", "rewrite"})


@dataclass(frozen=True)
class Hides:
    """A condition on rows: those of these partitions and users, of an interval of keys."""

    partitions: frozenset[str]
    users: frozenset[str]
    keys: range | None = None

    def row(self, k: int, partition: str, user: str) -> bool:
        """Whether it is true for a row."""
        inside = self.keys is None or k in self.keys
        return inside and partition in self.partitions and user in self.users


@dataclass(frozen=True)
class Restores:
    """What a restore is asked to do."""

    to: int
    partitions: frozenset[str]
    exact: bool
    began: int
    """Step; what had landed by then is in its base."""


@dataclass
class Ledger:
    """Rows and the transactions that they met; of what is committed."""

    rows: Mapping[str, tuple[Row, ...]]
    """Of each part."""
    keyed: Keyed | None = None
    intents: dict[str, Hides] = field(default_factory=dict)
    """Run id -> what a delete or rewrite takes away."""
    restores: dict[str, Restores] = field(default_factory=dict)
    """Run id -> what it brings back."""
    brought: set[int] = field(default_factory=set)
    """Rows of replaces, which come with a transaction and not with an append."""
    born: dict[int, tuple[int, str, str]] = field(default_factory=dict)
    """Row -> data sequence of its append, partition, user."""
    born_at: dict[int, int] = field(default_factory=dict)
    """Row -> step in which its append landed."""
    born_t: dict[int, int] = field(default_factory=dict)
    """Row -> time of the log file that brought it."""
    gone: dict[int, set[int]] = field(default_factory=dict)
    """Row -> transactions that took it away."""
    deletes: dict[str, tuple[int, Hides]] = field(default_factory=dict)
    """Delete id -> sequence, condition."""
    erases: set[int] = field(default_factory=set)
    times: dict[int, int] = field(default_factory=dict)
    """Transaction -> its time."""
    late_ms: int = GRACE + TTL
    """After this long no append can bring an older row of a key: the shortest that ever was."""
    now_ms: int = 0
    """Store's clock when the newest transaction became visible."""
    published_at: dict[int, int] = field(default_factory=dict)
    """Transaction -> step."""
    undone: dict[int, list[tuple[int, frozenset[int]]]] = field(default_factory=dict)
    """Row -> (restore, transactions that are undone for it from then on)."""

    def add(self, k: int, row: tuple[int, str, str], step: int, t: int) -> None:
        """A row is there."""
        self.born[k] = row
        self.born_at[k] = step
        self.born_t[k] = t

    def transaction(
        self,
        header: TxnHeader,
        content: LogContent,
        step: int,
        listed: int,
        after: Callable[[], Snapshot],
    ) -> None:
        """One is committed.

        Args:
            header: its.
            content: its log file.
            step: now.
            listed: in which step it looked for late appends.
            after: the state with it.
        """
        self.times[header.seq] = header.t
        intent = self.intents.get(header.run.run_id)
        for delete in content.deletes:
            if delete.seq == header.seq and intent is not None:
                self.deletes[delete.id] = header.seq, intent
        if header.op == "erase":
            self.erases.add(header.seq)
        if header.op == "rebuild":  # what it finds is there since then at the latest
            self.born_t = {k: min(t, header.t) for k, t in self.born_t.items()}
        old = [m for m in content.markers if m.tmb == header.t]
        new = [m for m in content.markers if m.tmb is None and m.t == header.t]
        if header.op == "replace" and intent is not None:
            self.deletes[header.txn] = header.seq, intent  # whatever record it wrote
            self._new_rows(header, new, step)
        if self.keyed is not None and header.op in _REPLACES_PARTS:
            self._keyed(self.keyed, header, old, new, listed, after)
        if header.op in _TAKES_PARTS:
            self._take(header, old, intent)
        if header.op == "restore":
            self._restore(header, old, new)
            self._arrange(self.restores[header.run.run_id].partitions, after)

    def _new_rows(self, header: TxnHeader, new: list[Marker], step: int) -> None:
        """What a replace brought lies above all that was committed before it."""
        for marker in new:
            for k, p, u in self.rows[marker.p]:
                if k in self.brought and k not in self.born:
                    self.add(k, (header.seq, p, u), step, header.t)

    def _take(self, header: TxnHeader, old: list[Marker], intent: Hides | None) -> None:
        if self.keyed is not None and intent is not None and intent.keys is not None:
            return  # by what wins
        for row in self._rows(old):
            if header.op != "rewrite" or intent is None or intent.row(*row):
                self.gone.setdefault(row[0], set()).add(header.seq)

    def _rows(self, markers: list[Marker]) -> list[Row]:
        return [row for marker in markers for row in self.rows[marker.p]]

    # --- restores ---------------------------------------------------------------------------------

    def _restore(self, header: TxnHeader, old: list[Marker], new: list[Marker]) -> None:
        wanted = self.restores[header.run.run_id]
        t = self.times[wanted.to] if wanted.to else self.times[1] - 1
        away = frozenset(row[0] for row in self._rows(old))
        back = {row[0]: self._named(marker) for marker in new for row in self.rows[marker.p]}
        # Deletes that came between its base and its commit apply to the copies.
        sure = {n for n in range(wanted.to + 1, header.seq) if self._before(n, wanted.began)}
        for k, (q, p, _) in self.born.items():
            # Of what landed while it went on, its parts alone say whether it was in its base.
            if p not in wanted.partitions or (
                self.born_at[k] >= wanted.began and k not in back and k not in away
            ):
                continue
            if (k in self.brought and q > wanted.to) or (wanted.exact and self.born_t[k] > t):
                self.gone.setdefault(k, set()).add(header.seq)
                continue
            between = sure | back.get(k, frozenset())
            self.undone.setdefault(k, []).append(
                (header.seq, self._undone_at(k, wanted.to) | (between - self.erases))
            )

    def _named(self, marker: Marker) -> frozenset[int]:
        """Deletes that a copy says do not apply to it."""
        named = set(marker.d or ())
        return frozenset(seq for name, (seq, _) in self.deletes.items() if name in named)

    def _before(self, seq: int, step: int) -> bool:
        """Whether a transaction was published before a step, or is none that hides rows."""
        hides = any(seq == other for other, _ in self.deletes.values())
        return not hides or self.published_at[seq] < step

    def _undone_at(self, k: int, seq: int) -> frozenset[int]:
        found = [undone for restore, undone in self.undone.get(k, ()) if restore <= seq]
        return found[-1] if found else frozenset()

    def _arrange(self, partitions: frozenset[str], after: Callable[[], Snapshot]) -> None:
        """Merges are undone: who came late comes where its time places it."""
        if self.keyed is None:
            return
        snapshot = after()
        for partition in partitions:
            if spans_another(in_order(snapshot, partition)):
                self.keyed.late.add(partition)
            if partition in self.keyed.late:
                self.keyed.arrange(snapshot, partition)

    # --- primary keys -----------------------------------------------------------------------------

    def _keyed(
        self,
        keyed: Keyed,
        header: TxnHeader,
        old: list[Marker],
        new: list[Marker],
        listed: int,
        after: Callable[[], Snapshot],
    ) -> None:
        intent = self.intents.get(header.run.run_id)
        recorded = any(seq == header.seq for seq, _ in self.deletes.values())
        left = frozenset(row[0] for row in self._rows(new))
        rows = [row for row in self._rows(old) if self.stands(row[0])]
        if intent is not None and not recorded and intent.keys is not None:
            for key, k in keyed.winners(rows).items():
                if intent.row(k, *key) and k in seen({key: k}):
                    for other, p, u in rows:
                        if (p, u) == key:
                            self.gone.setdefault(other, set()).add(header.seq)
        rows = [row for row in rows if self.stands(row[0])]
        for k in superseded(keyed, rows, left):
            self.gone.setdefault(k, set()).add(header.seq)
        for k, p, u in rows:
            if self._forgotten(keyed, k, (p, u), left, header.t):
                self.gone.setdefault(k, set()).add(header.seq)
        if not keyed.versioned:
            self._slipped(keyed, new, listed, after)

    def _forgotten(
        self, keyed: Keyed, k: int, key: tuple[str, str], left: frozenset[int], t: int
    ) -> bool:
        """Whether a merge left a key tombstone out that has nothing to hide, now or ever."""
        # It may be dated years ahead, and then so is whoever forgets it.
        inserted = min(keyed.came[k][0], keyed.there.get(k, keyed.came[k][0]))
        now = min(t, self.now_ms + AHEAD)
        if k in left or not is_tombstone(k) or inserted > now - self.late_ms:
            return False
        places = keyed.places()
        return not any(
            row[1:] == key and places[other] < places[k] and self.stands(other)
            for other, row in self.born.items()
        )

    def _slipped(
        self, keyed: Keyed, new: list[Marker], listed: int, after: Callable[[], Snapshot]
    ) -> None:
        """An append that landed after the last look counts as inserted after what was merged."""
        for marker in new:
            (first, last), mine = marker.order(), {row[0] for row in self.rows[marker.p]}
            if first == last or not mine:
                continue
            partition = self.rows[marker.p][0][1]
            snapshot = after()
            for other in in_order(snapshot, partition):
                at = other.order()
                between = first <= at[0] and at[1] <= last and other.p != marker.p
                late = (self.born_at.get(k, listed) for k, _, _ in self.rows[other.p])
                if between and any(at >= listed for at in late):
                    keyed.late.add(partition)
                    keyed.arrange(snapshot, partition)
                    break

    # --- what stands ------------------------------------------------------------------------------

    def stands(self, k: int) -> bool:
        """Whether a row is there, but for newer ones of its key."""
        history = self.undone.get(k)
        undone = history[-1][1] if history else frozenset[int]()
        if k in self.gone and not self.gone[k] <= undone:
            return False
        q, p, u = self.born[k]
        return not any(
            seq > q and hides.row(k, p, u) and seq not in undone
            for seq, hides in self.deletes.values()
        )

    def expected(self) -> set[int]:
        """Rows that the table must show."""
        found = {k for k in self.born if self.stands(k)}
        if self.keyed is None:
            return found
        return set(seen(self.keyed.winners((k, *self.born[k][1:]) for k in found)))
