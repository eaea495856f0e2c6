"""Read all that is readable in ``_log/`` and ``_txn/``, and record what is not.

For commands that must work on a damaged table: verify reports the damage, rebuild collects what is
left. All other code uses ``read_snapshot``, which never continues without a file.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from firnline.errors import FirnlineError, LogCorruptError, SnapshotUnstableError
from firnline.log import chain, codec, txn_file
from firnline.log.chain import Link
from firnline.log.reader import ATTEMPTS, LogObject, refuse_other_size
from firnline.log.records import Delete, LogContent, Marker
from firnline.log.txn_file import TxnHeader
from firnline.log.union import combine
from firnline.paths import TablePaths
from firnline.properties import record as birth
from firnline.properties.record import PropertiesRecord
from firnline.store.base import Store

RESTARTS = frozenset({"clone", "downgrade", "rebuild"})
"""Operations whose log file is the whole table."""


@dataclass(frozen=True, slots=True)
class LogSurvey:
    """The readable and unreadable content of ``_log/``."""

    listing: Mapping[str, LogObject]
    """All objects that are named like a log file."""
    contents: Mapping[str, LogContent]
    """Content of the readable log files, by key."""
    broken: Mapping[str, FirnlineError]
    """Errors of the unreadable log files, by key."""
    strange: tuple[str, ...]
    """Objects that are not log files."""
    digests: Mapping[str, str] = field(default_factory=dict)
    """Digests (``log.chain``) of the transactions' log files, computed, by key."""


@dataclass(slots=True)
class TxnSurvey:
    """The content of ``_txn/``: the union of all transactions that are kept."""

    headers: dict[int, TxnHeader] = field(default_factory=dict)
    broken: dict[str, FirnlineError] = field(default_factory=dict)
    strange: list[str] = field(default_factory=list)
    numbers: list[int] = field(default_factory=list)
    """Sequence numbers in the listing, including those of unreadable files."""
    born: bool = False
    """True if there is any object: a transaction, or the birth record (number 0)."""
    parts: dict[str, Marker] = field(default_factory=dict)
    """All parts that the transactions name, each in its final state."""
    deletes: dict[str, Delete] = field(default_factory=dict)
    other: set[bytes] = field(default_factory=set)
    schemas: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    """Pairs of a transaction and its schema line."""
    folded: set[str] = field(default_factory=set)
    """Log files that the transactions have folded, as far as they say."""
    purged: int = 0
    properties: list[PropertiesRecord] = field(default_factory=list)
    """Property records of the transactions and of the birth record, each with its own time."""
    modified: dict[int, int] = field(default_factory=dict)
    """Last-modified time of the object in unix ms, by transaction number."""
    born_ms: int = 0
    """Last-modified time of the birth record, unix ms."""
    last: int = 0
    """The last number in use before a downgrade, as the birth record states it; 0: none."""
    links: dict[int, Link] = field(default_factory=dict)
    """Place of each transaction in the chain of digests, by number."""
    standing: dict[int, tuple[int, ...] | None] = field(default_factory=dict)
    """By number: the transactions on whose log files it was committed besides; None if it does not
    say."""

    @property
    def newest(self) -> int:
        """Highest number in the listing; 0 if there is none."""
        return max(self.numbers, default=0)


def survey_log(store: Store, paths: TablePaths) -> LogSurvey:
    """Read every log file, and record those that cannot be read.

    Requests: 1 LIST, and one GET per log file, folded ones included.

    Raises SnapshotUnstableError if clean-up interferes with every attempt.
    """
    for _ in range(ATTEMPTS):
        listing: dict[str, LogObject] = {}
        strange: list[str] = []
        for meta in store.list(paths.log_dir):
            try:
                name = paths.parse_log(meta.key)
            except LogCorruptError:
                strange.append(meta.key)
            else:
                listing[meta.key] = LogObject(name, meta.size, meta.modified_ms)
        read = _read_all(store, paths, listing)
        if read is not None:
            contents, broken, digests = read
            return LogSurvey(listing, contents, broken, tuple(strange), digests)
    raise SnapshotUnstableError(
        f"the log under {paths.log_dir} changed during each of {ATTEMPTS} attempts to read it",
        next_step="try again when no clean-up runs",
    )


def _read_all(
    store: Store, paths: TablePaths, listing: Mapping[str, LogObject]
) -> tuple[dict[str, LogContent], dict[str, FirnlineError], dict[str, str]] | None:
    contents: dict[str, LogContent] = {}
    broken: dict[str, FirnlineError] = {}
    digests: dict[str, str] = {}
    for key, data in store.get_many({key: item.size for key, item in listing.items()}):
        if data is None:
            return None
        try:
            refuse_other_size(key, len(data), listing[key].size)
            contents[key] = codec.decode(key, data, paths)
            if contents[key].x is not None:
                digests[key] = chain.content_digest(key, data, paths)
        except FirnlineError as error:
            broken[key] = error
    return contents, broken, digests


def survey_transactions(
    store: Store,
    paths: TablePaths,
    upto: int | None = None,
    without: Collection[int] = (),
) -> TxnSurvey:
    """Return the union of all transactions; memory is that of one snapshot.

    Requests: LIST (1,000 a page), and one GET per transaction.

    Args:
        store: store of the table.
        paths: paths of the table.
        upto: leave the content of later transactions out of the union.
        without: numbers of transactions that are not read at all.
    """
    survey = TxnSurvey()
    sizes: dict[str, int] = {}
    for meta in store.list(paths.txn_dir):
        try:
            number = paths.parse_txn(meta.key)
        except LogCorruptError:
            survey.strange.append(meta.key)
            continue
        survey.born = True
        if number in without:
            continue
        sizes[meta.key] = meta.size
        if number:
            survey.numbers.append(number)
            survey.modified[number] = meta.modified_ms
        else:
            survey.born_ms = meta.modified_ms
    for key, data in store.get_many(sizes):
        if data is None:
            survey.numbers.remove(paths.parse_txn(key))  # removed by retention since the listing
            continue
        try:
            _take(survey, key, data, paths, upto)
        except FirnlineError as error:
            survey.broken[key] = error
    return survey


def _take(survey: TxnSurvey, key: str, data: bytes, paths: TablePaths, upto: int | None) -> None:
    if not paths.parse_txn(key):
        record = birth.decode(key, data)
        survey.properties.append(PropertiesRecord(0, record.t, record.properties))
        survey.last = record.last
        return
    header, log_file = txn_file.decode(key, data, paths)
    content = codec.decode(header.log, log_file, paths)
    survey.headers[header.seq] = header
    survey.links[header.seq] = chain.link_of(data, header, log_file, content.x, paths)
    survey.standing[header.seq] = _standing(header, content)
    if upto is not None and header.seq > upto:
        return
    for marker in content.markers:
        before = survey.parts.setdefault(marker.p, marker)
        if before is not marker:
            survey.parts[marker.p] = combine(before, marker)
    survey.deletes.update((d.id, d) for d in content.deletes)
    survey.other.update(content.other)
    survey.schemas.append((key, content.schema))
    survey.folded.update(item.p for item in content.tombstones)
    survey.properties += content.properties
    if header.properties is not None and not content.properties:  # of a downgrade
        survey.properties.append(PropertiesRecord(header.seq, header.t, header.properties))
    if content.x is not None:
        survey.purged = max(survey.purged, content.x.purged)


def _standing(header: TxnHeader, content: LogContent) -> tuple[int, ...] | None:
    if content.x is None or header.op in RESTARTS:
        return ()  # a log file of its own, that carries everything
    return content.x.standing
