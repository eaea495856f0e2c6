"""The expected content of the table, derived from commits and not from the code's readers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import msgspec

from firnline.errors import SchemaConflictError
from firnline.log import codec, txn_file
from firnline.log.reader import LogObject, LogRead
from firnline.log.records import LogContent, Marker
from firnline.state.snapshot import Snapshot, build
from simulation import proofs, rows, sleepers
from simulation.checkpoints import Checkpoints
from simulation.columns import Columns
from simulation.holds import Holds
from simulation.keyed import Keyed, Row, in_order
from simulation.kinds import KINDS
from simulation.layouts import check_bounds, check_places
from simulation.ledger import Ledger
from simulation.once import Keys
from simulation.updates import Updates
from simulation.v1 import v1_live
from simulation.words import in_words
from simulation.world import AHEAD, GRACE, START_MS, TTL, Violation, World


@dataclass(frozen=True)
class Reader:
    """A reader that has read a snapshot and may use its parts for the grace."""

    at: int
    parts: frozenset[str]
    grace: int
    """Grace in force when it read, ms."""


@dataclass
class Times:
    """Times to live of the table, ms."""

    grace: int = GRACE
    """Grace in force."""
    least_grace: int = GRACE
    """Smallest grace that was ever in force."""
    least_late: int = GRACE + TTL
    """Smallest sum of ``append.ttl`` and grace so far."""
    layout: tuple[str, ...] = ("p",)
    """``partition_by`` in force."""

    def follow(self, header: txn_file.TxnHeader) -> None:
        """Update the times from a transaction."""
        said = header.properties
        if said is not None:
            self.grace, self.layout = said.grace, said.partition_by
            self.least_grace = min(self.least_grace, said.grace)
            self.least_late = min(self.least_late, said.grace + said.append_ttl)


@dataclass
class Oracle:
    """Tracks everything that becomes visible and compares it with what the table shows."""

    world: World
    contents: dict[str, LogContent] = field(default_factory=dict)
    began_at: dict[int, int] = field(default_factory=dict)
    """Row -> newest transaction that was committed when its append began."""
    landed: dict[str, int] = field(default_factory=dict)
    """Log file -> step in which it first appeared."""
    landed_ms: dict[str, int] = field(default_factory=dict)
    """Log file -> time when it first appeared, by the store's clock, unix ms."""
    committed_ms: dict[str, int] = field(default_factory=dict)
    """Log file of a transaction -> time of its commit by the store's clock, unix ms."""
    committed: dict[str, tuple[txn_file.TxnHeader, LogContent]] = field(default_factory=dict)
    """Log file of a transaction -> header and content."""
    looked: dict[str, int] = field(default_factory=dict)
    """Log file of a transaction -> step in which its committer last listed appends before it."""
    published: set[str] = field(default_factory=set)
    """Log files that appeared under ``_log/``: readers of version 1 see no others."""
    readers: list[Reader] = field(default_factory=list)
    times: Times = field(default_factory=Times)
    history: list[tuple[int, frozenset[int]]] = field(default_factory=list)
    """Pairs of a step and the rows that the table had from then on."""
    part_rows: dict[str, tuple[Row, ...]] = field(default_factory=dict)
    stats: Counter[str] = field(default_factory=Counter)
    late: set[str] = field(default_factory=set)
    """Log files of appends that count for nobody (``log.fence``)."""
    acknowledged: set[int] = field(default_factory=set)
    """Rows of appends that were acknowledged."""
    past_from: int = START_MS
    """Unix ms from which former states are compared."""
    checkpoints: Checkpoints = field(default_factory=Checkpoints)
    keys: Keys = field(default_factory=Keys)
    keyed: Keyed | None = None
    """Order of rows; None without a primary key."""
    columns: Columns | None = None
    """Changes of the column; None for a table without such a column."""
    values: dict[str, Sequence[proofs.Row]] = field(default_factory=dict)
    """Rows of parts with all columns, where kernels prove them."""
    ledger: Ledger = field(init=False)
    holds: Holds = field(init=False)
    updates: Updates = field(init=False)
    _checked: int = -1
    _objects: dict[str, LogObject] = field(default_factory=dict)

    def __post_init__(self) -> None:
        kind, settings = KINDS[self.world.mix.kind], KINDS[self.world.mix.kind].settings
        if kind.evolves:
            self.columns = Columns()
        if "primary_key" in settings:
            self.keyed = Keyed("version" in settings, self.part_rows)
        self.ledger = Ledger(self.part_rows, self.keyed)
        born = self.ledger.born, self.ledger.born_at
        self.holds = Holds(self.world, *born, self.part_rows, self.keyed, self.stats)
        self.ledger.spared = self.holds.spared
        self.updates = Updates(self.ledger, self.stats)
        self.world.on_delete = self.holds.deleted

    # --- events -----------------------------------------------------------------------------------

    def on_put(self, key: str, data: bytes) -> str:
        """Take in a new object; return its meaning."""
        paths = self.world.paths
        if key.startswith(paths.data_dir):
            self.part_rows[key] = found = rows.decode(data)
            if self.columns is not None:
                self.columns.parts[key] = rows.whole(data)
            if KINDS[self.world.mix.kind].proven:
                self.values[key] = rows.whole(data)
            if KINDS[self.world.mix.kind].updates:
                self.updates.parts[key] = rows.whole(data)
            return f"a part with the rows {' '.join(f'{k}{p}{u}' for k, p, u in found)}"
        if key == paths.birth:
            return "the birth record"
        if key.startswith(paths.txn_dir):
            header, log_file = txn_file.decode(key, data, paths)
            content = codec.decode(header.log, log_file, paths)
            self.committed[header.log] = header, content
            self.looked[header.log] = self.world.looked.get(data, 0)
            self.stats[header.op] += 1
            if self.columns is not None:
                self.columns.committed(header.seq, content)
            # Committed is visible: readers look at the newest transaction.
            self.contents[header.log] = content
            self.landed[header.log] = self.world.step
            self.landed_ms[header.log] = self.committed_ms[header.log] = self.world.now
            self._leave_behind()
            self.times.follow(header)
            self.ledger.late_ms = self.times.least_late
            self._apply(header, content)
            return f"commits {in_words(header, content)}"
        if key.startswith(paths.log_dir):
            return self._log_file(key, data)
        return ""

    def append_begins(self, rows: Iterable[int]) -> None:
        """Record the rows of an append; called before its first request."""
        newest = max((header.seq for header, _ in self.committed.values()), default=0)
        self.began_at.update(dict.fromkeys(rows, newest))

    def _log_file(self, key: str, data: bytes) -> str:
        content = self.contents[key] = codec.decode(key, data, self.world.paths)
        self.landed.setdefault(key, self.world.step)
        self.landed_ms.setdefault(key, self.world.now)
        name = self.world.paths.parse_log(key)
        if name.kind == "append" and (self.behind([key]) or self._was_folded(key)):
            self.late.add(key)
            self.stats["append behind the fence"] += 1
            return "appended parts that count for nobody: it began before the fence"
        if name.kind == "append":
            self.keys.lands(key, content, self.world.now)
            for marker in content.markers:
                self._appended(marker)
            self.stats["append"] += 1
            return f"{len(content.markers)} appended parts become visible"
        if name.kind == "foreign-merge":
            return "a client of version 1 has folded what it knew"
        if key in self.published:
            return "publishes what had been published already"
        self.published.add(key)
        self.landed_ms[key] = self.world.now
        self.ledger.published_at[name.seq] = self.world.step
        return f"publishes transaction {name.seq}"

    def _was_folded(self, key: str) -> bool:
        """Return True for the name of a log file that somebody took away, and whose file is gone.

        Nobody reads what is folded.
        """
        stones = (content.tombstones for _, content in self.committed.values())
        return bool(self.world.mix.once_ms) and any(s.p == key for each in stones for s in each)

    def _appended(self, marker: Marker) -> None:
        for k, p, u in self.part_rows.get(marker.p, ()):
            if (marker.q or 0) < self.began_at[k]:
                raise Violation(
                    f"an append that began after transaction {self.began_at[k]} says that "
                    f"it began after {marker.q}"
                )
            self.ledger.add(k, (marker.q or 0, p, u), self.world.step, marker.t)
        if self.keyed is not None:
            rows_here = self.part_rows.get(marker.p, ())
            self.keyed.there.update((k, self.world.now) for k, _, _ in rows_here)
            self.keyed.landed(self.snapshot(), marker)

    def _apply(self, header: txn_file.TxnHeader, content: LogContent) -> None:
        for marker in content.markers:
            if marker.t == header.t and marker.p not in self.part_rows:
                raise Violation(f"a {header.op} names part {marker.p}, which nobody has written")
        looked = self.looked[header.log]
        self.ledger.now_ms = self.world.now
        before = self.ledger.expected() if header.op == "restore" else set[int]()
        self.ledger.transaction(header, content, self.world.step, looked, self.snapshot)
        self.holds.committed(header, self.snapshot)
        if header.op == "restore":
            self.updates.restored(header, before, self.world.step)
        if header.op == "update":
            old = (m.p for m in content.markers if m.tmb == header.t)
            replaced = (row for path in old for row in self.part_rows[path])
            self.updates.committed(header, replaced, self.world.step)

    def behind(self, keys: Iterable[str]) -> list[str]:
        """Return those of the appends that count for nobody."""
        committed = [content for _, content in self.committed.values()]
        appends = {key: self.contents[key] for key in keys}
        return sleepers.behind(appends, committed, sleepers.fence(committed))

    def _leave_behind(self) -> None:
        """Take back appends that no transaction has folded, and that are behind the fence now."""
        if not self.world.mix.sleep:
            return
        paths = self.world.paths
        appends = [key for key in self.landed if paths.parse_log(key).kind == "append"]
        for key in self.behind(key for key in appends if key not in self.late):
            rows = [k for m in self.contents[key].markers for k, _, _ in self.part_rows[m.p]]
            if not self.acknowledged.isdisjoint(rows):
                raise Violation(f"append {key} was acknowledged, and counts for nobody")
            self.late.add(key)
            self.keys.withdraw(key)
            self.ledger.withdraw(rows)
            self.stats["append left behind"] += 1

    def forgive_past(self, time_ms: int) -> None:
        """Stop comparing states before a lost log: a rebuild does not know the rows' times."""
        # When rows dated far ahead took effect is stated by a transaction whose clock may be ahead;
        # the log file with the more exact last-modified time is gone.
        self.past_from = time_ms + AHEAD

    def adopt(self) -> None:
        """Accept parts of failed appends that a rebuild has added to the table."""
        for key in self.committed.keys() - self.published:
            self.published.add(key)
            self.ledger.published_at[self.committed[key][0].seq] = self.world.step
        self.forgive_past(self.world.now)
        snapshot = self.snapshot()
        for path, marker in snapshot.live.items():
            for k, p, u in self.part_rows[path]:
                if k not in self.ledger.born:
                    self.ledger.add(k, (marker.q or 0, p, u), self.world.step, marker.t)
                    self.stats["rows of failed appends found"] += 1
                    if self.keyed is not None:
                        # Its age is that of the object, whoever has seen it since when.
                        self.keyed.there.setdefault(k, self.world.objects[path].at)
        if self.keyed is not None:
            self.keyed.adopt(snapshot)

    # --- invariants -------------------------------------------------------------------------------

    def snapshot(self) -> Snapshot:
        """Return the table as a reader of every log file sees it now.

        Includes a transaction that is committed but not published.
        """
        names = [key for key in self.world.objects if key.startswith(self.world.paths.log_dir)]
        listing = {key: self._listed(key) for key in names}
        for key in self.pending():
            listing[key] = LogObject(self.world.paths.parse_log(key), 0, self.world.now)
        log = LogRead(listing, {key: self.contents[key] for key in listing})
        try:
            return build(self.world.paths, log)
        except SchemaConflictError as error:
            raise Violation(f"nobody can read the table: {error}") from error

    def pending(self) -> frozenset[str]:
        """Return the log files of committed transactions that are not published: at most one."""
        return frozenset(self.committed.keys() - self.published)

    def _listed(self, key: str) -> LogObject:
        stored = self.world.objects[key]
        known = self._objects.get(key)
        if known is None or known.modified_ms != stored.at:
            name = self.world.paths.parse_log(key)
            known = self._objects[key] = LogObject(name, len(stored.data), stored.at)
        return known

    def past_rows(self, time_ms: int, since_step: int) -> list[set[int]]:
        """Return the rows as of a time, from all log files that ever existed, per step since one.

        Log files dated before that time may still become visible after it.
        """
        steps = {since_step, *(step for step in self.landed.values() if step > since_step)}
        # When a transaction that is dated far ahead took effect says its file under ``_txn/`` until
        # its log file is there.
        return [
            self._past_rows(time_ms, step, seen)
            for step in sorted(steps)
            for seen in (self.landed_ms, self.landed_ms | self.committed_ms)
        ]

    def _past_rows(self, time_ms: int, step: int, seen: Mapping[str, int]) -> set[int]:
        paths = self.world.paths
        known = {
            key: _as_ever(content)
            for key, content in self.contents.items()
            if self.landed[key] <= step
        }
        listing = {key: LogObject(paths.parse_log(key), 0, seen[key]) for key in known}
        ever = replace(build(paths, LogRead(listing, known)), purged=-1)
        return set(self.shown_by(ever.at(time_ms)))

    def rows_of(self, snapshot: Snapshot) -> list[int]:
        """Return the rows of a snapshot. Raises Violation for a live part without object."""
        for path in snapshot.live:
            if path not in self.world.objects:
                raise Violation(f"live part {path} has no object")
        if self.columns is not None:
            self.columns.check(snapshot, self.ledger.born)
        return self.shown_by(snapshot)

    def shown_by(self, snapshot: Snapshot) -> list[int]:
        """Return the rows of a snapshot, even if objects are deleted."""
        if self.keyed is None:
            return [k for m in snapshot.live.values() for k, _, _ in self._visible(snapshot, m)]
        return [
            k
            for name in snapshot.partitions
            for k in self.keyed.shown(
                self._visible(snapshot, m) for m in in_order(snapshot, name.removeprefix("p="))
            )
        ]

    def _visible(self, snapshot: Snapshot, marker: Marker) -> list[Row]:
        """Return the rows of a part that no delete hides."""
        deletes = self.ledger.deletes
        q, applied = snapshot.sequence_of(marker), marker.d or ()
        hiding = [
            deletes[d.id][1] for d in snapshot.deletes.values() if d.seq > q and d.id not in applied
        ]
        return [row for row in self.part_rows[marker.p] if not any(h.row(*row) for h in hiding)]

    def check(self) -> None:
        """Compare the table with the expected state. Raises Violation."""
        world = self.world
        self._check_readers()
        if self._checked == world.version:
            return
        self._checked = world.version
        snapshot = self.snapshot()
        self._check_acknowledged()
        shown, right = self.rows_of(snapshot), self.ledger.expected()
        if len(shown) != len(set(shown)):
            twice = [k for k, n in Counter(shown).items() if n > 1]
            raise Violation(f"rows shown twice: {twice[:5]}")
        if set(shown) != right:
            lost, back = sorted(right - set(shown)), sorted(set(shown) - right)
            raise Violation(f"rows lost: {lost[:5]}; rows that came back: {back[:5]}")
        self.holds.check(right)
        if KINDS[world.mix.kind].updates:
            self.updates.check(snapshot, partial(self._visible, snapshot))
        if KINDS[world.mix.kind].proven:
            proofs.check_values(self.values, snapshot)
        if KINDS[world.mix.kind].moves:
            check_bounds(self.part_rows, snapshot)
            check_places(self.part_rows, snapshot)
        self._check_v1(right)
        self.checkpoints.check(snapshot, shown, self.shown_by)
        if not self.history or self.history[-1][1] != right:
            self.history.append((world.step, frozenset(right)))
        if world.chance.roll(world.step, 4711) < 0.1:
            parts = frozenset(snapshot.live) | frozenset(v1_live(self._files()))
            self.readers.append(Reader(world.now, parts, self.times.grace))
        if world.chance.roll(world.step, 4712) < 0.05:
            self.checkpoints.take(snapshot)

    def _check_acknowledged(self) -> None:
        for key in self.late:
            rows = {k for m in self.contents[key].markers for k, _, _ in self.part_rows[m.p]}
            if rows & self.acknowledged:
                raise Violation(f"append {key} was acknowledged, and counts for nobody")

    def _check_readers(self) -> None:
        world = self.world
        self.readers = [one for one in self.readers if world.now - one.at < one.grace]
        for reader in self.readers:
            lost = [path for path in reader.parts if path not in world.objects]
            if lost:
                raise Violation(
                    f"a reader lost {lost[0]} after {(world.now - reader.at) / reader.grace:.2f} "
                    "graces"
                )

    def _check_v1(self, right: set[int]) -> None:
        live = v1_live(self._files())
        for path in live:
            if path not in self.world.objects:
                raise Violation(f"a v1 reader sees part {path}, whose object is gone")
        if self.world.mix.deletes or self.pending():
            return
        if self.keyed is not None:
            if live.keys() != self.snapshot().live.keys():
                raise Violation("a v1 reader sees other parts")
            return
        shown = [k for path in live for k, _, _ in self.part_rows[path]]
        if sorted(shown) != sorted(right):
            raise Violation(
                f"a v1 reader sees other rows: {sorted(set(shown) ^ right)[:5]}, "
                f"{len(shown) - len(set(shown))} twice"
            )

    def _files(self) -> Mapping[str, LogContent]:
        log = self.world.paths.log_dir
        keys = [k for k in self.world.objects if k.startswith(log)]
        if self.world.mix.sleep:
            # A client of version 1 reads what came too late or came back, too, until clean-up.
            behind = self.snapshot().behind.keys() | self.world.removed
            keys = [k for k in keys if k not in behind]
        return {k: self.contents[k] for k in keys}

    def was_true(self, seen: set[int], since_step: int) -> bool:
        """Return True if the table had exactly these rows at some moment since a step.

        Appends that landed since are ignored: a listing of several pages is not one moment, and
        may miss one of those whose name lies on a page that was read already.
        """
        new = self.young(since_step)
        before = [state for step, state in self.history if step <= since_step][-1:]
        after = [state for step, state in self.history if step > since_step]
        states = [*before, *after] if before else [frozenset[int](), *after]
        return any(state - new == seen - new for state in states)

    def young(self, since_step: int) -> set[int]:
        """Return rows of appends since a step; with a primary key all rows of their keys."""
        new = {k for k, step in self.ledger.born_at.items() if step >= since_step}
        if self.keyed is None:
            return new
        born = self.ledger.born
        keys = {born[k][1:] for k in new}
        return {k for k, (_, *key) in born.items() if tuple(key) in keys}


def _as_ever(content: LogContent) -> LogContent:
    """Return a log file as one of all that ever existed: none of them has come back."""
    if content.x is None:
        return content
    return msgspec.structs.replace(content, x=msgspec.structs.replace(content.x, standing=None))
