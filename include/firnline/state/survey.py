"""Reads what there is of a log and of ``_txn/``, also where some of it does not read.

For what has to work on a damaged table: verify tells what it finds, rebuild gathers what is left.
Everything else uses ``read_snapshot``, which never goes on without a file.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from firnline.errors import FirnlineError, LogCorruptError, SnapshotUnstableError
from firnline.log import codec, txn_file
from firnline.log.reader import ATTEMPTS, LogObject
from firnline.log.records import Delete, LogContent, Marker
from firnline.log.txn_file import TxnHeader
from firnline.log.union import combine
from firnline.paths import TablePaths
from firnline.properties import birth
from firnline.properties.record import PropertiesRecord
from firnline.store.base import Store


@dataclass(frozen=True, slots=True)
class LogSurvey:
    """``_log/`` as it is."""

    listing: Mapping[str, LogObject]
    """Everything whose name is a log file's."""
    contents: Mapping[str, LogContent]
    """What of it reads."""
    broken: Mapping[str, FirnlineError]
    """What of it does not, and why."""
    strange: tuple[str, ...]
    """Objects that are no log files."""


@dataclass(slots=True)
class TxnSurvey:
    """``_txn/`` as it is: the union of all transactions that are kept."""

    headers: dict[int, TxnHeader] = field(default_factory=dict)
    broken: dict[str, FirnlineError] = field(default_factory=dict)
    strange: list[str] = field(default_factory=list)
    numbers: list[int] = field(default_factory=list)
    """Sequence numbers of the listing, also of files that do not read."""
    born: bool = False
    """Whether there is anything: a transaction, or number 0, the birth record, which is none."""
    parts: dict[str, Marker] = field(default_factory=dict)
    """All parts that they name, each in its final state."""
    deletes: dict[str, Delete] = field(default_factory=dict)
    other: set[bytes] = field(default_factory=set)
    schemas: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    """(transaction, its schema line)"""
    folded: set[str] = field(default_factory=set)
    """Log files that they have folded, as far as they tell."""
    purged: int = 0
    properties: list[PropertiesRecord] = field(default_factory=list)
    """What they say that the table is, the birth record included; each with its own time."""
    modified: dict[int, int] = field(default_factory=dict)
    """Number -> last-modified time of the object, unix ms."""

    @property
    def newest(self) -> int:
        """Highest number of the listing; 0 without one."""
        return max(self.numbers, default=0)


def survey_log(store: Store, paths: TablePaths) -> LogSurvey:
    """Requests: 1 LIST, and one GET per log file, folded ones included.

    Raises SnapshotUnstableError when clean-up passes under every attempt.
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
        found = _read_all(store, paths, listing)
        if found is not None:
            return LogSurvey(listing, *found, tuple(strange))
    raise SnapshotUnstableError(
        f"the log under {paths.log_dir} changed during each of {ATTEMPTS} attempts to read it",
        next_step="try again when no clean-up runs",
    )


def _read_all(
    store: Store, paths: TablePaths, listing: Mapping[str, LogObject]
) -> tuple[dict[str, LogContent], dict[str, FirnlineError]] | None:
    contents: dict[str, LogContent] = {}
    broken: dict[str, FirnlineError] = {}
    for key, data in store.get_many(list(listing)):
        if data is None:
            return None
        try:
            contents[key] = codec.decode(key, data, paths)
        except FirnlineError as error:
            broken[key] = error
    return contents, broken


def survey_transactions(store: Store, paths: TablePaths, upto: int | None = None) -> TxnSurvey:
    """The union of what the transactions publish; memory is that of one snapshot.

    Requests: LIST (1,000 a page), and one GET per transaction.

    Args:
        store: of the table.
        paths: of the table.
        upto: leave the content of later transactions out of the union.
    """
    found = TxnSurvey()
    keys: list[str] = []
    for meta in store.list(paths.txn_dir):
        try:
            number = paths.parse_txn(meta.key)
        except LogCorruptError:
            found.strange.append(meta.key)
            continue
        found.born = True
        keys.append(meta.key)
        if number:
            found.numbers.append(number)
            found.modified[number] = meta.modified_ms
    for key, data in store.get_many(keys):
        if data is None:
            found.numbers.remove(paths.parse_txn(key))  # past its retention since the listing
            continue
        try:
            _take(found, key, data, paths, upto)
        except FirnlineError as error:
            found.broken[key] = error
    return found


def _take(found: TxnSurvey, key: str, data: bytes, paths: TablePaths, upto: int | None) -> None:
    if not paths.parse_txn(key):
        record = birth.decode(key, data)
        found.properties.append(PropertiesRecord(0, record.t, record.properties))
        return
    header, log_file = txn_file.decode(key, data, paths)
    content = codec.decode(header.log, log_file, paths)
    found.headers[header.seq] = header
    if upto is not None and header.seq > upto:
        return
    for marker in content.markers:
        known = found.parts.setdefault(marker.p, marker)
        if known is not marker:
            found.parts[marker.p] = combine(known, marker)
    found.deletes.update((d.id, d) for d in content.deletes)
    found.other.update(content.other)
    found.schemas.append((key, content.schema))
    found.folded.update(stone.p for stone in content.tombstones)
    found.properties += content.properties
    if header.properties is not None and not content.properties:  # of a downgrade
        found.properties.append(PropertiesRecord(header.seq, header.t, header.properties))
    if content.x is not None:
        found.purged = max(found.purged, content.x.purged)
