"""Find and remove metadata of the mirror that states values of erased rows.

Manifests state bounds of files, which are values of rows. The snapshots of before an erase go once
one that shows it is as old as the grace, and with them all manifests that only they lead to. The
first snapshot that shows an erase names the files that went with it, by paths, and no later one
does. Where paths may have values of rows it goes too, once the next one is as old as the grace.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from pyiceberg.exceptions import CommitFailedException
from pyiceberg.manifest import ManifestEntryStatus, ManifestFile
from pyiceberg.table.snapshots import Snapshot

from firnline.mirror.iceberg.catalog import Opened, asked, open_catalog
from firnline.mirror.iceberg.commit import before, expire
from firnline.mirror.iceberg.head import Head, read_head
from firnline.mirror.iceberg.shown import list_records
from firnline.mirror.iceberg.sweep import kept_ms, sweep
from firnline.store.base import ObjectMeta
from firnline.table import Table

Concerns = Callable[[str], bool]
"""Tells of the key of a part that went whether the part may have held what is erased."""


@dataclass(frozen=True, slots=True)
class Rest:
    """Objects that remain."""

    keys: tuple[str, ...]
    next_step: str
    until_ms: int | None = None
    """When they may go, unix ms; None when time does not decide."""


@dataclass(frozen=True, slots=True)
class _Mirror:
    """An open mirror with the objects of its metadata, and how long a snapshot may be used."""

    table: Table
    opened: Opened
    head: Head
    found: Mapping[str, ObjectMeta]
    """All objects of its metadata, by key."""
    kept_ms: int

    @property
    def keys(self) -> tuple[str, ...]:
        return tuple(self.found)

    @property
    def again(self) -> str:
        return f"run `firnline certificate {self.table.settings.name}` then"

    def key_of(self, url: str) -> str:
        return self.opened.root.key_of(url)


def clear(
    table: Table,
    seq: int,
    grace: int,
    found: Mapping[str, ObjectMeta],
    concerns: Concerns | None = None,
) -> Rest | None:
    """Delete what states bounds of before a transaction; return what remains of it.

    Requests: those of ``read_head``, twice, of ``sweep``, a LIST, and a commit of the catalog. With
    ``concerns`` also a GET for the first snapshot that shows the transaction, and one for each of
    its manifests with files that went.

    Args:
        table: the table.
        seq: the transaction.
        grace: how long a reader may use a snapshot after a newer one, ms.
        found: all objects of the mirror's metadata, by key.
        concerns: where paths of parts may have values of rows; None: they have none.

    Raises MirrorRefusedError, MirrorDamagedError, MirrorCatalogError.
    """
    opened = open_catalog(table)
    head = read_head(opened)
    first = list_records(table.store, table.paths).since(seq)
    if head is None or head.position.seq < seq or first is None:
        name = table.settings.name
        step = f"run `firnline mirror {name}`, or delete the folder _iceberg if it is not used"
        return Rest(tuple(found), step)
    mirror = _Mirror(table, opened, head, found, kept_ms(grace))
    until = first.modified_ms + mirror.kept_ms
    if until > table.clock.now_ms():
        return Rest(mirror.keys, mirror.again, until)
    old, waits = before(head, seq), None
    with asked(opened.name):
        telling = None if concerns is None else _telling(mirror, seq, concerns)
        if telling is not None:
            waits = _waits(mirror, *telling)
            old |= frozenset() if waits else {telling[0].snapshot_id}
    return _expire(mirror, old, grace) or waits


def _telling(
    mirror: _Mirror, seq: int, concerns: Concerns
) -> tuple[Snapshot, tuple[str, ...]] | None:
    """Return the first snapshot that shows a transaction, with its manifests that may tell."""
    old = before(mirror.head, seq)
    shown = [s for s in mirror.head.table.metadata.snapshots if s.snapshot_id not in old]
    first = min(shown, key=lambda s: s.sequence_number or 0)
    keys = tuple(
        mirror.key_of(manifest.manifest_path)
        for manifest in first.manifests(mirror.head.io)
        if (manifest.deleted_files_count or 0)
        and any(concerns(key) for key in _went(mirror, manifest))
    )
    return (first, keys) if keys else None


def _went(mirror: _Mirror, manifest: ManifestFile) -> list[str]:
    """Return the keys of the files of which a manifest says that they went."""
    return [
        mirror.key_of(entry.data_file.file_path)
        for entry in manifest.fetch_manifest_entry(mirror.head.io, discard_deleted=False)
        if entry.status == ManifestEntryStatus.DELETED
    ]


def _waits(mirror: _Mirror, telling: Snapshot, keys: tuple[str, ...]) -> Rest | None:
    """Return what remains of a snapshot that tells, as long as readers may use it."""
    later = [
        s
        for s in mirror.head.table.metadata.snapshots
        if (s.sequence_number or 0) > (telling.sequence_number or 0)
    ]
    if not later:
        step = f"run `firnline mirror {mirror.table.settings.name}` after the next change"
        return Rest(keys, f"{step}, and this again when that is as old as the grace")
    after = min(later, key=lambda s: s.sequence_number or 0)
    made = mirror.found.get(mirror.key_of(after.manifest_list))
    # A list that came after the listing is younger than any wait.
    now = mirror.table.clock.now_ms()
    until = (now if made is None else made.modified_ms) + mirror.kept_ms
    return Rest(keys, mirror.again, until) if until > now else None


def _expire(mirror: _Mirror, old: Collection[int], grace: int) -> Rest | None:
    """Take snapshots out of the catalog, and delete what only they led to."""
    opened, table = mirror.opened, mirror.table
    with asked(opened.name):
        try:
            kept = expire(opened, mirror.head, old)
        except CommitFailedException:
            return Rest(mirror.keys, mirror.again)
    if kept:
        step = f"drop {', '.join(kept)} of {opened}, which keep old snapshots"
        return Rest(mirror.keys, step)
    newest = read_head(opened)
    swept = sweep(table, opened, newest or mirror.head, grace)
    if swept.young:
        return Rest(swept.young, mirror.again, table.clock.now_ms() + mirror.kept_ms)
    return Rest(mirror.keys, mirror.again) if swept.warning else None
