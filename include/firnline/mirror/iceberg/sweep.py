"""Objects of the mirror's metadata that no reader uses any more: former ones, and those of nobody.

A reader begins with the newest snapshot of the metadata that the catalog names, and uses it for the
grace at most. So what stays is: what the newest metadata leads to, the snapshot that was the newest
a grace ago, and everything younger than the grace, which includes all that later snapshots have
added and what somebody may be about to commit. Parts are never deleted here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec
from pyiceberg.serializers import FromInputFile

from firnline.errors import FirnlineError, ForeignPathError
from firnline.mirror.iceberg.catalog import Opened, asked, open_catalog
from firnline.mirror.iceberg.head import Head, read_head
from firnline.mirror.iceberg.shown import list_records, superfluous
from firnline.paths import Root
from firnline.store.base import ObjectMeta
from firnline.table import Table

EVERY = 100
"""Snapshots after which the metadata is looked through."""
_METADATA = ".metadata.json"


class Swept(msgspec.Struct, frozen=True, kw_only=True):
    """Result of a look through the metadata."""

    expired: int = 0
    """Objects that were deleted."""
    young: tuple[str, ...] = ()
    """Keys of objects that nothing leads to and that are younger than the grace."""
    warning: str = ""


def keep_short(table: Table, version: int, grace: int) -> Swept:
    """After each hundredth snapshot, delete metadata and records that nobody uses.

    A failure costs space only, and is a warning. Requests: none for other snapshots, else those of
    ``sweep``.

    Args:
        table: the table.
        version: of the snapshot that was published.
        grace: the longest that a reader of the table may have, ms.
    """
    if version % EVERY:
        return Swept()
    try:
        opened = open_catalog(table)
        head = read_head(opened)
        if head is None:
            return Swept()
        return sweep(table, opened, head, grace, after_put=True)
    except FirnlineError as error:
        return Swept(warning=str(error))


def sweep(
    table: Table, opened: Opened, head: Head, grace: int, *, after_put: bool = False
) -> Swept:
    """Delete what nothing leads to. Parts and what is younger than the grace stay.

    Requests: a LIST per 1,000 objects of the metadata and of the records of what is shown, 1 GET
    of former metadata, a GET for each snapshot, and the deletes.

    Args:
        table: the table.
        opened: its catalog.
        head: of the mirror.
        grace: how long a reader may use a snapshot after a newer one, ms.
        after_put: metadata was just written, and has the store's time: who publishes may have any
            clock.
    """
    store, paths, now = table.store, table.paths, table.clock.now_ms()
    listing = list(store.list(paths.iceberg_metadata_dir))
    if after_put:
        now = min(now, max((meta.modified_ms for meta in listing), default=0))
    limit = now - kept_ms(grace)
    with asked(opened.name):
        used = frozenset(_used(opened.root, head, listing, limit))
    free = [meta for meta in listing if meta.key not in used]
    old = [meta.key for meta in free if meta.modified_ms <= limit]
    old += superfluous(list_records(store, paths), grace, now)
    failed = sum(answer.error is not None for answer in store.delete_many(sorted(old)))
    warning = f"{failed} old objects of the mirror could not be deleted" if failed else ""
    young = tuple(meta.key for meta in free if meta.modified_ms > limit)
    return Swept(expired=len(old) - failed, young=young, warning=warning)


def kept_ms(grace: int) -> int:
    """Return how long metadata that nothing leads to is kept, ms: half a grace more.

    Catalogs name metadata a while after its file was written, and until then readers began with
    what was before.
    """
    return grace + grace // 2


def _used(root: Root, head: Head, listing: Iterable[ObjectMeta], limit_ms: int) -> Iterator[str]:
    """Yield the keys to which the newest metadata leads, and the newest snapshot of a grace ago."""
    metadata, newest = head.table.metadata, list(_key(root, head.table.metadata_location))
    yield from newest
    for statistics in (*metadata.statistics, *metadata.partition_statistics):
        yield from _key(root, statistics.statistics_path)
    snapshots = {snapshot.manifest_list: snapshot for snapshot in metadata.snapshots}
    then = _former(root, head, listing, limit_ms)
    if then is not None and then not in newest:
        yield then
        former = FromInputFile.table_metadata(head.io.new_input(root.url_of(then)))
        shown = former.current_snapshot()
        if shown is not None:
            snapshots[shown.manifest_list] = shown
    for name, snapshot in snapshots.items():
        yield from _key(root, name)
        for manifest in snapshot.manifests(head.io):
            yield from _key(root, manifest.manifest_path)


def _former(root: Root, head: Head, listing: Iterable[ObjectMeta], limit_ms: int) -> str | None:
    """Return the key of the metadata that was the newest at a time, which may still be.

    The log of the metadata knows the last hundred; other files may be those of lost races.
    """
    urls = [entry.metadata_file for entry in head.table.metadata.metadata_log]
    urls.append(head.table.metadata_location)
    logged = {key for url in urls for key in _key(root, url)}
    old = [m for m in listing if m.key.endswith(_METADATA) and m.modified_ms <= limit_ms]
    best = [m for m in old if m.key in logged] or old
    return max(best, key=lambda m: (m.modified_ms, m.key)).key if best else None


def _key(root: Root, url: str) -> Iterator[str]:
    try:
        yield root.key_of(url)
    except ForeignPathError:
        return  # not under the table's root, where nothing is deleted
