"""Find and remove metadata of the mirror that states values of erased rows.

Manifests state bounds of files, which are values of rows. The snapshots of before an erase go once
one that shows it is as old as the grace, and with them all manifests that only they lead to.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyiceberg.exceptions import CommitFailedException

from firnline.mirror.iceberg.catalog import asked, open_catalog
from firnline.mirror.iceberg.commit import expire_before
from firnline.mirror.iceberg.head import read_head
from firnline.mirror.iceberg.shown import list_records
from firnline.mirror.iceberg.sweep import kept_ms, sweep
from firnline.table import Table


@dataclass(frozen=True, slots=True)
class Rest:
    """Objects that remain."""

    keys: tuple[str, ...]
    next_step: str
    until_ms: int | None = None
    """When they may go, unix ms; None when time does not decide."""


def clear(table: Table, seq: int, grace: int, keys: tuple[str, ...]) -> Rest | None:
    """Delete what states bounds of before a transaction; return what remains of it.

    Requests: those of ``read_head``, twice, of ``sweep``, a LIST, and a commit of the catalog.

    Args:
        table: the table.
        seq: the transaction.
        grace: how long a reader may use a snapshot after a newer one, ms.
        keys: all objects of the mirror's metadata.

    Raises MirrorRefusedError, MirrorDamagedError, MirrorCatalogError.
    """
    name = table.settings.name
    again = f"run `firnline certificate {name}` then"
    opened = open_catalog(table)
    head = read_head(opened)
    first = list_records(table.store, table.paths).since(seq)
    if head is None or head.position.seq < seq or first is None:
        step = f"run `firnline mirror {name}`, or delete the folder _iceberg if it is not used"
        return Rest(keys, step)
    until = first.modified_ms + kept_ms(grace)
    if until > table.clock.now_ms():
        return Rest(keys, again, until)
    with asked(opened.name):
        try:
            kept = expire_before(opened, head, seq)
        except CommitFailedException:
            return Rest(keys, again)
    if kept:
        return Rest(keys, f"drop {', '.join(kept)} of {opened}, which keep old snapshots")
    newest = read_head(opened)
    swept = sweep(table, opened, newest or head, grace)
    if swept.young:
        return Rest(swept.young, again, table.clock.now_ms() + kept_ms(grace))
    return Rest(keys, again) if swept.warning else None
