"""The expected state of every row, derived from the committed transactions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace

from firnline.log.records import Delete, LogContent, Marker
from firnline.log.txn_file import TxnHeader
from firnline.state.snapshot import Snapshot
from simulation import aging
from simulation.hides import Hides
from simulation.keyed import Keyed, Row, in_order, seen, spans_another, superseded
from simulation.kinds import is_tombstone
from simulation.world import AHEAD, GRACE, TTL, Violation

_TAKES_PARTS = frozenset({"drop", "ttl", "rewrite"})
_REPLACES_PARTS = frozenset({"merge", "delete", "erase", "rewrite", "update"})


@dataclass(frozen=True)
class Restores:
    """The arguments of a restore."""

    to: int
    partitions: frozenset[str]
    exact: bool
    began: int
    """Step in which it began; everything visible by then is in its base."""


@dataclass
class Ledger:
    """Committed rows and the transactions that affected them."""

    rows: Mapping[str, tuple[Row, ...]]
    """Rows by part."""
    keyed: Keyed | None = None
    intents: dict[str, Hides] = field(default_factory=dict)
    """Run id -> rows that a delete or rewrite removes."""
    keeps: dict[str, int] = field(default_factory=dict)
    """Run id -> ``ttl.keep`` in ms."""
    restores: dict[str, Restores] = field(default_factory=dict)
    """Run id -> arguments of its restore."""
    brought: set[int] = field(default_factory=set)
    """Rows of replaces, which are added by a transaction and not by an append."""
    born: dict[int, tuple[int, str, str]] = field(default_factory=dict)
    """Row -> data sequence of its append, partition, user."""
    born_at: dict[int, int] = field(default_factory=dict)
    """Row -> step in which its append became visible."""
    born_t: dict[int, int] = field(default_factory=dict)
    """Row -> time of the log file that added it."""
    gone: dict[int, set[int]] = field(default_factory=dict)
    """Row -> transactions that removed it."""
    deletes: dict[str, tuple[int, Hides]] = field(default_factory=dict)
    """Delete id -> sequence, condition."""
    erases: set[int] = field(default_factory=set)
    times: dict[int, int] = field(default_factory=dict)
    """Transaction -> its time."""
    late_ms: int = GRACE + TTL
    """Milliseconds after which no append can add an older row of a key; the minimum so far."""
    now_ms: int = 0
    """Time of the store when the newest transaction became visible."""
    published_at: dict[int, int] = field(default_factory=dict)
    """Transaction -> step in which it was published."""
    moved: set[int] = field(default_factory=set)
    """Rows whose user an update has changed."""
    spared: Callable[[Delete], tuple[Hides, ...]] = lambda _: ()
    """Returns the rows that the record of a delete spares, as those of legal holds."""
    undone: dict[int, list[tuple[int, frozenset[int]]]] = field(default_factory=dict)
    """Row -> (restore, transactions that are undone for it from then on)."""

    def add(self, k: int, row: tuple[int, str, str], step: int, t: int) -> None:
        """Add a row."""
        self.born[k] = row
        self.born_at[k] = step
        self.born_t[k] = t

    def withdraw(self, keys: Iterable[int]) -> None:
        """Take rows back of an append that was not acknowledged, and counts for nobody."""
        for k in keys:
            for known in (self.born, self.born_at, self.born_t):
                known.pop(k, None)

    def transaction(
        self,
        header: TxnHeader,
        content: LogContent,
        step: int,
        listed: int,
        after: Callable[[], Snapshot],
    ) -> None:
        """Apply a committed transaction.

        Args:
            header: header of the transaction.
            content: content of its log file.
            step: the current step.
            listed: step in which it last listed the log for late appends.
            after: returns the state after it.
        """
        self.times[header.seq] = header.t
        intent = self.intents.get(header.run.run_id)
        for delete in content.deletes:
            if delete.seq == header.seq and header.op == "ttl":
                self.deletes[delete.id] = header.seq, self._expired(header, delete)
            elif delete.seq == header.seq and intent is not None:
                self.deletes[delete.id] = header.seq, self._sparing(intent, delete)
        if header.op == "erase":
            self.erases.add(header.seq)
        if header.op == "rebuild":  # the rows that it finds exist since then at the latest
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
        """Add the rows of a replace, which are newer than everything committed before it."""
        for marker in new:
            for k, p, u in self.rows[marker.p]:
                if k in self.brought and k not in self.born:
                    self.add(k, (header.seq, p, u), step, header.t)

    def _take(self, header: TxnHeader, old: list[Marker], intent: Hides | None) -> None:
        if self.keyed is not None and intent is not None and intent.keys is not None:
            return  # by what wins
        for row in self._rows(old):
            if header.op == "ttl":
                self._refuse_young(header, row[0])
            if header.op != "rewrite" or intent is None or intent.row(*row):
                self.gone.setdefault(row[0], set()).add(header.seq)

    def _expired(self, header: TxnHeader, delete: Delete) -> Hides:
        """Return the condition of a TTL of rows, which holds for no row that is to be kept."""
        keys = aging.hidden_keys(delete)
        if keys:
            self._refuse_young(header, keys[-1])
        return self._sparing(Hides(frozenset("xy"), frozenset("uvw"), keys), delete)

    def _sparing(self, meant: Hides, delete: Delete) -> Hides:
        """Return a condition without what the record spares by its own words."""
        return replace(meant, spares=self.spared(delete))

    def _refuse_young(self, header: TxnHeader, k: int) -> None:
        # The clock of the process may be ahead.
        cutoff = self.now_ms + AHEAD - self.keeps[header.run.run_id]
        if aging.time_of(k) > cutoff:
            raise Violation(f"a TTL takes row {k}, which is not past")

    def _rows(self, markers: list[Marker]) -> list[Row]:
        return [row for marker in markers for row in self.rows[marker.p]]

    # --- restores ---------------------------------------------------------------------------------

    def _restore(self, header: TxnHeader, old: list[Marker], new: list[Marker]) -> None:
        wanted = self.restores[header.run.run_id]
        t = self.times[wanted.to] if wanted.to else self.times[1] - 1
        away = frozenset(row[0] for row in self._rows(old))
        back = {row[0]: self._named(marker) for marker in new for row in self.rows[marker.p]}
        # Deletes committed between its base and its commit apply to the copies.
        sure = {n for n in range(wanted.to + 1, header.seq) if self._before(n, wanted.began)}
        for k, (q, p, _) in self.born.items():
            # For rows that landed during it, only its parts show whether they were in its base.
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
        """Return the deletes that, according to a copy's marker, do not apply to it."""
        named = set(marker.d or ())
        return frozenset(seq for name, (seq, _) in self.deletes.items() if name in named)

    def _before(self, seq: int, step: int) -> bool:
        """Return True if a transaction was published before a step, or hides no rows."""
        hides = any(seq == other for other, _ in self.deletes.values())
        return not hides or self.published_at[seq] < step

    def _undone_at(self, k: int, seq: int) -> frozenset[int]:
        found = [undone for restore, undone in self.undone.get(k, ()) if restore <= seq]
        return found[-1] if found else frozenset()

    def _arrange(self, partitions: frozenset[str], after: Callable[[], Snapshot]) -> None:
        """Reorder partitions whose merges were undone: late rows are placed by their time."""
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
        """Return True if a merge may drop a key tombstone: it cannot hide any row."""
        # It may be dated years ahead, and then so is the merge that drops it.
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
        """Order appends that landed after the last listing after the merged rows."""
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

    # --- expected rows ----------------------------------------------------------------------------

    def stands(self, k: int) -> bool:
        """Return True if a row exists, leaving aside newer rows of its key."""
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
        """Return the rows that the table must show."""
        found = {k for k in self.born if self.stands(k)}
        if self.keyed is None:
            return found
        return set(seen(self.keyed.winners((k, *self.born[k][1:]) for k in found)))
