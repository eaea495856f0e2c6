"""Finished partitions: without an append for ``merge.finish_after``, brought to the fewest parts.

A partition that gets rows waits until a group is worth its bytes. Once nothing arrives any more,
waiting saves nothing: every scan pays for its parts for ever, and they are rewritten once. Then no
two of its parts fit into the target together (of a primary key: no two neighbours), and nothing is
due until rows arrive again, and for as long after that as it was old then.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from heapq import nsmallest
from itertools import pairwise
from typing import TYPE_CHECKING

from firnline.log.records import Marker
from firnline.operations.merge.splits import together
from firnline.operations.merge.tiers import sizer
from firnline.settings.load import MergeSettings, TableSettings
from firnline.state.snapshot import Snapshot
from firnline.units import format_duration

if TYPE_CHECKING:
    from firnline.log.parts_view import Ints

Span = tuple[int, int]
"""Insertion times of the first and the last rows of a part, unix ms."""
FEWEST = "is one of the fewest parts that its partition can have"


def waits_for(what: str, policy: MergeSettings) -> str:
    """Return the reason of ``what`` (parts or runs) that are too few, and not finished."""
    return _waits(what, policy.min_inputs, policy.finish_after)


def alone_because(what: str, policy: MergeSettings, *, finish: bool) -> str:
    """Return the reason of ``what`` (parts or runs) of which no group pays.

    ``finish``: their partition is brought to the fewest parts.
    """
    return FEWEST if finish else waits_for(what, policy)


@lru_cache(maxsize=64)  # the same for each of a million partitions
def _waits(what: str, least: int, finish_after: int | None) -> str:
    reason = f"waits until {least} {what} of about its size are there"
    if finish_after is None:
        return reason
    return f"{reason}, or no append for {format_duration(finish_after)}"


def finished_at(spans: Sequence[Span], policy: MergeSettings, now_ms: int) -> int | None:
    """Return since when, or from when on at the earliest, a partition is finished, unix ms.

    Merges, rewrites and deletes keep the insertion times of rows, so that they do not count as
    appends. A time that is far ahead counts from when it took effect.

    Rows that come to a partition after it was finished make it wait for as long as it was old when
    they came: then every rewrite is of a partition at least twice as old as at the one before, and
    rows that trickle in for years cost a logarithm of rewrites.

    Args:
        spans: of the live parts of the partition (``spans_of``), or what ``fewer`` makes of them.
        policy: of the table.
        now_ms: wall clock.

    Returns:
        The time; None for never.
    """
    wait = policy.finish_after
    if wait is None:
        return None
    last = max(end for _, end in spans)
    if last + wait > now_ms or not _interrupted(spans, wait):
        return last + wait
    return last + max(wait, last - min(start for start, _ in spans))


def spans_of(snapshot: Snapshot, parts: Sequence[Marker]) -> list[Span]:
    """Return the insertion times of the first and the last rows of each part."""
    if not snapshot.dated:  # the usual case, and there may be a million parts
        return [marker.order() for marker in parts]
    when = snapshot.effective
    spans = []
    for marker in parts:
        (first, last), came = marker.order(), when(marker.t)
        spans.append((min(when(first), came), min(when(last), came)))
    return spans


def fewer(first: Ints, last: Ints, policy: MergeSettings) -> list[Span]:
    """Return fewer spans than those of parts, by which ``finished_at`` says the same.

    Spans that begin in the same interval of ``finish_after`` have no pause of that length between
    them, so they are one.

    Args:
        first: insertion times of the first rows of each part of a partition.
        last: those of the last rows, in the same order.
        policy: of the table.
    """
    wait = policy.finish_after
    if (last < first).any():  # of another writer
        return list(zip(first.tolist(), last.tolist(), strict=True))
    if wait is None or first.max() - first.min() < wait:
        return [(int(first.min()), int(last.max()))]
    order = first.argsort()
    first, last = first[order], last[order]
    intervals = first // wait
    begins = [0, *((intervals[1:] != intervals[:-1]).nonzero()[0] + 1).tolist(), len(first)]
    return [(int(first[low]), int(last[low:high].max())) for low, high in pairwise(begins)]


def _interrupted(spans: Sequence[Span], wait: int) -> bool:
    """Return True if nothing arrived between two of the parts for ``wait``."""
    reach: int | None = None
    for first, last in sorted(spans):
        if reach is not None and first - reach >= wait:
            return True
        reach = last if reach is None else max(reach, last)
    return False


def may_shrink(settings: TableSettings, parts: Sequence[Marker]) -> bool:
    """Return True if a finished partition of these parts may become fewer parts, or fewer runs."""
    if settings.cluster_by is not None:
        return len({m.c or m.p for m in parts}) > 1
    policy = settings.merge
    size = sizer(policy)
    return two_fit((sum(map(size, unit)) for unit in together(parts)), policy)


def two_fit(sizes: Iterable[int], policy: MergeSettings) -> bool:
    """Return True if two parts of these sizes fit into the target together."""
    least = nsmallest(2, sizes)
    return len(least) > 1 and sum(least) <= policy.target_size
