"""Lists ``_log/`` and fetches what a snapshot needs; never skips a file it could not read.

A log file that a transaction of ours has folded is not fetched: everything in it stands in the
file that folded it (a fold may leave out only what is deleted and what no existing log file
still lists alive). Seven thousand appends cost one GET after their merge, not seven thousand
until clean-up passes. Folds of foreign clients are not trusted that far.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Protocol

from firnline.errors import LogCorruptError, SnapshotUnstableError
from firnline.log import codec
from firnline.log.records import LogContent, TxnMark
from firnline.paths import LogName, TablePaths
from firnline.store.base import Store

if TYPE_CHECKING:
    from firnline.log.checkpoint import Checkpoint

_LAST_T = 10**13 - 1
"""A name has 13 digits; with more of them names would not sort by time any more."""
ATTEMPTS = 5
"""How often a log that clean-up changes under the reader is listed again."""


@dataclass(frozen=True, slots=True)
class LogObject:
    """One log file of a listing."""

    name: LogName
    size: int
    modified_ms: int


@dataclass(frozen=True, slots=True)
class LogRead:
    """One consistent reading of a log."""

    listing: Mapping[str, LogObject]
    """Key -> log file, everything that exists."""
    contents: Mapping[str, LogContent]
    """Key -> content of what was fetched; all of the listing that no transaction folded."""
    ignored: tuple[str, ...] = ()
    """Keys under ``_log/`` that are no log files (not ``.jsonl``)."""
    checkpoint: Checkpoint | None = None
    """What stands for the log files that it covers; they are not among the contents."""
    unpublished: str = ""
    """Key of a log file that is not there yet: its transaction is committed."""

    @property
    def mark(self) -> TxnMark | None:
        """What the newest transaction says of itself; None for a log without transactions."""
        marks = [content.x for content in self.contents.values() if content.x is not None]
        if self.checkpoint is not None and self.checkpoint.head.mark is not None:
            marks.append(self.checkpoint.head.mark)
        return max(marks, key=lambda mark: mark.seq, default=None)


class Judge(Protocol):
    """Says whether what was read is a state of the table (``firnline.state.health``)."""

    def listed(self, listing: Mapping[str, LogObject]) -> None:
        """Called between the listing of a log and its first GET."""
        ...

    def judged(self, log: LogRead) -> LogRead | None:
        """Return the log to go on with; None to have it read once more. Raises LogLostError."""
        ...


FindCheckpoint = Callable[[Mapping[str, LogObject]], "Checkpoint | None"]
"""Listing of ``_log/`` -> a checkpoint whose every covered log file is in it, or none."""


def list_log(store: Store, paths: TablePaths) -> tuple[dict[str, LogObject], tuple[str, ...]]:
    """One LIST: the log files by key, and the keys of whatever else lies there.

    Raises LogCorruptError for a ``.jsonl`` object whose name is not a log file's.
    """
    found: dict[str, LogObject] = {}
    ignored: list[str] = []
    for meta in store.list(paths.log_dir):
        if meta.key.endswith(".jsonl"):
            name = paths.parse_log(meta.key)
            found[meta.key] = LogObject(name, meta.size, meta.modified_ms)
        else:
            ignored.append(meta.key)
    return found, tuple(ignored)


def time_after(names: Iterable[LogName], now_ms: int, least: int = 0) -> int:
    """When a transaction is that has to come after all of these log files: now, or later.

    Raises LogCorruptError where no name of a log file is left behind the newest: a transaction
    would be committed whose own name nobody reads.
    """
    newest = max(names, key=lambda name: name.t, default=None)
    if newest is None or newest.t < _LAST_T:
        return max(now_ms, least, 0 if newest is None else newest.t + 1)
    raise LogCorruptError(
        f"log file {newest.key} is dated {newest.t} ms after 1970, and nothing can come after it, "
        "as every transaction has to",
        next_step="move it out of _log/, and its parts into the table by `firnline import`",
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
    and those of ``find`` and ``judge``. A second LIST, and GETs of what is new, where what was
    listed is no state of the table.

    A listing of several pages is not of one moment: a log file may be published on a page that
    was read already, and the next transaction's on one that was not. The newest without the one
    before it is a state that the table never had; on it, what was dropped would come back.

    Args:
        store: of the table.
        paths: of the table.
        everything: fetch folded log files too (clean-up needs to know who still lists what).
        find: looks for a checkpoint; not with ``everything``.
        known: log files that this process has read before: they never change, and are not fetched.
        judge: says whether what was read is the table; None where nobody goes by it.

    Raises:
        LogCorruptError, ForeignPathError: see ``codec.decode``.
        LogLostError: the judge says so.
        SnapshotUnstableError: clean-up passed under every attempt, or transactions were published.
    """
    for _ in range(ATTEMPTS):
        listing, ignored = list_log(store, paths)
        if judge is not None:
            judge.listed(listing)
        checkpoint = find(listing)
        fetch = _Fetch(store, paths, listing, known)
        contents = _fetch_all(fetch, checkpoint, everything=everything)
        if contents is None:
            continue
        log = LogRead(listing, contents, ignored, checkpoint)
        judged = log if judge is None else judge.judged(log)
        if judged is not None:
            return judged
        known = {**known, **contents}
    raise SnapshotUnstableError(
        f"the log under {paths.log_dir} changed during each of {ATTEMPTS} attempts to read it",
        next_step="try again; if it goes on, see whether several clean-ups run at once",
    )


@dataclass(frozen=True, slots=True)
class _Fetch:
    """Where log files are fetched from."""

    store: Store
    paths: TablePaths
    listing: Mapping[str, LogObject]
    known: Mapping[str, LogContent]

    def __call__(self, keys: list[str], contents: dict[str, LogContent]) -> bool:
        """Fetch and decode ``keys`` into ``contents``; False when one of them is gone."""
        contents.update((key, self.known[key]) for key in keys if key in self.known)
        complete = True
        for key, data in self.store.get_many([key for key in keys if key not in contents]):
            if data is None:
                complete = False
            elif complete:
                if len(data) != self.listing[key].size:
                    raise LogCorruptError(
                        f"log file {key} has {self.listing[key].size} bytes in the listing "
                        f"and {len(data)} when read",
                        next_step="look for a cache or proxy between here and the store",
                    )
                contents[key] = codec.decode(key, data, self.paths)
        return complete


def _fetch_all(
    fetch: _Fetch, checkpoint: Checkpoint | None, *, everything: bool
) -> dict[str, LogContent] | None:
    contents: dict[str, LogContent] = {}
    folded: set[str] = set()  # or covered: there is nothing in them that is not known already
    listing = fetch.listing
    if checkpoint is not None:
        folded |= checkpoint.covered | checkpoint.folded
    ours = [key for key, item in listing.items() if item.name.seq]
    newest_first = sorted(ours, key=lambda key: listing[key].name.seq, reverse=True)
    for key in () if everything else newest_first:
        # One after the other: each says which of the older ones need no request at all, and
        # O(log N) of them are left.
        if key not in folded:
            if not fetch([key], contents):
                return None
            folded.update(stone.p for stone in contents[key].tombstones)
    rest = [key for key in listing if key not in contents and key not in folded]
    return contents if fetch(rest, contents) else None
