"""The one judgement of a log: never written, whole, one transaction unpublished, or lost.

Log files are deleted by clean-up alone, and only after a transaction that carries them was
published. So the rest of a table says what its log must hold, and whoever reads, appends or commits
asks here (docs/format.md, "The state of a log"; the order of the requests is the argument):

* A transaction is committed after the one before it was published. A listing of ``_log/`` that
  began after transaction n was seen shows n - 1 or a newer one.
* What the newest transaction stands on is there: log files that it has not folded, for nobody has;
  and while it is not published itself, those that it has folded too.
* A table with a transaction, a birth record (``_txn/`` number 0) or old objects has a log.

What cannot be told: the log file of an append that no transaction has folded is named by nothing
but itself.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Literal

from firnline.errors import ForeignPathError, LogCorruptError, LogLostError, UsageError
from firnline.ids import uuid7_time_ms
from firnline.log import codec, txn_file
from firnline.log.reader import LogObject, LogRead, read_log
from firnline.log.records import LogContent, Marker
from firnline.log.txn_file import TxnHeader
from firnline.log.union import union_parts
from firnline.paths import TablePaths
from firnline.state.survey import LogSurvey, TxnSurvey, survey_transactions
from firnline.store.base import ObjectMeta, Store
from firnline.store.client import ObjectClient
from firnline.table import Table

State = Literal["never written", "whole", "unpublished", "lost"]

OLD_MS = 24 * 3_600_000
"""Age beyond which an object belongs to no append that is still under way, if the table's times to
live are not longer: the floor of the orphan sweep."""
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
    """What state a log is in."""

    state: State
    found: str = ""
    """What says that it is lost: a clause."""
    unpublished: Unpublished | None = None
    missing: frozenset[int] = frozenset()
    """Transactions on which the newest one stands, and whose log files are not listed."""


@dataclass(frozen=True, slots=True)
class Log:
    """What one reading of ``_log/`` shows."""

    listing: Collection[str]
    """Keys of all log files."""
    sequences: frozenset[int]
    """Numbers of the transactions among them."""
    folded: Collection[str]
    """Log files that others of them have folded, a client of version 1 included."""
    standing: tuple[int, ...] = ()
    """On which the newest transaction was committed, as it says."""

    @property
    def seq(self) -> int:
        """The newest transaction; 0 without one."""
        return max(self.sequences, default=0)

    @classmethod
    def of(cls, log: LogRead) -> Log:
        """From what a reader has read."""
        folded = {stone.p for content in log.contents.values() for stone in content.tombstones}
        if log.checkpoint is not None:
            folded |= {stone.key for stone in log.checkpoint.head.stones}
        mark = log.mark
        standing = mark.standing if mark is not None else None
        return cls(log.listing.keys(), _sequences(log.listing), folded, standing or ())


@dataclass(frozen=True, slots=True)
class Transactions:
    """What a listing of ``_txn/`` shows."""

    newest: int = 0
    """The highest number; 0 where there is none behind where the listing began."""
    born: bool = False
    """Whether there is anything at all: a transaction or the birth record."""
    modified_ms: int = 0
    """Last-modified time of the newest."""

    @classmethod
    def after(
        cls, store: Store, paths: TablePaths, listing: Mapping[str, LogObject]
    ) -> Transactions:
        """Those that a listing of ``_log/`` does not know of. Requests: 1 LIST.

        Of a log without transactions the birth record too.
        """
        newest = max(_sequences(listing), default=0)
        start = paths.txn(newest) if newest else None
        return cls.of(paths, store.list(paths.txn_dir, start))

    @classmethod
    def of(cls, paths: TablePaths, metas: Iterable[ObjectMeta]) -> Transactions:
        """From a listing; what is no transaction is told of by verify."""
        found: dict[int, int] = {}
        for meta in metas:
            try:
                found[paths.parse_txn(meta.key)] = meta.modified_ms
            except LogCorruptError:
                continue
        newest = max(found, default=0)
        return cls(newest, bool(found), found.get(newest, 0))


def judge(store: Store, paths: TablePaths, log: Log, txns: Transactions) -> Health:
    """Judge a log by what it shows and by what its transactions say.

    "lost" is final where the listing of ``_log/`` began after ``txns`` were seen (``Watch``): else
    somebody may have committed in between.

    Requests: 1 GET where the newest transaction is the one after the log's; and of a first one that
    says nothing of a log before it 1 LIST of ``_data/``, as far as an object that it does not name.
    """
    missing = frozenset(log.standing) - log.sequences
    if missing:
        return Health(
            "lost",
            f"transaction {log.seq} was committed on log files of others, and that of transaction "
            f"{min(missing)} is gone",
            missing=missing,
        )
    if txns.newest > log.seq + 1:
        newest = txns.newest - 1
        return Health("lost", f"transaction {newest} was published, and nothing there is as new")
    if txns.newest == log.seq + 1:
        return _newest(store, paths, log, txns)
    if not log.listing:
        found = "the table was written to, and no log file is left"
        return Health("lost", found) if txns.born else Health("never written")
    return Health("whole")


def _newest(store: Store, paths: TablePaths, log: Log, txns: Transactions) -> Health:
    """Of a log that lacks the newest transaction alone: not published yet, or lost."""
    key = paths.txn(txns.newest)
    header, log_file = txn_file.decode(key, store.get(key), paths)
    content = codec.decode(header.log, log_file, paths)
    found = _not_on(store, paths, log, header, content)
    if found:
        return Health("lost", f"transaction {header.seq} {found}")
    return Health(
        "unpublished", unpublished=Unpublished(header, log_file, content, txns.modified_ms)
    )


def _not_on(
    store: Store, paths: TablePaths, log: Log, header: TxnHeader, content: LogContent
) -> str:
    """What says that a log is not the one on which a transaction was committed; else nothing.

    Nobody of ours deletes a log file that it folded, or one that it left standing, before it is
    published itself. Clients of version 1 may, and carry the markers of what they have folded:
    those of appends are all that there was in them.
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
    # Committed on an empty log, then: but was anything appended since?
    named = {marker.p for marker in content.markers}
    other = _first(store, paths, lambda meta: meta.key not in named)
    return f"is all that is left of the log, and does not name {other}" if other else ""


