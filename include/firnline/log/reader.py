"""List ``_log/`` and fetch the log files of a snapshot; a file that cannot be read is an error.

A log file that a transaction has folded is not fetched: the log file of the transaction carries its
content (a fold may leave out only what is deleted and what no existing log file still lists as
live). Seven thousand appends cost one GET after their merge, not seven thousand until clean-up has
run. Folds of foreign clients are not trusted to do so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Protocol

from firnline.errors import LogCorruptError, SnapshotUnstableError
from firnline.log import codec
from firnline.log.records import LogContent, TxnMark
from firnline.next_steps import MANY_CLEANUPS
from firnline.paths import LogName, TablePaths
from firnline.store.base import Store

if TYPE_CHECKING:
    from firnline.log.checkpoint import Checkpoint

_LAST_T = 10**13 - 1
"""Largest time in a name: it has 13 digits, since with more the names would not sort by time."""
ATTEMPTS = 5
"""Listings at most, if clean-up changes the log during the reading."""


@dataclass(frozen=True, slots=True)
class LogObject:
    """A log file of a listing."""

    name: LogName
    size: int
    modified_ms: int


@dataclass(frozen=True, slots=True)
class LogRead:
    """A consistent reading of a log."""

    listing: Mapping[str, LogObject]
    """Key -> log file, of all that exist."""
    contents: Mapping[str, LogContent]
    """Key -> content, of the log files that were fetched: all that no transaction folded."""
    ignored: tuple[str, ...] = ()
    """Keys under ``_log/`` that are not log files (not ``.jsonl``)."""
    checkpoint: Checkpoint | None = None
    """The checkpoint that replaces the log files that it covers; they are not in ``contents``."""
    unpublished: str = ""
    """Key of a log file that is not published yet, though its transaction is committed."""

    @property
    def mark(self) -> TxnMark | None:
        """The mark of the newest transaction; None for a log without transactions."""
        marks = [content.x for content in self.contents.values() if content.x is not None]
        if self.checkpoint is not None and self.checkpoint.head.mark is not None:
            marks.append(self.checkpoint.head.mark)
        return max(marks, key=lambda mark: mark.seq, default=None)


class Judge(Protocol):
    """Decides whether a reading is a state of the table (``firnline.state.health``)."""

    def listed(self, listing: Mapping[str, LogObject]) -> None:
        """Take the listing of a log; called before the first GET."""
        ...

    def judged(self, log: LogRead) -> LogRead | None:
        """Return the log to use; None to have it read again. Raises LogLostError."""
        ...


FindCheckpoint = Callable[[Mapping[str, LogObject]], "Checkpoint | None"]
"""Listing of ``_log/`` -> a checkpoint whose covered log files are all in it, or None."""


def list_log(store: Store, paths: TablePaths) -> tuple[dict[str, LogObject], tuple[str, ...]]:
    """Return the log files by key, and the keys of other objects under ``_log/``, with one LIST.

    Raises LogCorruptError for a ``.jsonl`` object whose name is not a log file's.
    """
    listing: dict[str, LogObject] = {}
    ignored: list[str] = []
    for meta in store.list(paths.log_dir):
        if meta.key.endswith(".jsonl"):
            name = paths.parse_log(meta.key)
            listing[meta.key] = LogObject(name, meta.size, meta.modified_ms)
        else:
            ignored.append(meta.key)
    return listing, tuple(ignored)


def newest_seq(listing: Mapping[str, LogObject]) -> int:
    """Return the number of the newest transaction with a log file; 0 without one."""
    return max((item.name.seq for item in listing.values()), default=0)


def time_after(names: Iterable[LogName], now_ms: int, least: int = 0) -> int:
    """Return the time of a transaction that has to come after all of these log files.

    Raises LogCorruptError if no later time fits into the name of a log file: a transaction would be
    committed whose log file no reader finds.
    """
    newest = max(names, key=lambda name: name.t, default=None)
    if newest is None or newest.t < _LAST_T:
        return max(now_ms, least, 0 if newest is None else newest.t + 1)
    raise LogCorruptError(
        f"log file {newest.key} is dated {newest.t} ms after 1970, and nothing can come after it, "
        "as every transaction has to",
        next_step="move it out of _log/, and its parts elsewhere, from where "
        "`firnline import TABLE FOLDER_URL` takes them",
    )


def read_log(
    store: Store,
    paths: TablePaths,
    *,
    everything: bool = False,
    find: FindCheckpoint = lambda _: None,
    known: Mapping[str, LogContent] = MappingProxyType({}),
    judge: Judge | None = None,
) -> LogRead:
    """Read the log of a table.

    Requests: 1 LIST and one GET per log file that is neither folded nor covered by a checkpoint,
    and those of ``find`` and ``judge``. A second LIST, and GETs of new log files, if the reading is
    not a state of the table.

    A listing of several pages is not atomic: a log file may be published on a page that was read
    already, and that of the next transaction on one that was not. The newest without the one before
    it is a state that the table never had, in which dropped parts would be live again.

    Args:
        store: of the table.
        paths: of the table.
        everything: fetch folded log files too (clean-up needs to know which parts they list);
            where there is a checkpoint, it takes the place of all that it covers or has folded.
        find: looks for a checkpoint.
        known: log files that this process has read before: they never change, and are not fetched.
        judge: decides whether the reading is a state of the table; None to accept any.

    Raises:
        LogCorruptError, ForeignPathError: see ``codec.decode``.
        LogLostError: raised by the judge.
        SnapshotUnstableError: clean-up ran, or transactions were published, during every attempt.
    """
    for _ in range(ATTEMPTS):
        listing, ignored = list_log(store, paths)
        if judge is not None:
            judge.listed(listing)
        checkpoint = find(listing)
        fetch = _Fetch(store, paths, listing, known)
        contents = _fetch_all(fetch, checkpoint, everything=everything and checkpoint is None)
        if contents is None:
            continue
        log = LogRead(listing, contents, ignored, checkpoint)
        judged = log if judge is None else judge.judged(log)
        if judged is not None:
            return judged
        known = {**known, **contents}
    raise SnapshotUnstableError(
        f"the log under {paths.log_dir} changed during each of {ATTEMPTS} attempts to read it",
        next_step=MANY_CLEANUPS,
    )


@dataclass(frozen=True, slots=True)
class _Fetch:
    """Fetches log files of one listing."""

    store: Store
    paths: TablePaths
    listing: Mapping[str, LogObject]
    known: Mapping[str, LogContent]

    def __call__(self, keys: list[str], contents: dict[str, LogContent]) -> bool:
        """Fetch and decode ``keys`` into ``contents``; returns False if one of them is gone."""
        contents.update((key, self.known[key]) for key in keys if key in self.known)
        complete = True
        sizes = {key: self.listing[key].size for key in keys if key not in contents}
        for key, data in self.store.get_many(sizes):
            if data is None:
                complete = False
            elif complete:
                refuse_other_size(key, len(data), self.listing[key].size)
                contents[key] = codec.decode(key, data, self.paths)
        return complete


def refuse_other_size(key: str, size: int, listed: int) -> None:
    """Raise LogCorruptError if a log file was read with another size than it was listed with.

    A log file is written once. One of version 1 that ends after any of its lines is a valid one, so
    nothing else shows that records are missing.
    """
    if size != listed:
        raise LogCorruptError(
            f"log file {key} has {listed} bytes in the listing and {size} when read",
            next_step="look for a cache or proxy between here and the store",
        )


def _fetch_all(
    fetch: _Fetch, checkpoint: Checkpoint | None, *, everything: bool
) -> dict[str, LogContent] | None:
    contents: dict[str, LogContent] = {}
    folded: set[str] = set()  # folded or covered: all of their content is known already
    listing = fetch.listing
    if checkpoint is not None:
        folded |= checkpoint.covered | checkpoint.folded
    ours = [key for key, item in listing.items() if item.name.seq]
    newest_first = sorted(ours, key=lambda key: listing[key].name.seq, reverse=True)
    for key in () if everything else newest_first:
        # Sequentially: each one names older ones that need no request, so that O(log N) of them
        # are fetched.
        if key not in folded:
            if not fetch([key], contents):
                return None
            folded.update(tombstone.p for tombstone in contents[key].tombstones)
    rest = [key for key in listing if key not in contents and key not in folded]
    return contents if fetch(rest, contents) else None
