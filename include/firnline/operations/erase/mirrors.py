"""An erase and the mirrors of a table: parts that they still show, and bounds in older versions.

A version of the Delta mirror states the bounds of the parts that it adds, which are values of rows.
So the versions from before the erase go, and the checkpoints of them: once the first version that
shows the erase is as old as the grace, behind a checkpoint of it. Later versions stay.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from importlib.util import find_spec

from firnline.errors import MirrorCatalogError, MirrorDamagedError, MirrorRefusedError
from firnline.extras import to_install
from firnline.mirror.delta.actions import DELETION_VECTORS, decode
from firnline.mirror.delta.checkpoint import expire, write_checkpoint
from firnline.mirror.delta.expiry import newest_of
from firnline.mirror.delta.head import Listing, list_versions, position_of
from firnline.mirror.iceberg.where import where_is
from firnline.mirror.readers import readers_of
from firnline.operations.erase.certificate import Remaining, remaining
from firnline.operations.erase.evidence import Inventory, Search
from firnline.operations.hidden import may_name_keys
from firnline.properties.in_force import waits
from firnline.types.sql import fold_name

_WHY = "versions of the Delta mirror from before the erase, which state bounds of its parts"

_PATHS = "a version of the Delta mirror names parts that held keys, by paths that may have them"

_SNAPSHOTS = "metadata of the Iceberg mirror may state bounds or paths of parts that held keys"


def shown_parts(inventory: Inventory, keys: tuple[str, ...]) -> frozenset[str]:
    """Return the replaced parts that readers of the mirror may still use.

    Requests: those of ``readers.readers_of``; none for a table without a mirror.

    Args:
        inventory: the table.
        keys: dead parts with which readers of the table are done.
    """
    table = inventory.table
    if not keys:
        return frozenset()
    now = inventory.now_ms
    mirrors = readers_of(table, _grace(inventory), now)
    dead = {key: inventory.snapshot.parts[key].tmb for key in keys}
    return frozenset(
        key
        for key, tmb in dead.items()
        if tmb is not None and any(readers.uses(tmb, now, now) for readers in mirrors)
    )


def clear_versions(search: Search) -> tuple[Remaining, ...]:
    """Delete the versions of the mirror from before an erase; return what remains, and until when.

    Also of a table that has no mirror any more: its versions are there.

    Requests: a LIST per 1,000 versions; where there are any, a ranged GET per step of a binary
    search and one more, and those of ``write_checkpoint`` and the deletes; one GET of a version
    where the path of a part may name a key.

    Args:
        search: what is searched for.
    """
    inventory, seq = search.inventory, search.replaced.seq
    table = inventory.table
    store, paths, name = table.store, table.paths, table.settings.name
    listing = list_versions(store, paths, whole=True)
    versions = listing.versions
    every = (*versions, *listing.checkpoints)
    at = bisect_left(versions, seq, key=lambda v: position_of(store, v.key).seq)
    if at == len(versions):
        step = f"run `firnline mirror {name}`, or delete the folder _delta_log if it is not used"
        return remaining("mirror", [v.key for v in every], _WHY, step)
    named = _may_name(search)
    last = _first_kept(inventory, listing, versions[at].number, named=named)
    if named and _removes(search, last, first=versions[at].number):
        step = f"run `firnline mirror {name}` after the next change, and this again a grace later"
        return remaining("mirror", [paths.delta_version(last)], _PATHS, step)
    old = [v.key for v in every if v.number < last]
    if not old:
        return ()
    until = versions[at].modified_ms + _grace(inventory)
    again = f"run `firnline certificate {name}` then"
    if until > inventory.now_ms:
        return remaining("mirror", old, _WHY, again, until)
    if not any(c.number == last for c in listing.checkpoints):
        # Not of a newer version: readers may use those between for the grace.
        if find_spec("deltalake") is None:
            step = f"run {to_install('deltalake')}, and this again"
            return remaining("mirror", old, _WHY, step)
        write_checkpoint(store, paths, last, listing, tombstones=not named)
    _, failed = expire(store, listing, last)
    return remaining("mirror", old, f"the store did not delete {failed} {_WHY}", again) * bool(
        failed
    )


def _may_name(search: Search) -> bool:
    """Return True if the path of a part may have a value of a column of the keys."""
    snapshot, columns = search.inventory.snapshot, search.certificate.columns
    names = {fold_name(column) for column in columns}
    if any(fold_name(field.column) in names for field in search.table.settings.partition_by):
        return True
    partitions = {snapshot.paths.parse_part(path).partition for path in snapshot.parts}
    return any(may_name_keys(partition, columns) for partition in partitions)


def _removes(search: Search, number: int, first: int) -> bool:
    """Return True if a version says of a part that may have held a key that it goes.

    Args:
        search: what is searched for.
        number: of the version, which is to be the first that stays.
        first: number of the first version that shows the erase.
    """
    table = search.table
    version = table.paths.delta_version(number)
    concerns = _concerns(search, unknown=number == first)
    lines = decode(version, table.store.get(version))
    gone = (line.remove for line in lines if line.remove is not None)
    return any(concerns(table.paths.delta_key(remove.path)) for remove in gone)


def _concerns(search: Search, *, unknown: bool) -> Callable[[str], bool]:
    """Return what tells of the key of a part that went whether it may have held a key.

    ``unknown``: also of a part without a marker. The first version that shows the erase may also
    remove parts that were replaced before, and whose markers are gone.
    """
    parts, may_hold, known = search.inventory.snapshot.parts, search.may_hold(), search.known

    def concerns(key: str) -> bool:
        marker = parts.get(key)
        return known.is_own(key) or (unknown if marker is None else may_hold(marker))

    return concerns


def _first_kept(inventory: Inventory, listing: Listing, first: int, *, named: bool) -> int:
    """Return the version before which all go.

    A mirror with deletion vectors shows parts that land late under the erase, with their bounds.
    Once they are gone, as for a complete certificate, no version shows them that is as young as the
    newest one of a grace ago.

    Args:
        inventory: the table.
        listing: of its versions.
        first: number of the first version that shows the erase.
        named: paths of parts may have keys, so versions that remove such parts go too.
    """
    old = newest_of(listing, inventory.now_ms - _grace(inventory))
    if old is None or old.number <= first:
        return first
    if named:
        return old.number
    newest = position_of(inventory.table.store, listing.versions[-1].key)
    return old.number if DELETION_VECTORS in newest.features else first


def clear_snapshots(search: Search) -> tuple[Remaining, ...]:
    """Delete the metadata of the Iceberg mirror from before an erase; return what remains of it.

    Also of a table that has no mirror any more, as long as its metadata is there.

    Requests: a LIST per 1,000 objects of it; where there are any, those of ``erasure.clear``.

    Args:
        search: what is searched for.
    """
    table, seq = search.table, search.replaced.seq
    metadata = {meta.key: meta for meta in table.store.list(table.paths.iceberg_metadata_dir)}
    if not metadata:
        return ()
    concerns = _concerns(search, unknown=True) if _may_name(search) else None
    try:
        where_is(table)
        from firnline.mirror.iceberg.erasure import clear

        rest = clear(table, seq, _grace(search.inventory), metadata, concerns)
    except (MirrorRefusedError, MirrorDamagedError, MirrorCatalogError) as error:
        return remaining(
            "mirror", list(metadata), f"{_SNAPSHOTS}: {error.message}", error.next_step
        )
    if rest is None:
        return ()
    return remaining("mirror", rest.keys, _SNAPSHOTS, rest.next_step, rest.until_ms)


def _grace(inventory: Inventory) -> int:
    others = waits(inventory.snapshot.properties, inventory.table.settings, inventory.now_ms)
    return others.grace
