"""The fence: whatever began before this transaction has ended (docs/format.md, "The fence").

``{"fence":{"seq":…,"t":…,"next":[…]}}`` is an extension record of the log: number and time of a
transaction that is older than every operation under way can be, and those that follow. A process
that slept, and continues with what began before it, finds that it is too late; what it writes all
the same counts for nobody.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

import msgspec

from firnline.log.reader import newest_seq
from firnline.log.record_kind import RecordKind
from firnline.log.schema_lines import first_sequence, folded_by_ours, standing
from firnline.settings.ages import LEAST_ORPHAN_MS

if TYPE_CHECKING:
    from firnline.log.reader import LogObject, LogRead
    from firnline.log.records import TxnMark

_CANDIDATES = 8
"""Candidates, so that the fence is at most an eighth older than it has to be."""
_MOST = 2 * _CANDIDATES
"""Candidates that are stated at most, if a clock that is far behind takes none of them for old."""


class Fence(msgspec.Struct, frozen=True, order=True):
    """A transaction before which every operation has ended."""

    seq: int = 0
    """Its number; 0: none."""
    t: int = 0
    """Its time, unix ms."""


NO_FENCE = Fence()


class Candidate(msgspec.Struct, frozen=True, order=True, array_like=True):
    """A transaction that becomes the fence once it is old enough.

    Its log file may be folded and deleted by then, and with it what shows its age.
    """

    seq: int
    t: int
    """Its time, unix ms."""
    seen_ms: int
    """Last-modified time of its log file by the store's clock, unix ms."""


class Stated(msgspec.Struct, frozen=True, omit_defaults=True):
    """The fence as a transaction records it, with the candidates for the next one."""

    seq: int = 0
    t: int = 0
    next: tuple[Candidate, ...] = ()
    """By number."""

    @property
    def fence(self) -> Fence:
        """The fence alone."""
        return Fence(self.seq, self.t)

    @property
    def place(self) -> tuple[Fence, int, int]:
        """Place among the records of a log: a transaction states all that its base does."""
        return (self.fence, max((c.seq for c in self.next), default=0), len(self.next))


_KIND = RecordKind("fence", Stated)
_read = _KIND.read


def fence_record(fence: Fence | Stated) -> bytes:
    """Return the record of a fence as a line."""
    stated = Stated(fence.seq, fence.t) if isinstance(fence, Fence) else fence
    return _KIND.line(stated)


def fence_of(lines: Iterable[bytes], newest: int | None = None) -> Fence:
    """Return the highest fence that extension records of any kind state.

    Args:
        lines: the records.
        newest: number of the newest transaction: a fence above it is none of this table. None: of
            a transaction that states it itself.
    """
    fences = (each.fence for each in _records(lines))
    return max((f for f in fences if newest is None or f.seq <= newest), default=NO_FENCE)


def without_lower(lines: Iterable[bytes]) -> list[bytes]:
    """Return the records without those of fences that are lower than another one."""
    kept = list(lines)
    highest = max(_records(kept), key=lambda each: each.place, default=None)
    return [line for line in kept if _read(line) in (None, highest)]


def without_fences(lines: Iterable[bytes]) -> list[bytes]:
    """Return the records that are of no fence: a transaction states all of it anew."""
    return [line for line in lines if _read(line) is None]


