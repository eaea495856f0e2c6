"""The head of the mirror: its newest version, and the state of the table that it shows."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice

import msgspec

from firnline.errors import MirrorDamagedError, ObjectNotFoundError, StoreError
from firnline.mirror.delta.actions import decode_position
from firnline.mirror.position import Position
from firnline.paths import TablePaths
from firnline.store.base import Store

_PAGE = 1_000
"""Objects of one page of a listing, which is one request."""
_FIRST_BYTES = 64 * 1024
"""A first line with the names of 900 appends fits."""


@dataclass(frozen=True, slots=True)
class Version:
    """One version in a listing."""

    number: int
    key: str
    modified_ms: int
    """Last modified by the store's clock, unix ms."""


@dataclass(frozen=True, slots=True)
class Listing:
    """The objects under ``_delta_log/``, or those from a checkpoint on."""

    versions: tuple[Version, ...] = ()
    checkpoints: tuple[Version, ...] = ()

    def has_all(self, first: int, last: int) -> bool:
        """Return True if no version is missing from ``first`` to ``last``, inclusive."""
        return {v.number for v in self.versions}.issuperset(range(first, last + 1))


@dataclass(frozen=True, slots=True)
class Head:
    """The newest version."""

    version: int
    position: Position
    listing: Listing


class _LastCheckpoint(msgspec.Struct, frozen=True):
    version: int


def list_versions(store: Store, paths: TablePaths, *, whole: bool = False) -> Listing:
    """List the versions of the mirror, all of them or from its newest checkpoint on.

    Requests: 1 LIST; of a log of more than 1,000 objects 1 GET and another LIST, or with ``whole``
    a LIST per 1,000 objects.
    """
    objects = list(islice(store.list(paths.delta_dir), None if whole else _PAGE))
    if not whole and len(objects) == _PAGE:
        after = _newest_checkpoint(store, paths)
        start = objects[-1].key if after is None else paths.delta_version(after)
        kept = [] if after is not None else objects
        # The checkpoint's own version is not listed again where it is the last of its page.
        first = paths.delta_version(after - 1) if after else start
        objects = [*kept, *store.list(paths.delta_dir, first)]
    versions: list[Version] = []
    checkpoints: list[Version] = []
    for meta in objects:
        name = paths.parse_delta(meta.key)
        if name is not None:
            kind = versions if name.kind == "json" else checkpoints
            kind.append(Version(name.version, meta.key, meta.modified_ms))
    return Listing(tuple(versions), tuple(checkpoints))


def _newest_checkpoint(store: Store, paths: TablePaths) -> int | None:
    try:
        data = store.get(paths.delta_last_checkpoint)
    except ObjectNotFoundError:
        return None
    try:
        return msgspec.json.decode(data, type=_LastCheckpoint).version
    except msgspec.MsgspecError:
        return None  # only where a listing begins depends on it


def read_head(store: Store, paths: TablePaths) -> Head | None:
    """Return the newest version; None for a table without a mirror.

    Requests: those of ``list_versions``, and 1 ranged GET.

    Raises MirrorDamagedError: the newest version is not one of ours.
    """
    listing = list_versions(store, paths)
    if not listing.versions:
        if listing.checkpoints:
            raise MirrorDamagedError(
                f"{paths.delta_dir} has a checkpoint and no version",
                next_step="delete the folder _delta_log and run `firnline mirror` again",
            )
        return None
    newest = listing.versions[-1]
    return Head(newest.number, position_of(store, newest.key), listing)


def withdraw_stray(store: Store, paths: TablePaths, version: int) -> None:
    """Delete a version that its writer put too late, unless it belongs to the mirror.

    Its number was used, and deleted behind a checkpoint, or the mirror was begun anew: it would be
    a version behind later ones, or with a gap before it. Where it belongs to the mirror, later
    versions may build on it: its writer may have slept after the put, too.

    Requests: a LIST per 1,000 objects of the mirror, and 1 DELETE for a stray one. Raises
    StoreError.
    """
    if _belongs(list_versions(store, paths, whole=True), version):
        return
    for answer in store.delete_many([paths.delta_version(version)]):
        if answer.error is not None:
            raise StoreError(
                f"{answer.key}, which was written too late, could not be deleted: "
                f"{answer.error.message}",
                next_step="delete it by hand, and run `firnline mirror`",
            )


def _belongs(listing: Listing, version: int) -> bool:
    """Return True if all versions are there from the checkpoint before a version to the newest."""
    start = max((c.number for c in listing.checkpoints if c.number <= version), default=-1)
    newest = max((v.number for v in listing.versions), default=version)
    return listing.has_all(start + 1, newest)


def position_of(store: Store, key: str) -> Position:
    """Return the state that a version shows, with 1 ranged GET, 2 if its first line is long.

    Raises MirrorDamagedError, ObjectNotFoundError.
    """
    position = decode_position(key, store.get_range(key, 0, _FIRST_BYTES))
    if position is None:
        position = decode_position(key, store.get(key))
    if position is None:
        raise MirrorDamagedError(
            f"{key} has no whole line",
            next_step="delete the folder _delta_log and run `firnline mirror` again",
        )
    return position
