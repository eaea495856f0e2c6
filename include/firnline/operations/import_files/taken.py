"""The files that imports have taken so far: what ``--new`` leaves out.

An object with a list of all of them stands beside the log, ``_imports/{id}.json``: written before
an import is visible, named by its record in the log, and deleted by a clean-up once a later import
has continued it. It has digests only, so that no name of a folder stays after its rows are erased.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256

import msgspec

from firnline.errors import FirnlineError, LogCorruptError, ObjectNotFoundError, UsageError
from firnline.log.codec import UNREADABLE
from firnline.log.imports import ImportedFrom, overlapping
from firnline.next_steps import NEW_OR_AGAIN
from firnline.state.snapshot import Snapshot
from firnline.store.base import ObjectMeta
from firnline.store.create import create
from firnline.table import Table
from firnline.units import counted

_LOG = logging.getLogger(__name__)
VERSION = 1
_KEY, _STATE = 16, 4
"""Bytes of the digests of a file's key, and of its size and time."""


class _List(msgspec.Struct, frozen=True, kw_only=True):
    v: int = VERSION
    id: str
    """Of the import that wrote it."""
    files: bytes
    """20 bytes of each file."""


@dataclass(frozen=True, slots=True)
class Taken:
    """The files that were taken: digest of the key -> digest of size and time."""

    files: Mapping[bytes, bytes]

    def new_of(self, found: Iterable[ObjectMeta]) -> tuple[list[ObjectMeta], list[str]]:
        """Return the files that were not taken, and the keys of those that changed since."""
        new, changed = [], []
        for meta in found:
            state = self.files.get(_key(meta))
            if state is None:
                new.append(meta)
            elif state != _state(meta):
                changed.append(meta.key)
        return new, changed

    def plus(self, more: Iterable[ObjectMeta]) -> Taken:
        """Return the list with more files."""
        return Taken({**self.files, **{_key(meta): _state(meta) for meta in more}})


def read_taken(table: Table, last: ImportedFrom) -> Taken:
    """Return the list of an import. Requests: 1 GET.

    Raises:
        UsageError: the list is gone.
        LogCorruptError: it does not read.
    """
    key = table.paths.imported(last.id)
    try:
        return _read(table, key)
    except ObjectNotFoundError:
        raise UsageError(
            f"the list of the files that were imported into table {table.settings.name} is gone "
            f"({key})",
            next_step="restore it from a backup; or import a folder that was not imported before "
            "into another table, and append that",
        ) from None


def read_forgotten(table: Table, snapshot: Snapshot) -> Taken:
    """Return the files of imports that were visible and of which the log has no record any more.

    A downgrade, a rebuild and merges of clients of version 1 make such a log. The list of an import
    that died before it was visible stands there as well, and nothing says that it was.

    Requests: 1 LIST; 1 GET of each list of an import that was visible.

    Args:
        table: with the settings in force.
        snapshot: its log names no list.

    Raises UsageError: there is no log at all, and lists of a table that is gone.
    """
    paths = table.paths
    keys = {meta.key for meta in table.store.list(paths.imports_dir)}
    ids = [
        key.removeprefix(paths.imports_dir).removesuffix(".json")
        for key in sorted(keys)
        if key.endswith(".json")
    ]
    by_key: dict[bytes, bytes] = {}
    for id_ in ids:
        published = any(id_ in log for log in snapshot.listing)
        if published or paths.imported_visible(id_) in keys:
            by_key |= _read(table, paths.imported(id_)).files
    if by_key and not snapshot.listing:
        raise UsageError(
            f"{paths.imports_dir} has lists of files that were imported into a table that is gone",
            next_step="delete what lies there, and import again",
        )
    return Taken(by_key)


def refuse_forgotten(taken: Taken, files: Sequence[ObjectMeta], table: str) -> None:
    """Raise UsageError if one of the files was taken by an import that the log does not know."""
    again = [file.key for file in files if _key(file) in taken.files]
    if again:
        raise UsageError(
            f"{counted(len(again), 'file')} of the folder, {again[0]} first, "
            f"{'was' if len(again) == 1 else 'were'} imported into table {table} before",
            next_step=NEW_OR_AGAIN,
        )


def write_visible(table: Table, id_: str) -> None:
    """Say beside its list that an import is visible, for a log that is made anew later.

    A failure does not fail the import: its record in the log says the same. Requests: 1 PUT.
    """
    try:
        create(table.store, table.paths.imported_visible(id_), b'{"v":1}\n')
    except FirnlineError as error:
        _LOG.warning("import %s is visible, and its list does not say so: %s", id_, error)


def _read(table: Table, key: str) -> Taken:
    """Return a list. Raises ObjectNotFoundError, and LogCorruptError: it does not read."""
    data = table.store.get(key)
    try:
        taken = msgspec.json.decode(data, type=_List)
        if taken.v != VERSION or len(taken.files) % (_KEY + _STATE):
            raise ValueError(f"version {taken.v}, {len(taken.files)} bytes")
    except UNREADABLE as error:
        raise LogCorruptError(
            f"the list of imported files {key} does not read: {error}",
            next_step="restore it from a backup, or upgrade firnline",
        ) from None
    step = _KEY + _STATE
    rows = (taken.files[at : at + step] for at in range(0, len(taken.files), step))
    return Taken({row[:_KEY]: row[_KEY:] for row in rows})


def write_taken(table: Table, id_: str, taken: Taken) -> str:
    """Write the list of an import; return its key. Requests: 1 PUT."""
    key = table.paths.imported(id_)
    files = b"".join(k + taken.files[k] for k in sorted(taken.files))
    create(table.store, key, msgspec.json.encode(_List(id=id_, files=files)))
    return key


def refuse_unlisted(records: Sequence[ImportedFrom], prefix: str, table: str) -> None:
    """Raise UsageError if files below a folder were taken by an import without a list."""
    for record in overlapping(records, prefix):
        if not record.number:
            raise UsageError(
                f"{record.source} was imported into table {table} by a version that kept no list "
                "of its files, so nobody knows which are new",
                next_step="move the files that were imported away, and import with --again once; "
                "from then on --new knows",
            )


def _key(meta: ObjectMeta) -> bytes:
    return sha256(meta.key.encode()).digest()[:_KEY]


def _state(meta: ObjectMeta) -> bytes:
    return sha256(f"{meta.size} {meta.modified_ms}".encode()).digest()[:_STATE]