def raised(
    lines: Iterable[bytes],
    listing: Mapping[str, LogObject],
    listed_ms: int,
    ended_ms: int,
    least: int | None = None,
) -> Stated:
    """Return the fence that a transaction may state, and the candidates for those after it.

    Args:
        lines: extension records of its base.
        listing: log files of its base.
        listed_ms: wall clock from before that was listed.
        ended_ms: time after which everything has ended that began before a transaction was there.
        least: smallest sequence of the appends that the transaction leaves unfolded; None: of none.
    """
    all_lines = list(lines)
    newest = newest_seq(listing)
    fence = fence_of(all_lines, newest)
    named = (i for i in listing.values() if i.name.seq)
    shown = {Candidate(item.name.seq, item.name.t, item.modified_ms) for item in named}
    candidates = shown.union(*(stated.next for stated in _records(all_lines)))
    # Appends that have read no properties of the table go by a shorter time (LONGEST_UNTOLD_MS).
    before_ms = listed_ms - (ended_ms if fence.seq else max(ended_ms, LEAST_ORPHAN_MS))
    most = newest if least is None else min(newest, least)
    passed = (Fence(c.seq, c.t) for c in candidates if c.seen_ms < before_ms)
    fence = max([fence, *(each for each in passed if each.seq <= most)])
    later = sorted(c for c in candidates if fence.seq < c.seq <= newest)
    return Stated(fence.seq, fence.t, _apart(later, ended_ms // _CANDIDATES))


def _apart(later: Iterable[Candidate], ms: int) -> tuple[Candidate, ...]:
    """Return the first of some candidates, and of the others those that came so much later."""
    kept: list[Candidate] = []
    for candidate in later:
        if not kept or candidate.seen_ms - kept[-1].seen_ms >= ms:
            kept.append(candidate)
    return tuple(kept[:_MOST])


def behind(log: LogRead) -> frozenset[str]:
    """Return the log files that count for nobody: of appends too late, and those that came back.

    Only log files that were read can be behind the fence: others have folded, or a checkpoint
    covers, what was not.

    Args:
        log: a reading of the log, with its newest transaction.
    """
    lines = {line for content in log.contents.values() for line in content.other}
    if log.checkpoint is not None:
        lines.update(line.encode() for line in log.checkpoint.head.other)
    fence, unfolded = fence_of(lines, newest_seq(log.listing)), standing(log)
    late = _came_back(log, unfolded)
    for key in unfolded:
        first = first_sequence(log.contents[key].markers)
        if log.listing[key].name.kind == "append" and first is not None and first < fence.seq:
            late.add(key)
    return frozenset(late)


def covers_what_came_back(log: LogRead) -> bool:
    """Return True if the checkpoint of a reading covers a log file that came back, or may have.

    Then it is to be read without. Of one that a transaction has folded nothing shows whether it was
    gone in between. Once a clean-up has moved the horizon since, the log may have forgotten that
    parts of it died, which the checkpoint has alive.
    """
    base = log.checkpoint
    if base is None:
        return False
    if _purged(base.head.mark) < _purged(log.mark):
        return True
    folded = folded_by_ours(log) | base.folded
    return bool(_came_back(log, base.covered - folded))


def _purged(mark: TxnMark | None) -> int:
    return 0 if mark is None else mark.purged


def _came_back(log: LogRead, unfolded: Iterable[str]) -> set[str]:
    """Return the log files of transactions that the newest one does not know."""
    mark = log.mark
    if mark is None or mark.standing is None:
        return set()  # an older version does not say what stands
    counted = {mark.seq, *mark.standing}
    numbers = {key: log.listing[key].name.seq for key in unfolded}
    return {key for key, seq in numbers.items() if 0 < seq < max(counted) and seq not in counted}


def behind_since(log: LogRead, late: Iterable[str]) -> dict[str, int]:
    """Return since when readers leave log files out, unix ms by the store's clock.

    Until then they have read them, as parts of the table.

    Args:
        log: a reading of the log.
        late: log files that count for nobody (``behind``).
    """
    keys = frozenset(late)
    if not keys:
        return {}
    stated = [
        (fence_of(content.other).seq, log.listing[key].modified_ms)
        for key, content in log.contents.items()
        if key not in keys
    ]
    since: dict[str, int] = {}
    for key in keys:
        item, first = log.listing[key], first_sequence(log.contents[key].markers)
        passed = [
            at for seq, at in stated if not item.name.seq and first is not None and seq > first
        ]
        since[key] = max(item.modified_ms, min(passed, default=item.modified_ms))
    return since


def least_unfolded(log: LogRead, folds: Iterable[str]) -> int | None:
    """Return the smallest sequence of the appends that a transaction leaves unfolded, if any.

    Args:
        log: the log files of its base.
        folds: the log files that it folds.
    """
    left = set(standing(log)).difference(folds)
    firsts = (
        first_sequence(log.contents[key].markers)
        for key in left
        if log.listing[key].name.kind == "append"
    )
    return min((first for first in firsts if first is not None), default=None)


def _records(lines: Iterable[bytes]) -> Iterator[Stated]:
    return (record for record in map(_read, lines) if record is not None)
