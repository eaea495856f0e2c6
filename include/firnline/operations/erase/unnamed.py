"""Objects under ``_data/`` that no log file names, and that may hold a key of an erase.

Whoever began before the erase may have slept, and may upload what it read before it at any time. So
time alone frees no object: what came after every wait of the clock is free only if its footer says
that its writer began at or after the erase.
"""

from __future__ import annotations

from collections.abc import Iterator

from firnline.log.dated import written_since
from firnline.operations.erase.certificate import Remaining, remaining
from firnline.operations.erase.evidence import Search
from firnline.operations.erase.sweeping import sweep_step
from firnline.parquet.footers import FooterFacts, FooterTask, FooterWanted, many_facts
from firnline.store.base import ObjectMeta

_BEFORE = "named by no log file, and written by somebody who began before the erase ended"
_SLEPT = (
    "named by no log file, and its footer does not say that its writer began after the erase: "
    "somebody who began before it may have slept"
)


def find_unnamed(search: Search) -> tuple[Remaining, ...]:
    """Return the unnamed objects of whose writers nobody can tell that they began after the erase.

    Requests: one ranged GET for each unnamed object that was last modified after every wait of the
    clock was over (two where its footer is very long). Raises StoreError.
    """
    over, now = search.over_ms, search.inventory.now_ms
    early, later = list[ObjectMeta](), list[ObjectMeta]()
    parts = search.inventory.snapshot.parts
    for key, meta in search.inventory.objects.items():
        if key in parts:
            continue
        if meta.modified_ms < over:
            early.append(meta)
        else:
            later.append(meta)
    slept = set(_of_sleepers(search, later))
    return (
        *_orphans(search, early, _BEFORE, over if over > now else None),
        *_orphans(search, [meta for meta in later if meta.key in slept], _SLEPT),
    )


def _orphans(
    search: Search, found: list[ObjectMeta], why: str, until_ms: int | None = None
) -> tuple[Remaining, ...]:
    now = search.inventory.now_ms
    since = (written_since(meta.key, meta.modified_ms, now) for meta in found)
    step = sweep_step(search, max(since, default=0))
    return remaining("orphan", [meta.key for meta in found], why, step, until_ms)


def _of_sleepers(search: Search, unnamed: list[ObjectMeta]) -> Iterator[str]:
    tasks = [FooterTask(meta.key, meta.size) for meta in unnamed]
    footers = many_facts(search.table.store, tasks, FooterWanted())
    return (facts.key for facts in footers if not (facts.gone or _began_after(search, facts)))


def _began_after(search: Search, facts: FooterFacts) -> bool:
    """Return True if a footer of this table says that its writer knew the erase."""
    part = facts.part
    if part is None or part.table != search.table.paths.prefix:
        return False  # also of a table that was relocated since: it is swept
    return part.q >= search.replaced.seq
