"""Judge the state of a log: never written, whole, one transaction unpublished, or lost.

Only clean-up deletes log files, and only after a transaction that carries them was published. So
the rest of a table shows what its log must contain, and every reader, append and commit checks it
here (docs/format.md, "The state of a log"; the order of the requests is the argument):

* A transaction is committed after the previous one was published. A listing of ``_log/`` that began
  after transaction n was seen shows n - 1 or a newer one.
* The log files on which the newest transaction was committed exist: those that it has not folded,
  because nobody has; and as long as it is not published itself, those that it has folded too.
* An append states the newest transaction of when it began, which was there before it.
* A table with a transaction, a birth record (``_txn/`` number 0) or old objects has a log.
* A log without transactions, of a table that was downgraded, continues after the number that the
  birth record states: those up to it are used up, and a transaction under one of them, by a process
  that slept, has not happened.

One loss cannot be detected: the log file of an append that no transaction has folded is named by
nothing but itself.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Collection, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Literal

from firnline.errors import (
    ForeignPathError,
    LogCorruptError,
    LogLostError,
    NoTableError,
    NothingToDoError,
    ObjectNotFoundError,
)
from firnline.log import codec, dated, txn_file
from firnline.log.reader import LogObject, LogRead, read_log
from firnline.log.records import LogContent, Marker
from firnline.log.txn_file import TxnHeader
from firnline.log.union import union_parts
from firnline.paths import TablePaths
from firnline.properties.record import Birth
from firnline.settings.ages import LEAST_ORPHAN_MS
from firnline.state.birth import read_birth
from firnline.state.survey import LogSurvey, TxnSurvey, survey_transactions
from firnline.store.base import ObjectMeta, Store
from firnline.store.client import ObjectClient
from firnline.store.present import head_or_none
from firnline.table import Table

State = Literal["never written", "whole", "unpublished", "lost"]

_BY_WHOM = "; log files were deleted, maybe by the clean-up of a client of log version 1"


@dataclass(frozen=True, slots=True)
class Unpublished:
    """The newest transaction, committed and without its log file under ``_log/``."""

    header: TxnHeader
    log_file: bytes
    content: LogContent
    modified_ms: int
    """Last-modified time of its object under ``_txn/``."""


@dataclass(frozen=True, slots=True)
class Health:
    """The state of a log, and the evidence for it."""

    state: State
    found: str = ""
    """Evidence that the log is lost: a clause."""
    unpublished: Unpublished | None = None
    missing: frozenset[int] = frozenset()
    """Transactions on which the newest one was committed, and whose log files are not listed."""
    birth: Birth | None = None
    """The birth record, if it was read to judge."""


@dataclass(frozen=True, slots=True)
class Log:
    """The content of one reading of ``_log/``."""

    listing: Collection[str]
    """Keys of all log files."""
    sequences: frozenset[int]
    """Sequence numbers of the transactions among them."""
    folded: Collection[str]
    """Log files folded by others of them, also by a client of version 1."""
    standing: tuple[int, ...] = ()
    """Transactions on which the newest one was committed, according to its log file."""
    began_after: int = 0
    """Newest transaction that an append had seen when it began, of those that none has folded."""

    @property
    def seq(self) -> int:
        """Sequence number of the newest transaction; 0 if there is none."""
        return max(self.sequences, default=0)

    @classmethod
    def of(cls, log: LogRead) -> Log:
        """Return the content of what a reader has read."""
        folded = {item.p for content in log.contents.values() for item in content.tombstones}
        if log.checkpoint is not None:
            folded |= {item.key for item in log.checkpoint.head.stones}
        mark = log.mark
        standing = mark.standing if mark is not None else None
        appends = (c for k, c in log.contents.items() if not log.listing[k].name.seq)
        began_after = max((m.q or 0 for content in appends for m in content.markers), default=0)
        return cls(log.listing.keys(), _sequences(log.listing), folded, standing or (), began_after)


@dataclass(frozen=True, slots=True)
class Transactions:
    """The content of a listing of ``_txn/``."""

    newest: int = 0
    """Highest sequence number; 0 if there is none after the start of the listing."""
    born: bool = False
    """True if there is any object: a transaction or the birth record."""
    modified_ms: int = 0
    """Last-modified time of the newest transaction, unix ms."""

    @classmethod
    def after(
        cls, store: Store, paths: TablePaths, listing: Mapping[str, LogObject]
    ) -> Transactions:
        """List the transactions that a listing of ``_log/`` does not contain. Requests: 1 LIST.

        For a log without transactions the listing includes the birth record.
        """
        newest = max(_sequences(listing), default=0)
        start = paths.txn(newest) if newest else None
        return cls.of(paths, store.list(paths.txn_dir, start))

    @classmethod
    def of(cls, paths: TablePaths, metas: Iterable[ObjectMeta]) -> Transactions:
        """Return the content of a listing; verify reports objects that are not transactions."""
        times: dict[int, int] = {}
        for meta in metas:
            try:
                times[paths.parse_txn(meta.key)] = meta.modified_ms
            except LogCorruptError:
                continue
        newest = max(times, default=0)
        return cls(newest, bool(times), times.get(newest, 0))


def judge(store: Store, paths: TablePaths, log: Log, txns: Transactions) -> Health:
    """Judge a log by its content and by its transactions.

    "lost" is final if the listing of ``_log/`` began after ``txns`` were seen (``Watch``);
    otherwise another process may have committed in between.

    Requests: 1 GET if the newest transaction is the one after the log's newest; and if that is a
    first transaction that names no earlier log, 1 LIST of ``_data/`` up to an object that it does
    not name. If the log shows no transaction, and is lost or has none of the log files that the
    newest one has folded, 1 GET of the birth record, and those above again if that states a number.
    """
    health = _judged(store, paths, log, txns, 0)
    if log.seq or not txns.born or not _may_be_of_before(health, log):
        return health
    birth = read_birth(store, paths)
    if birth is not None and birth.last:
        health = _judged(store, paths, log, txns, birth.last)
    return replace(health, birth=birth)


def _may_be_of_before(health: Health, log: Log) -> bool:
    """Return True if a downgrade may be why a log looks as it does.

    It deletes the log files that transactions of before have folded, when it deletes the history.
    It leaves one, and so does every client of version 1.
    """
    newest = health.unpublished
    if newest is None:
        return health.state == "lost" and bool(log.listing)
    return txn_file.folded_by(newest.content).isdisjoint(log.listing)


def _judged(store: Store, paths: TablePaths, log: Log, txns: Transactions, used: int) -> Health:
    """Judge a log; ``used``: the last number that is used up, if the log shows none."""
    missing = frozenset(log.standing) - log.sequences
    if missing:
        return Health(
            "lost",
            f"transaction {log.seq} was committed on log files of others, and that of transaction "
            f"{min(missing)} is gone",
            missing=missing,
        )
    before, newest = max(log.seq, used), txns.newest if txns.newest > used else 0
    if log.began_after > max(before, newest):
        return Health(
            "lost",
            f"an append began after transaction {log.began_after}, and nothing there or under "
            "_txn/ is as new",
        )
    if newest > before + 1:
        why = f"transaction {newest - 1} was published, and nothing there is as new"
        return Health("lost", why)
    if newest == before + 1:
        return _newest(store, paths, log, txns)
    if not log.listing:
        why = "the table was written to, and no log file is left"
        return Health("lost", why) if txns.born else Health("never written")
    return Health("whole")


def _newest(store: Store, paths: TablePaths, log: Log, txns: Transactions) -> Health:
    """Judge a log that lacks only the newest transaction: not yet published, or lost."""
    key = paths.txn(txns.newest)
    header, log_file = txn_file.decode(key, store.get(key), paths)
    content = codec.decode(header.log, log_file, paths)
    mismatch = _mismatch(store, paths, log, header, content)
    if mismatch:
        return Health("lost", f"transaction {header.seq} {mismatch}")
    return Health(
        "unpublished", unpublished=Unpublished(header, log_file, content, txns.modified_ms)
    )


def _mismatch(
    store: Store, paths: TablePaths, log: Log, header: TxnHeader, content: LogContent
) -> str:
    """Return evidence that a transaction was not committed on this log; empty if there is none.

    No client of version 2 deletes a log file that its transaction folded or kept before it is
    published itself. Clients of version 1 may, and carry the markers of the log files that they
    folded: for appends, markers are the whole content.
    """
    if header.log in log.folded:
        return "was published, and its log file is gone"
    folded = txn_file.folded_by(content)
    gone = folded.difference(log.listing, log.folded)
    if gone:
        return f"has folded {min(gone)}, and both are gone"
    standing = (content.x.standing if content.x is not None else None) or ()
    missing = frozenset(standing) - log.sequences
    if missing:
        return f"was committed on transaction {min(missing)}, whose log file is gone"
    if log.listing:
        return ""
    if any(marker.tmb is not None for marker in content.markers):
        return "was committed on log files, and none of them is left"
    # So it was committed on an empty log: check whether anything was appended since.
    named = {marker.p for marker in content.markers}
    other = _first(store, paths, lambda meta: meta.key not in named)
    return f"is all that is left of the log, and does not name {other}" if other else ""


def _first(store: Store, paths: TablePaths, matches: Callable[[ObjectMeta], bool]) -> str:
    """Return the first part under ``_data/`` that matches; empty if none does. Requests: 1 LIST."""
    for meta in store.list(paths.data_dir):
        if meta.key.endswith(".parquet") and matches(meta):
            return meta.key
    return ""


def _sequences(listing: Mapping[str, LogObject]) -> frozenset[int]:
    return frozenset(item.name.seq for item in listing.values() if item.name.seq)


def lost(paths: TablePaths, found: str) -> LogLostError:
    """Return the error for a lost log."""
    return LogLostError(
        f"the log under {paths.log_dir} is lost, or a part of it: {found}{_BY_WHOM}",
        next_step="`firnline rebuild` writes it again from the transactions and the parts",
    )


# --- readers --------------------------------------------------------------------------------------


@dataclass
class Watch:
    """Judges a log each time it is read (``log.reader.Judge``).

    Requests: 1 LIST of ``_txn/`` for each listing of ``_log/``, and those of ``judge``.
    """

    store: Store
    paths: TablePaths
    health: Health = Health("never written")
    """Health of the log that was read last."""
    _txns: Transactions | None = None
    """Transactions seen last."""
    _before: Transactions | None = None
    """Transactions seen before the current listing of the log began."""
    _looking: Future[Transactions] | None = None
    _missing: frozenset[int] = field(default_factory=frozenset)

    @property
    def born(self) -> bool:
        """True if the log that was read last, which has no transactions, belongs to a table."""
        return self._txns is not None and self._txns.born

    def listed(self, listing: Mapping[str, LogObject]) -> None:
        """List the transactions while the log is read, whose listing began before."""
        self._before = self._txns
        self._looking = _in_background(
            self.store, partial(Transactions.after, self.store, self.paths, listing)
        )

    def judged(self, log: LogRead) -> LogRead | None:
        """Return the log with its unpublished transaction, if any; None if it must be read again.

        Raises LogLostError.
        """
        assert self._looking is not None  # a log is listed before it is judged
        shown, txns = Log.of(log), self._looking.result()
        self._txns = txns
        try:
            self.health = health = judge(self.store, self.paths, shown, txns)
        except ObjectNotFoundError:
            return None  # the newest transaction is gone since it was listed
        if health.unpublished is not None:
            return with_newest(self.paths, log, health.unpublished)
        if health.state != "lost":
            return log
        if health.missing & self._missing or (not health.missing and self._is_final(shown, txns)):
            raise lost(self.paths, health.found)
        self._missing = health.missing
        return None

    def _is_final(self, shown: Log, txns: Transactions) -> bool:
        """Return True if the transactions seen before the log was listed prove that it is lost."""
        before = self._before
        if before is None or before == txns:
            return before is not None
        return judge(self.store, self.paths, shown, before).state == "lost"


def _in_background(store: Store, look: Callable[[], Transactions]) -> Future[Transactions]:
    """Run a request in a thread, so that the reader does not wait for it.

    Only a client of a real store may be used from several threads. A folder is listed in less time
    than a thread takes to start.
    """
    if isinstance(store, ObjectClient) and not store.in_folder:
        executor = ThreadPoolExecutor(1, thread_name_prefix="firnline-txn")
        future = executor.submit(look)
        executor.shutdown(wait=False)
        return future
    future = Future()
    future.set_result(look())
    return future


def with_newest(paths: TablePaths, log: LogRead, newest: Unpublished) -> LogRead:
    """Return the log as it will be once the newest transaction, already committed, is published."""
    key = newest.header.log
    item = LogObject(paths.parse_log(key), len(newest.log_file), newest.modified_ms)
    return replace(
        log,
        listing={**log.listing, key: item},
        contents={**log.contents, key: newest.content},
        unpublished=key,
    )


# --- a table without a log file -------------------------------------------------------------------


def refuse_objects(table: Table) -> None:
    """Refuse a table that has no log file and no transaction, but objects of some age.

    A first append that is in progress has written younger objects. Leftovers of one that failed
    long ago cannot be told apart from the remains of a table; only a person can decide.

    Requests: 1 LIST of ``_data/``, up to the first such object; where there is one, a HEAD of the
    plan of a clone, and with that a second LIST. Raises LogLostError.
    """
    first = old_objects(table)
    if first:
        raise lost(table.paths, first)


def old_objects(table: Table) -> str:
    """Return evidence that a table without log and transactions had a log (``refuse_objects``)."""
    settings = table.settings
    longest = max(LEAST_ORPHAN_MS, settings.append.ttl, settings.commit_ttl)
    now = table.clock.now_ms()

    def begun(meta: ObjectMeta) -> bool:
        # A copy of a bucket makes every last-modified time new, and leaves the names.
        return dated.begun_by(meta.key, meta.modified_ms, now) < now - longest

    def written(meta: ObjectMeta) -> bool:
        return dated.written_since(meta.key, meta.modified_ms, now) < now - longest

    store, paths = table.store, table.paths
    old = _first(store, paths, begun)
    if old and head_or_none(store, paths.clone_plan) is not None:
        old = _first(store, paths, written)  # a clone under way copies old parts before their log
    if not old:
        return ""
    return (
        f"there is no log file, and {old} is older than any append in progress (if the table's "
        "first append failed and left it, delete it)"
    )


def no_table(table: Table) -> NoTableError:
    """Return the error for a root without a table. Requests: as ``refuse_objects``.

    Raises LogLostError if there was a table.
    """
    refuse_objects(table)
    # Its name may be that of no settings file.
    root = shlex.quote(table.settings.root)
    return NoTableError(
        f"there is no table at {table.settings.root}: it has no log file",
        next_step="correct the name or root, or create the table with "
        f"`firnline append {root} FILE`; if its log was lost just now, `firnline rebuild {root}` "
        "writes it again",
    )


def require_table(table: Table) -> None:
    """Refuse a root without a table. Requests: 1 LIST if there is one.

    Raises NoTableError, or LogLostError if there was a table.
    """
    if next(iter(table.store.list(table.paths.log_dir)), None) is not None:
        return
    watch = Watch(table.store, table.paths)
    if not read_log(table.store, table.paths, judge=watch).listing:
        raise no_table(table)


# --- verify and rebuild, which have read everything -----------------------------------------------


def of_survey(table: Table, log: LogSurvey, txns: TxnSurvey) -> Health:
    """Judge a table that nothing writes to, by all that is readable. Requests: as ``judge``."""
    shown = Log.of(LogRead(log.listing, log.contents))
    return judge(table.store, table.paths, shown, Transactions(txns.newest, txns.born))


def confirmed_lost(table: Table, health: Health) -> str:
    """Return evidence that a log is lost, or "" if a second reading shows that it is not.

    Requests: none unless ``health`` is "lost"; then those of ``read_log`` with a ``Watch``.
    """
    if health.state != "lost":
        return ""
    try:
        read_log(table.store, table.paths, judge=Watch(table.store, table.paths))
    except (LogCorruptError, ForeignPathError):
        return health.found
    return ""


def unknown_parts(
    parts: Mapping[str, Marker], txns: TxnSurvey
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Compare the log with its published transactions: (parts it lacks, dead parts it has as live).

    Args:
        parts: parts of the log, each in its final state.
        txns: the transactions up to the newest published one.
    """
    missing, revived = [], []
    for path, marker in sorted(txns.parts.items()):
        stated = parts.get(path)
        if stated is None and marker.tmb is None:
            missing.append(path)
        if stated is not None and stated.tmb is None and marker.tmb is not None:
            revived.append(path)
    return tuple(missing), tuple(revived)


def refuse_whole(
    table: Table, log: LogSurvey, txns: TxnSurvey, ineffective: Collection[int] = ()
) -> None:
    """Refuse to rebuild a log that has lost nothing. Requests: as ``judge``.

    A log whose newest transaction is an unpublished rebuild is not refused: that rebuild failed.

    Args:
        table: the table.
        log: what is left of ``_log/``.
        txns: the transactions that count.
        ineffective: numbers of those that do not.

    Raises NothingToDoError.
    """
    newest = txns.headers.get(txns.newest)
    if newest is not None and newest.op == "rebuild" and newest.log not in log.listing:
        return
    if of_survey(table, log, txns).state == "lost":
        return
    published = max(_sequences(log.listing), default=0)
    if txns.newest > published:  # it is not in the log yet
        others = frozenset(ineffective)
        txns = survey_transactions(table.store, table.paths, upto=published, without=others)
    if any(unknown_parts(union_parts(log.contents.values()), txns)):
        return
    raise NothingToDoError(
        f"the log of table {table.settings.name} is whole: it is readable, no log file that its "
        "transactions name is missing, and it lacks no part that they name",
        next_step="there is nothing to rebuild; `firnline verify` confirms it unless something "
        "else is wrong; --force rebuilds anyway",
    )