def _first(store: Store, paths: TablePaths, wanted: Callable[[ObjectMeta], bool]) -> str:
    """The first part under ``_data/`` of that kind; empty without one. 1 LIST."""
    for meta in store.list(paths.data_dir):
        if meta.key.endswith(".parquet") and wanted(meta):
            return meta.key
    return ""


def _sequences(listing: Mapping[str, LogObject]) -> frozenset[int]:
    return frozenset(item.name.seq for item in listing.values() if item.name.seq)


def lost(paths: TablePaths, found: str) -> LogLostError:
    """The one error for a log that is lost."""
    return LogLostError(
        f"the log under {paths.log_dir} is lost, or a part of it: {found}{_BY_WHOM}",
        next_step="`firnline rebuild` writes it anew from the transactions and the parts",
    )


# --- readers --------------------------------------------------------------------------------------


@dataclass
class Watch:
    """The judgement that goes with each reading of a log (``log.reader.Judge``).

    Requests: 1 LIST of ``_txn/`` for each listing of ``_log/``, and those of ``judge``.
    """

    store: Store
    paths: TablePaths
    health: Health = Health("never written")
    """Of the log that was read last."""
    _txns: Transactions | None = None
    """What was seen last, and"""
    _before: Transactions | None = None
    """before this listing of the log began."""
    _looking: Future[Transactions] | None = None
    _missing: frozenset[int] = field(default_factory=frozenset)

    @property
    def born(self) -> bool:
        """Whether the log without transactions that was read last is one of a table."""
        return self._txns is not None and self._txns.born

    def listed(self, listing: Mapping[str, LogObject]) -> None:
        """Look at the transactions while the log is read: its listing began before."""
        self._before = self._txns
        self._looking = _beside(
            self.store, partial(Transactions.after, self.store, self.paths, listing)
        )

    def judged(self, log: LogRead) -> LogRead | None:
        """Return the log with what is committed and not published; None: read it once more.

        Raises LogLostError.
        """
        assert self._looking is not None  # a log is listed before it is judged
        shown, txns = Log.of(log), self._looking.result()
        self._txns = txns
        self.health = health = judge(self.store, self.paths, shown, txns)
        if health.unpublished is not None:
            return with_newest(self.paths, log, health.unpublished)
        if health.state != "lost":
            return log
        if health.missing & self._missing or (not health.missing and self._is_final(shown, txns)):
            raise lost(self.paths, health.found)
        self._missing = health.missing
        return None

    def _is_final(self, shown: Log, txns: Transactions) -> bool:
        """Whether the log would be lost by the transactions alone that came before its listing."""
        before = self._before
        if before is None or before == txns:
            return before is not None
        return judge(self.store, self.paths, shown, before).state == "lost"


