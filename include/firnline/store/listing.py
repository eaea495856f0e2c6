"""Leave folder markers out of listings: objects of no bytes that consoles of stores make.

The console of S3 makes an object ``x/`` for a folder ``x``, and shows the folder by it. obstore
takes the slash away, so that it looks like an object ``x`` of no bytes; firnline writes none.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import replace

from firnline.store.base import ObjectMeta, PassesFolders, Store


def spelled(meta: ObjectMeta, last: str | None, prefix: str) -> ObjectMeta:
    """Return a row with the slash at the end of its key, where it certainly had one.

    Args:
        meta: a row of a sorted listing, as obstore gives it.
        last: key of the row before it.
        prefix: what is listed, ending in ``/``.
    """
    # With its slash it comes after ``x-1``, without before it.
    early = last is not None and meta.key <= last
    if meta.size or not (early or f"{meta.key}/" == prefix):
        return meta
    return replace(meta, key=f"{meta.key}/")


def without_markers(
    rows: Iterable[ObjectMeta], prefix: str, passed: Callable[[str], None]
) -> Iterator[ObjectMeta]:
    """Yield the objects of a listing without folder markers.

    Args:
        rows: sorted.
        prefix: what is listed, ending in ``/``.
        passed: called with the key of each marker, ending in ``/``.
    """
    held: ObjectMeta | None = None
    for meta in rows:
        if held is not None and meta.key.startswith(f"{held.key}/"):
            passed(f"{held.key}/")
        elif held is not None:
            yield held
        held = None
        if meta.size:
            yield meta
        elif _is_marker(meta.key, prefix):
            passed(f"{meta.key.rstrip('/')}/")
        else:
            held = meta  # the next row may lie below it
    if held is not None:
        yield held


def passed_over(store: Store) -> Collection[str]:
    """Return the folder markers that the listings of a store have left out; of none if it has none.

    Keys end in ``/``.
    """
    return store.folder_markers if isinstance(store, PassesFolders) else ()


def _is_marker(key: str, prefix: str) -> bool:
    """Return True for the name of a folder: the listed one's own, or one without an extension.

    ``_SUCCESS`` and the like are objects.
    """
    name = key.rpartition("/")[2]
    plain = "." not in name and not name.startswith("_")
    return plain or "=" in name or f"{key}/" == prefix
