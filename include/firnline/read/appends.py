"""The appends of a table by its log: those that are there, and the transaction that folded each.

Streams of appends and the feed of changes read it; both continue from an offset (``read.offsets``).
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace

from firnline.errors import ObjectNotFoundError, StreamBehindError, UsageError
from firnline.log import codec, txn_file
from firnline.log.reader import list_log, refuse_other_size
from firnline.log.records import LogContent, TxnMark
from firnline.log.schema_lines import folded_by_ours
from firnline.read import offsets as plan
from firnline.read.offsets import BEGIN_AGAIN, Folds, Initial, Offset, View, long, short, time_in
from firnline.state.birth import last_number
from firnline.state.health import no_table
from firnline.state.history import heads, newest_at, no_transaction
from firnline.state.moment import At, Moment, parse_moment
from firnline.state.snapshot import Snapshot, read_snapshot
from firnline.table import Table

_AT_ONCE = 64
"""Number of log files that are fetched before it is checked whether the batch is full."""


@dataclass
class AppendLog:
    """The appends of one table; keeps in memory what it has read of the log, and no position.

    Requests per call: 1 LIST, and if something has changed a read of the log, without the log files
    already known, and 1 GET for each transaction in between; for an offset that this object has not
    returned, or before the last one that it was given, 1 ranged GET of its transaction where the
    log does not name it. A lost log ends every call with LogLostError, an offset of another table
    with UsageError.
    """

    table: Table
    _snapshot: Snapshot | None = None
    _folds: dict[int, Folds] = field(default_factory=dict)
    """Folds by transaction; those before the newest offset are dropped."""
    _contents: dict[str, LogContent] = field(default_factory=dict)
    """Content of the appends in the current batch, by name."""
    _held: Snapshot | None = None
    _ended: tuple[Snapshot, int] | None = None
    """The number with which a downgrade ended the history, as of the state it was asked for."""
    _digests: dict[int, str] = field(default_factory=dict)
    """Digests of the transactions that were read (``log.chain``); dropped as the folds are."""

    def start(self, at: At | None) -> Offset:
        """Return the offset at which a stream begins.

        Args:
            at: None for the current state and then new appends; "now" for new appends alone; a
                transaction's number or a time for the appends after it.

        Raises UsageError, SnapshotExpiredError, StreamBehindError.
        """
        snapshot = self._held or self._read()
        if not snapshot.listing:
            raise no_table(self.table)
        if at is None or at == "now":
            return self._here(snapshot, whole=at is None)
        return self._after(snapshot, parse_moment(at, self.table.clock.now_ms()))

    def _here(self, snapshot: Snapshot, *, whole: bool) -> Offset:
        paths, folded = self.table.paths, {*snapshot.log_tombstones}
        foreign = keys_of(snapshot, "foreign-merge")
        if foreign:
            # What only they have folded, the next transaction folds again.
            snapshot = read_snapshot(self.table.store, paths, checkpoint_above=sys.maxsize)
            folded = folded_by_ours(snapshot.log)
        appends, foreign = keys_of(snapshot, "append"), keys_of(snapshot, "foreign-merge")
        made = (item.name for item in snapshot.listing.values() if item.name.kind != "append")
        t = max((name.t for name in made), default=0)
        seen = appends & snapshot.log_tombstones.keys() if whole else appends
        return Offset(
            seq=self._newest(snapshot, foreign),
            seen=frozenset(short(key, paths) for key in seen - folded),
            foreign=frozenset(short(key, paths) for key in foreign),
            initial=Initial(t=t) if whole and t else None,
            digest=snapshot.digest,
        )

    def _newest(self, snapshot: Snapshot, foreign: Collection[str]) -> int:
        """Return the number of the newest transaction, which the next one follows.

        A downgrade ends the history at a number that the birth record states, once clients of
        version 1 have folded its log file away.

        Requests: 1 GET for a log without transactions that such clients have merged, each time that
        it has changed.
        """
        if snapshot.seq or not foreign:
            return snapshot.seq
        if self._ended is None or self._ended[0] is not snapshot:
            self._ended = snapshot, last_number(self.table.store, self.table.paths)
        return self._ended[1]

    def _after(self, snapshot: Snapshot, moment: Moment) -> Offset:
        if keys_of(snapshot, "foreign-merge"):
            raise UsageError(
                "clients of version 1 have merged this table, so it is not known which appends "
                "came before a moment in its past",
                next_step="leave startingAt out, or set it to now",
            )
        seq = moment.seq or 0
        if moment.ms is not None:
            seq = newest_at(self.table, moment.ms, snapshot.effective)
        if seq > snapshot.seq:
            raise no_transaction(self.table.settings.name, seq, snapshot.seq)
        offset = Offset(seq=seq, digest=self._known_digests(snapshot).get(seq, ""))
        if moment.ms is None:
            return offset
        waiting = plan.pending(offset, self._view(offset, snapshot))
        effective = snapshot.effective
        seen = (name for _, name in waiting if effective(time_in(name)) <= (moment.ms or 0))
        return replace(offset, seen=frozenset(seen))

    def hold(self) -> None:
        """Limit ``latest`` to the current state from now on."""
        self._held = self._look()

    def _look(self) -> Snapshot:
        """Return the newest state."""
        last = self._snapshot
        if last is not None:
            listing, _ = list_log(self.table.store, self.table.paths)
            there = {k: item for k, item in last.listing.items() if k != last.unpublished}
            if listing == there | dict(last.behind):
                return last  # a log that was not lost before and is unchanged is not lost
        return self._read()

    def _read(self) -> Snapshot:
        contents = {} if self._snapshot is None else self._snapshot.contents
        self._snapshot = read_snapshot(self.table.store, self.table.paths, known=contents)
        return self._snapshot

    def _view(self, offset: Offset, snapshot: Snapshot) -> View:
        paths = self.table.paths
        self._refuse_other_table(offset, snapshot)
        foreign = keys_of(snapshot, "foreign-merge")
        newest = self._newest(snapshot, foreign)
        folds = {s: self._folds_of(s, snapshot) for s in range(offset.seq + 1, newest + 1)}
        self._folds = folds
        self._digests = {s: digest for s, digest in self._digests.items() if s >= offset.seq}
        appends = keys_of(snapshot, "append") - snapshot.log_tombstones.keys()
        view = View(
            seq=newest,
            unfolded=frozenset(short(key, paths) for key in appends),
            foreign=frozenset(short(key, paths) for key in foreign),
            folds=folds,
            digests=self._digests,
        )
        plan.check(offset, view)
        self._refuse_unknown_appends(offset, view, snapshot)
        return view

    def _known_digests(self, snapshot: Snapshot) -> dict[int, str]:
        marks = (content.x for content in snapshot.contents.values())
        self._digests |= {mark.seq: mark.digest for mark in marks if mark is not None}
        self._digests[snapshot.seq] = snapshot.digest
        return self._digests

    def _refuse_other_table(self, offset: Offset, snapshot: Snapshot) -> None:
        """Raise UsageError if the transaction of an offset is another one in this table.

        A relocation and a clone with the history change no digest.

        Requests: none if the log names the transaction's digest; else 1 ranged GET of its header.
        """
        digests = self._known_digests(snapshot)
        if not offset.digest or offset.seq > snapshot.seq:
            return
        if not digests.get(offset.seq):
            for header, digest in heads(self.table, [self.table.paths.txn(offset.seq)]):
                digests[header.seq] = digest
        if digests.get(offset.seq, offset.digest) != offset.digest:
            raise self._other_table(f"transaction {offset.seq} is another one")

    def _refuse_unknown_appends(self, offset: Offset, view: View, snapshot: Snapshot) -> None:
        """Raise UsageError if the table has none of the appends that an offset names.

        StreamBehindError if an append landed after its time and was read, and counts for nobody
        since (``log.fence``). Those that clients of version 1 have merged may be gone.
        """
        if not offset.seen or offset.foreign:
            return
        listed = {short(key, self.table.paths) for key in keys_of(snapshot, "append")}
        unknown = offset.seen.difference(listed, *(f.every for f in view.folds.values()))
        if unknown and snapshot.fence.seq:
            raise StreamBehindError(
                f"append {min(unknown)}, which was read, landed after its append.ttl and was taken "
                "back",
                next_step=BEGIN_AGAIN,
            )
        if unknown == offset.seen:
            raise self._other_table(f"there was never an append {min(offset.seen)}")

    def _other_table(self, why: str) -> UsageError:
        return UsageError(
            f"the position is not one of table {self.table.settings.name}: {why} there",
            next_step="give a position of this table, or begin again without one",
        )

    def _folds_of(self, seq: int, snapshot: Snapshot) -> Folds:
        if seq in self._folds:
            return self._folds[seq]
        table = self.table
        for content in snapshot.contents.values():
            if content.x is not None and content.x.seq == seq:
                return self._folded(content, content.x)
        key = table.paths.txn(seq)
        try:
            header, log_file = txn_file.decode(key, table.store.get(key), table.paths)
        except ObjectNotFoundError:
            raise StreamBehindError(
                f"the record of transaction {seq} is past its retention, so it is not known which "
                "appends came before it",
                next_step=BEGIN_AGAIN,
            ) from None
        content = codec.decode(header.log, log_file, table.paths)
        self._digests[seq] = "" if content.x is None else content.x.digest
        return self._folded(content, content.x or TxnMark(seq, header.txn, header.op, 0))

    def _folded(self, content: LogContent, mark: TxnMark) -> Folds:
        """Return the folds of a transaction; called once for each after the offset."""
        return Folds.of(content, mark.op, self.table.paths)

    def _in_order(self, names: Sequence[str], snapshot: Snapshot) -> Iterator[LogContent]:
        """Yield the content of log files, fetched on demand."""
        for first in range(0, len(names), _AT_ONCE):
            some = names[first : first + _AT_ONCE]
            self._contents |= self._fetched(some, snapshot)
            yield from (self._contents[name] for name in some)

    def _fetched(self, names: Sequence[str], snapshot: Snapshot) -> dict[str, LogContent]:
        paths, contents = self.table.paths, dict[str, LogContent]()
        for name in names:
            content = self._contents.get(name) or snapshot.contents.get(long(name, paths))
            if content is not None:
                contents[name] = content
        keys = [long(name, paths) for name in names if name not in contents]
        for key, data in self.table.store.get_many(keys):
            if data is None:
                raise self._gone(key, snapshot)
            if key in snapshot.listing:
                refuse_other_size(key, len(data), snapshot.listing[key].size)
            contents[short(key, paths)] = codec.decode(key, data, paths)
        return contents

    def _gone(self, key: str, before: Snapshot) -> StreamBehindError:
        """Return the error for a log file that was listed or folded, and does not exist.

        Requests: those of ``read_snapshot``. Raises LogLostError, and StreamBehindError if the log
        was lost and has been rebuilt.
        """
        name = short(key, self.table.paths)
        merged = key in before.log_tombstones or any(
            name in folds.every for folds in self._folds.values()
        )
        now = read_snapshot(self.table.store, self.table.paths)
        foreign = frozenset(short(one, self.table.paths) for one in keys_of(now, "foreign-merge"))
        view = self._view(Offset(seq=before.seq, foreign=foreign), now)
        if merged or any(name in folds.every for folds in view.folds.values()):
            return StreamBehindError(
                f"append {key} was merged and deleted before this stream read it: the "
                "stream is behind by more than cleanup.grace",
                next_step=BEGIN_AGAIN,
            )
        return StreamBehindError(
            f"log file {key} is missing, and no transaction has folded it: it was deleted before "
            "this stream read it",
            next_step=BEGIN_AGAIN,
        )


def keys_of(snapshot: Snapshot, kind: str) -> set[str]:
    """Return the keys of the log files of one kind."""
    return {key for key, item in snapshot.listing.items() if item.name.kind == kind}
