"""What the table must hold, known from what was committed and not from how the code reads it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from firnline.log import codec, txn_file
from firnline.log.reader import LogObject, LogRead
from firnline.log.records import LogContent
from firnline.snapshot import Snapshot, build
from firnline_dev.simulate import rows
from firnline_dev.simulate.checkpoints import Checkpoints
from firnline_dev.simulate.v1 import v1_live
from firnline_dev.simulate.words import in_words
from firnline_dev.simulate.world import GRACE, START_MS, Violation, World


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
class Reader:
    """Somebody who read a snapshot and may use its parts for the grace."""

    at: int
    parts: frozenset[str]


@dataclass
class Oracle:
    """Follows what becomes visible and compares it with what the table shows."""

    world: World
    intents: dict[str, Hides] = field(default_factory=dict)
    """Run id -> what a delete or rewrite takes away."""
    contents: dict[str, LogContent] = field(default_factory=dict)
    began_at: dict[int, int] = field(default_factory=dict)
    """Row -> newest transaction that was committed when its append began."""
    brought: set[int] = field(default_factory=set)
    """Rows of replaces, which come with a transaction and not with an append."""
    landed: dict[str, int] = field(default_factory=dict)
    """Log file -> step in which it first appeared."""
    born: dict[int, tuple[int, str, str]] = field(default_factory=dict)
    """Row -> data sequence of its append, partition, user."""
    born_at: dict[int, int] = field(default_factory=dict)
    """Row -> step in which its append landed."""
    gone: set[int] = field(default_factory=set)
    deletes: dict[str, tuple[int, Hides]] = field(default_factory=dict)
    """Delete id -> sequence, condition; of what is published."""
    committed: dict[str, tuple[txn_file.TxnHeader, LogContent]] = field(default_factory=dict)
    """By the key of the log file."""
    applied: set[str] = field(default_factory=set)
    readers: list[Reader] = field(default_factory=list)
    history: list[tuple[int, frozenset[int]]] = field(default_factory=list)
    """(step, rows that the table had from then on)."""
    part_rows: dict[str, tuple[tuple[int, str, str], ...]] = field(default_factory=dict)
    stats: Counter[str] = field(default_factory=Counter)
    past_from: int = START_MS
    """Since when what the table says of its past is compared, unix ms."""
    checkpoints: Checkpoints = field(default_factory=Checkpoints)
    _checked: int = -1
    _objects: dict[str, LogObject] = field(default_factory=dict)

    # --- what happens -----------------------------------------------------------------------------

    def on_put(self, key: str, data: bytes) -> str:
        """An object appeared; what it means."""
        paths = self.world.paths
        if key.startswith(paths.data_dir):
            self.part_rows[key] = found = rows.decode(data)
            return f"a part with the rows {' '.join(f'{k}{p}{u}' for k, p, u in found)}"
        if key.startswith(paths.txn_dir):
            header, log_file = txn_file.decode(key, data, paths)
            content = codec.decode(header.log, log_file, paths)
            self.committed[header.log] = header, content
            self.stats[header.op] += 1
            return f"commits {in_words(header, content)}"
        if key.startswith(paths.log_dir):
            return self._log_file(key, data)
        return ""

    def append_begins(self, rows: Iterable[int]) -> None:
        """Called before its first request."""
        newest = max((header.seq for header, _ in self.committed.values()), default=0)
        self.began_at.update(dict.fromkeys(rows, newest))

    def _log_file(self, key: str, data: bytes) -> str:
        content = self.contents[key] = codec.decode(key, data, self.world.paths)
        self.landed.setdefault(key, self.world.step)
        name = self.world.paths.parse_log(key)
        if name.kind == "append":
            for marker in content.markers:
                for k, p, u in self.part_rows.get(marker.p, ()):
                    if (marker.q or 0) < self.began_at[k]:
                        raise Violation(
                            f"an append that began after transaction {self.began_at[k]} says that "
                            f"it began after {marker.q}"
                        )
                    self.born[k] = marker.q or 0, p, u
                    self.born_at[k] = self.world.step
            self.stats["append"] += 1
            return f"{len(content.markers)} appended parts become visible"
        if key in self.applied:
            return "publishes what had been published already"
        self.applied.add(key)
        header, content = self.committed[key]
        self._transaction(header, content)
        return f"publishes transaction {header.seq}"

    def _transaction(self, header: txn_file.TxnHeader, content: LogContent) -> None:
        intent = self.intents.get(header.run.run_id)
        for delete in content.deletes:
            if delete.seq == header.seq and intent is not None:
                self.deletes[delete.id] = header.seq, intent
        if header.op == "replace" and intent is not None:
            self.deletes[header.txn] = header.seq, intent  # whatever record it wrote
            self._new_rows(header, content)
        if header.op not in {"drop", "ttl", "rewrite"}:
            return
        for marker in content.markers:
            if marker.tmb == header.t:
                found = self.part_rows[marker.p]
                self.gone |= {
                    k
                    for k, p, u in found
                    if header.op != "rewrite" or intent is None or intent.row(k, p, u)
                }

    def _new_rows(self, header: txn_file.TxnHeader, content: LogContent) -> None:
        """What a replace brought lies above all that was committed before it."""
        for marker in content.markers:
            if marker.tmb is None and marker.t == header.t:
                for k, p, u in self.part_rows[marker.p]:
                    if k in self.brought:
                        self.born[k] = header.seq, p, u
                        self.born_at[k] = self.world.step

    def forgive_past(self, time_ms: int) -> None:
        """The log was lost: of before, a rebuild knows the rows, but not when each came."""
        self.past_from = time_ms

    def adopt(self) -> None:
        """After a rebuild: what was committed but not visible yet is part of the table now.

        So may be an append that failed before its log file.
        """
        for key in sorted(self.committed.keys() - self.applied):
            self.applied.add(key)
            self._transaction(*self.committed[key])
        for path, marker in self.snapshot().live.items():
            for k, p, u in self.part_rows[path]:
                if k not in self.born:
                    self.born[k] = marker.q or 0, p, u
                    self.born_at[k] = self.world.step
                    self.stats["rows of failed appends found"] += 1

    # --- what must hold ---------------------------------------------------------------------------

    def expected(self) -> set[int]:
        """Rows that the table must show."""
        return {
            k
            for k, (q, p, u) in self.born.items()
            if k not in self.gone
            and not any(seq > q and hides.row(k, p, u) for seq, hides in self.deletes.values())
        }

    def snapshot(self) -> Snapshot:
        """The table as a reader of every log file sees it at this moment."""
        names = [key for key in self.world.objects if key.startswith(self.world.paths.log_dir)]
        listing = {key: self._listed(key) for key in names}
        return build(self.world.paths, LogRead(listing, {key: self.contents[key] for key in names}))

    def _listed(self, key: str) -> LogObject:
        stored = self.world.objects[key]
        known = self._objects.get(key)
        if known is None or known.modified_ms != stored.at:
            name = self.world.paths.parse_log(key)
            known = self._objects[key] = LogObject(name, len(stored.data), stored.at)
        return known

    def past_rows(self, time_ms: int, since_step: int) -> list[set[int]]:
        """Rows as of a time, by every log file that there ever was: in each step since one.

        What is dated before that time may still become visible after it.
        """
        steps = {since_step, *(step for step in self.landed.values() if step > since_step)}
        return [self._past_rows(time_ms, step) for step in sorted(steps)]

    def _past_rows(self, time_ms: int, step: int) -> set[int]:
        paths = self.world.paths
        known = {key: content for key, content in self.contents.items() if self.landed[key] <= step}
        listing = {key: LogObject(paths.parse_log(key), 0, 0) for key in known}
        ever = replace(build(paths, LogRead(listing, known)), purged=-1)
        return set(self.shown_by(ever.at(time_ms)))

    def rows_of(self, snapshot: Snapshot) -> list[int]:
        """Rows that a snapshot shows. Raises Violation for a live part without its object."""
        for path in snapshot.live:
            if path not in self.world.objects:
                raise Violation(f"live part {path} has no object")
        return self.shown_by(snapshot)

    def shown_by(self, snapshot: Snapshot) -> list[int]:
        """The same, whether or not the objects are still there."""
        shown: list[int] = []
        for path, marker in snapshot.live.items():
            q, applied = snapshot.sequence_of(marker), marker.d or ()
            hiding = [
                self.deletes[d.id][1]
                for d in snapshot.deletes.values()
                if d.seq > q and d.id not in applied
            ]
            shown += [
                k for k, p, u in self.part_rows[path] if not any(h.row(k, p, u) for h in hiding)
            ]
        return shown

    def check(self) -> None:
        """Compare. Raises Violation."""
        world = self.world
        self._check_readers()
        if self._checked == world.version:
            return
        self._checked = world.version
        snapshot = self.snapshot()
        shown, right = self.rows_of(snapshot), self.expected()
        if len(shown) != len(set(shown)):
            twice = [k for k, n in Counter(shown).items() if n > 1]
            raise Violation(f"rows shown twice: {twice[:5]}")
        if set(shown) != right:
            lost, back = sorted(right - set(shown)), sorted(set(shown) - right)
            raise Violation(f"rows lost: {lost[:5]}; rows that came back: {back[:5]}")
        self._check_v1(right)
        self.checkpoints.check(snapshot, shown, self.shown_by)
        if not self.history or self.history[-1][1] != right:
            self.history.append((world.step, frozenset(right)))
        if world.chance.roll(world.step, 4711) < 0.1:
            parts = frozenset(snapshot.live) | frozenset(v1_live(self._files()))
            self.readers.append(Reader(world.now, parts))
        if world.chance.roll(world.step, 4712) < 0.05:
            self.checkpoints.take(snapshot)

    def _check_readers(self) -> None:
        world = self.world
        self.readers = [reader for reader in self.readers if world.now - reader.at < GRACE]
        for reader in self.readers:
            lost = [path for path in reader.parts if path not in world.objects]
            if lost:
                raise Violation(
                    f"a reader lost {lost[0]} after {(world.now - reader.at) / GRACE:.2f} graces"
                )

    def _check_v1(self, right: set[int]) -> None:
        live = v1_live(self._files())
        for path in live:
            if path not in self.world.objects:
                raise Violation(f"a v1 reader sees part {path}, whose object is gone")
        if self.world.mix.deletes:
            return
        shown = [k for path in live for k, _, _ in self.part_rows[path]]
        if sorted(shown) != sorted(right):
            raise Violation(
                f"a v1 reader sees other rows: {sorted(set(shown) ^ right)[:5]}, "
                f"{len(shown) - len(set(shown))} twice"
            )

    def _files(self) -> Mapping[str, LogContent]:
        log = self.world.paths.log_dir
        return {k: self.contents[k] for k in self.world.objects if k.startswith(log)}

    def was_true(self, seen: set[int], since_step: int) -> bool:
        """Whether the table had exactly these rows at some moment since a step.

        But for appends that landed since: a listing of several pages is no single moment, and
        may miss one of those whose name lies on a page that was read already.
        """
        new = {k for k, step in self.born_at.items() if step >= since_step}
        before = [state for step, state in self.history if step <= since_step][-1:]
        after = [state for step, state in self.history if step > since_step]
        states = [*before, *after] if before else [frozenset[int](), *after]
        return any(state - new == seen - new for state in states)
