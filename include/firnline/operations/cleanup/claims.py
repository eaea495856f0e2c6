"""Claims of keys of appends whose time is over (docs/format.md, "Appends with a key")."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby, islice

from firnline.commit.base import Base
from firnline.log import keyed
from firnline.objects import kind_of
from firnline.properties.in_force import waits
from firnline.store.base import ObjectMeta
from firnline.table import Table


def expired_claims(base: Base, now_ms: int) -> list[ObjectMeta]:
    """Return the claims that may be deleted: of each key the newest, once that is old enough.

    One of a key in each run: a key with a newer claim and without the first would look like one
    that nobody has used.

    Requests: none if the log states no key; else 1 LIST per 1,000 claims, and 1 LIST of ``_txn/``.

    Args:
        base: with the whole log.
        now_ms: wall clock.
    """
    table, snapshot = base.table, base.snapshot
    if not keyed.any_key(snapshot.other):
        return []
    cutoff = now_ms - waits(snapshot.properties, table.settings, now_ms).forgotten
    cutoff = min(cutoff, _passed_ms(base))
    return [meta for meta in _newest(base) if meta.modified_ms < cutoff]


def _passed_ms(base: Base) -> int:
    """Return how far the fence reaches, unix ms by the store's clock; 0: not at all.

    Whoever made a claim after the fence, and slept, may still publish under it.
    """
    table, fence = base.table, base.snapshot.fence
    if not fence.seq:
        return 0
    listing = table.store.list(table.paths.txn_dir, table.paths.txn(fence.seq - 1))
    made = {meta.key: meta.modified_ms for meta in islice(listing, 1)}
    # By its own date too: a copy makes objects under _txn/ younger than they are.
    return min(made.get(table.paths.txn(fence.seq), 0), fence.t)


def _newest(base: Base) -> Iterator[ObjectMeta]:
    ours = listed_as(base.table, base.table.paths.claims_dir(), "claim of a key")
    for _, claims in groupby(ours, key=lambda meta: meta.key.rpartition("/")[0]):
        yield max(claims, key=lambda meta: meta.key)


def listed_as(table: Table, prefix: str, kind: str) -> Iterator[ObjectMeta]:
    """Yield the objects of a kind (``objects.KINDS``) below a prefix, and nothing of others."""
    for meta in table.store.list(prefix):
        found = kind_of(table.paths, meta.key)
        if found is not None and found.name == kind:
            yield meta
