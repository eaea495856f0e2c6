"""The fence: whatever began before this transaction has ended (docs/format.md, "The fence").

``{"fence":{"seq":…,"t":…}}`` is an extension record of the log: number and time of a transaction
that is older than every operation under way can be. A process that slept, and continues with what
began before it, finds that it is too late; what it writes all the same counts for nobody.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import msgspec

from firnline.log.schema_lines import first_sequence, standing

if TYPE_CHECKING:
    from firnline.log.reader import LogObject, LogRead


class Fence(msgspec.Struct, frozen=True, order=True):
    """A transaction before which every operation has ended."""

    seq: int = 0
    """Its number; 0: none."""
    t: int = 0
    """Its time, unix ms."""


NO_FENCE = Fence()


class _Record(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    fence: Fence


_DECODE = msgspec.json.Decoder(_Record).decode


def fence_record(fence: Fence) -> bytes:
    """Return the record of a fence as a line."""
    return msgspec.json.encode(_Record(fence))


def fence_of(lines: Iterable[bytes]) -> Fence:
    """Return the highest fence that extension records of any kind state."""
    return max((found for found in map(_read, lines) if found is not None), default=NO_FENCE)


def without_lower(lines: Iterable[bytes]) -> list[bytes]:
    """Return the records without those of fences that are lower than another one."""
    kept = list(lines)
    highest = fence_of(kept)
    return [line for line in kept if _read(line) in (None, highest)]


def raised(
    fence: Fence, listing: Mapping[str, LogObject], before_ms: int, least: int | None
) -> Fence:
    """Return the fence that a transaction may state.

    Args:
        fence: that of its base.
        listing: log files of its base.
        before_ms: what began before a transaction has ended if that was published before this
            time, unix ms by the store's clock.
        least: smallest sequence of the appends that the transaction leaves unfolded; None: of none.
    """
    passed = (
        Fence(item.name.seq, item.name.t)
        for item in listing.values()
        if item.name.seq and item.modified_ms < before_ms
    )
    return max([fence, *(each for each in passed if least is None or each.seq <= least)])


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
    fence, mark = fence_of(lines), log.mark
    known = None if mark is None or mark.standing is None else {mark.seq, *mark.standing}
    found: set[str] = set()
    for key in standing(log):
        name, first = log.listing[key].name, first_sequence(log.contents[key].markers)
        if name.seq:
            late = known is not None and name.seq < max(known) and name.seq not in known
        else:
            late = name.kind == "append" and first is not None and first < fence.seq
        if late:
            found.add(key)
    return frozenset(found)


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


def _read(line: bytes) -> Fence | None:
    """Parse a line; None for a record of another kind, or in the form of a later version."""
    if not line.startswith(b'{"fence"'):
        return None
    try:
        return _DECODE(line).fence
    except msgspec.MsgspecError:
        return None
