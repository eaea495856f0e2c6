"""Copies left by a restore that died before its commit.

A copy is the part that it was made of, byte for byte, its footer included: an append's, and so it
looks like a part that was appended.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

from firnline.log import dated
from firnline.log.records import Marker
from firnline.parquet.footers import FooterFacts
from firnline.types.values import Stats

_Look = tuple[str, int, int | None, int | None]
"""Folder, bytes, rows, data sequence."""


def copies_of(named: Iterable[Marker], footers: Sequence[FooterFacts]) -> dict[str, str]:
    """Return objects that may be copies -> their possible original.

    An original was named after its append began, by the same clock, and a copy whenever another
    machine's clock says so. Two appends at once may write parts that look alike, too: somebody has
    to decide.

    Args:
        named: all parts that log files and transactions name, dead ones too.
        footers: of the objects that nothing names, whatever their table was called.
    """
    alike: dict[_Look, list[Marker]] = defaultdict(list)
    for marker in named:
        alike[_folder(marker.p), marker.b, marker.n, marker.q].append(marker)
    originals: dict[str, str] = {}
    same: dict[tuple[str, _Look], list[str]] = defaultdict(list)
    for facts in sorted(footers, key=lambda facts: facts.key):
        part = facts.part
        if part is None or not part.append:
            continue
        look = (_folder(facts.key), facts.bytes, facts.rows, part.q)
        twins = same[part.append, look]
        others = [m.p for m in alike.get(look, ()) if not _differ(facts.stats, m.stats())]
        original = next(
            (o for o in [*others, *twins] if (dated.named_at(o) or 0) >= part.o[0]), None
        )
        if original is not None:
            originals[facts.key] = original
        for twin in twins:
            originals.setdefault(twin, facts.key)  # either of two unnamed ones may be the copy
        same[part.append, look].append(facts.key)
    return originals


def _differ(stats: Stats, others: Stats) -> bool:
    """Return True if bounds that are exact in any statistics, whole numbers, differ."""
    return any(
        isinstance(one, int) and isinstance(other, int) and one != other
        for column in stats.keys() & others.keys()
        for one, other in zip(stats[column][:2], others[column][:2], strict=True)
    )


def _folder(key: str) -> str:
    return key.rpartition("/")[0]
