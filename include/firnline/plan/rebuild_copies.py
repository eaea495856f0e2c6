"""Copies that a restore has left which died before its commit.

A copy is the part that it was made of, byte for byte, its footer included: an append's, and so it
looks like a part that was appended.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

from firnline.footers import FooterFacts
from firnline.ids import uuid7_time_ms
from firnline.log.records import Marker
from firnline.paths import TablePaths

_Look = tuple[str, int, int | None, int | None]
"""Folder, bytes, rows, data sequence."""


def copies_of(
    named: Iterable[Marker], footers: Sequence[FooterFacts], paths: TablePaths
) -> dict[str, str]:
    """Objects that may be copies -> what of.

    An original was written after its append began, and a copy after the original (or, by a clock
    that is behind, before that append). Two appends at once may write parts that look alike, too:
    somebody has to decide.

    Args:
        named: all parts that log files and transactions name, dead ones too.
        footers: of the objects that nothing names.
        paths: of the table.
    """
    alike: dict[_Look, list[str]] = defaultdict(list)
    for marker in named:
        alike[_folder(marker.p), marker.b, marker.n, marker.q].append(marker.p)
    found: dict[str, str] = {}
    same: dict[tuple[str, _Look], list[str]] = defaultdict(list)
    for facts in sorted(footers, key=lambda facts: facts.key):
        part = facts.part
        if part is None or part.table != paths.prefix or not part.append:
            continue
        look = (_folder(facts.key), facts.bytes, facts.rows, part.q)
        # Of two that nobody names the older name is the original's.
        others = [*alike.get(look, ()), *same[part.append, look]]
        original = next((o for o in others if _may_copy(facts.key, part.o[0], o)), None)
        if original is not None:
            found[facts.key] = original
        same[part.append, look].append(facts.key)
    return found


def _may_copy(key: str, began_ms: int, original: str) -> bool:
    copied, written = _named_ms(key), _named_ms(original)
    return copied < began_ms or began_ms <= written < copied


def _named_ms(key: str) -> int:
    try:
        return uuid7_time_ms(key.rpartition("/")[2].removesuffix(".parquet"))
    except ValueError:
        return 0


def _folder(key: str) -> str:
    return key.rpartition("/")[0]