def _beside(store: Store, look: Callable[[], Transactions]) -> Future[Transactions]:
    """Ask in a thread, so that whoever reads does not wait for it.

    Only a client of a real store may be used from several threads.
    """
    if isinstance(store, ObjectClient):
        with_one = ThreadPoolExecutor(1, thread_name_prefix="firnline-txn")
        found = with_one.submit(look)
        with_one.shutdown(wait=False)
        return found
    found = Future()
    found.set_result(look())
    return found


def with_newest(paths: TablePaths, log: LogRead, newest: Unpublished) -> LogRead:
    """Return the log as it is once the newest transaction is published: committed it is."""
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
    """Refuse a table without log file and transaction that holds objects of some age.

    A first append that is under way has brought younger ones; the leftovers of one that died long
    ago look like what is left of a table, and only a person can tell.

    Requests: 1 LIST of ``_data/``, as far as the first such object. Raises LogLostError.
    """
    found = old_objects(table)
    if found:
        raise lost(table.paths, found)


def old_objects(table: Table) -> str:
    """What says that a table without log file and transaction had one; see ``refuse_objects``."""
    settings = table.settings
    longest = max(OLD_MS, settings.append.ttl, settings.commit_ttl)
    before = table.clock.now_ms() - longest
    old = _first(table.store, table.paths, lambda meta: _youngest_ms(meta) < before)
    if not old:
        return ""
    return (
        f"there is no log file and {old} is older than any append under way (where the table's "
        "first append died and left it, delete it)"
    )


def _youngest_ms(meta: ObjectMeta) -> int:
    """When an object was made, by its name and by the store: the later of both, unix ms."""
    try:
        made = uuid7_time_ms(meta.key.rpartition("/")[2].removesuffix(".parquet"))
    except ValueError:
        return meta.modified_ms
    return max(made, meta.modified_ms)


def no_table(table: Table) -> UsageError:
    """The error for a root at which there is no table. Requests: as ``refuse_objects``.

    Raises LogLostError where there was one.
    """
    refuse_objects(table)
    return UsageError(
        f"there is no table at {table.settings.root}: it has no log file",
        next_step="correct the name or root, or make the table with `firnline append`; if its log "
        "was lost a moment ago, `firnline rebuild` writes it anew",
    )


def require_table(table: Table) -> None:
    """Refuse a root at which there is no table. Requests: 1 LIST where there is one.

    Raises UsageError; LogLostError where there was one.
    """
    if next(iter(table.store.list(table.paths.log_dir)), None) is not None:
        return
    watch = Watch(table.store, table.paths)
    if not read_log(table.store, table.paths, judge=watch).listing:
        raise no_table(table)


# --- verify and rebuild, which have read everything -----------------------------------------------


def of_survey(table: Table, log: LogSurvey, txns: TxnSurvey) -> Health:
    """Judge a table that nobody works on by all that reads of it. Requests: as ``judge``."""
    shown = Log.of(LogRead(log.listing, log.contents))
    return judge(table.store, table.paths, shown, Transactions(txns.newest, txns.born))


def confirmed_lost(table: Table, health: Health) -> str:
    """What says that a log is lost, read once more where somebody may have been at work; else "".

    Requests: none unless ``health`` says so; then those of ``read_log`` with a ``Watch``.
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
    """Parts of which published transactions know more than the log: (not named, taken for live).

    Args:
        parts: of the log, each in its final state.
        txns: the transactions up to the newest one that is published.
    """
    missing, revived = [], []
    for path, marker in sorted(txns.parts.items()):
        known = parts.get(path)
        if known is None and marker.tmb is None:
            missing.append(path)
        if known is not None and known.tmb is None and marker.tmb is not None:
            revived.append(path)
    return tuple(missing), tuple(revived)


def refuse_whole(table: Table, log: LogSurvey, txns: TxnSurvey) -> None:
    """Refuse to rebuild a log of which nothing is lost. Requests: as ``judge``.

    Nor is one refused whose newest transaction is a rebuild that nobody has published: it died.

    Raises UsageError.
    """
    newest = txns.headers.get(txns.newest)
    if newest is not None and newest.op == "rebuild" and newest.log not in log.listing:
        return
    if of_survey(table, log, txns).state == "lost":
        return
    published = max(_sequences(log.listing), default=0)
    if txns.newest > published:  # it is none of the log's yet
        txns = survey_transactions(table.store, table.paths, upto=published)
    if any(unknown_parts(union_parts(log.contents.values()), txns)):
        return
    raise UsageError(
        f"the log of table {table.settings.name} is whole: it reads, no log file is missing that "
        "its transactions speak of, and it lacks nothing that they name",
        next_step="there is nothing to rebuild, and `firnline verify` says so too unless something "
        "else is wrong; --force rebuilds all the same",
    )
