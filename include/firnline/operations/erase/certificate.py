"""Certificates of erases: their contents, and the objects under ``_erase/`` that hold them.

Each is created once: ``{id}.plan.json`` before the commit, ``{id}.json`` after it, and
``{id}.complete.json`` when nothing but text of the log can hold a key any more.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Literal

import msgspec

from firnline.errors import LogCorruptError, ObjectNotFoundError, UsageError
from firnline.ids import UUID7
from firnline.log.codec import UNREADABLE
from firnline.log.erases import EraseLink
from firnline.log.txn_file import RunIdentity
from firnline.next_steps import RESTORE_OR_MOVE
from firnline.operations.asked import Asked
from firnline.paths import COMPLETE_SUFFIX, KEYS_SUFFIX, PLAN_SUFFIX
from firnline.state.history import Head
from firnline.store.create import create
from firnline.table import Table

_LOG = logging.getLogger(__name__)
OP = "erase"
"""Name of an erase's transaction in the history."""
VERSION = 2
"""Version 1 named parts by their paths, and had a plain SHA-256 of the keys."""
_SHOWN = 20

Status = Literal["planned", "waiting", "complete", "void"]
Kind = Literal[
    "replaced part",
    "older part",
    "late part",
    "unread part",
    "late append",
    "orphan",
    "upload",
    "keys file",
    "prepared change",
    "clone plan",
    "mirror",
    "log text",
]
_STATUS: dict[str, Status] = {
    COMPLETE_SUFFIX: "complete",
    ".json": "waiting",
    PLAN_SUFFIX: "planned",
}


class ErasedPart(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A part that held keys."""

    key: str
    """Name of its file, for its path may hold a key; empty where it is no UUID. Of version 1 the
    whole key."""
    partition: str = ""
    """Of version 1."""
    rows: int
    """Rows removed: those of the keys, and those that earlier deletes had hidden already."""
    bytes: int
    gone_ms: int | None = None
    """Time, unix ms, at which a check of the certificate deleted the object or missed it."""


class Replaced(msgspec.Struct, frozen=True):
    """The transaction that replaced the parts."""

    seq: int
    t: int
    """Unix milliseconds."""


class Remaining(msgspec.Struct, frozen=True, kw_only=True):
    """Objects that may still hold a key."""

    kind: Kind
    count: int
    why: str
    next_step: str
    until_ms: int | None = None
    """Latest time at which one of them may be deleted, unix ms; None when time does not decide."""
    objects: tuple[str, ...] = ()
    """At most 20 of them."""

    @property
    def blocks(self) -> bool:
        """Return True if it prevents completion; text of the log expires by itself."""
        return self.kind != "log text"


class Certificate(msgspec.Struct, frozen=True, kw_only=True):
    """The record of what became of the rows of a set of keys. Holds no key."""

    version: int = VERSION
    id: str
    status: Status
    """planned: not committed yet, or nobody knows; waiting: committed, and something remains;
    complete: no data object holds a key; void: never committed."""
    table: str
    root: str
    columns: tuple[str, ...]
    keys: int
    """Distinct keys."""
    digest: str
    """HMAC-SHA256 of the key set (``keys.KeySet.digest``) with a secret that was told to whoever
    ran the erase, and is stored nowhere. Of version 1 its plain SHA-256."""
    run: RunIdentity
    planned_ms: int
    deletes: tuple[str, ...]
    """Ids of its delete records."""
    parts: tuple[ErasedPart, ...]
    checked: tuple[str, ...]
    """File names of parts that were read and held no key; of later versions for people only."""
    failed: tuple[str, ...] = ()
    """Parts that could not be read: not erased. Named like ``ErasedPart.key``."""
    clean: str = ""
    """Digests of all parts that were live and held no key, because they were read or because
    statistics exclude it (``known.digests_text``)."""
    covers: tuple[str, ...] = ()
    """Ids of delete records of earlier erases of the same keys."""
    requests: tuple[Asked, ...] = ()
    """Requests of erasure whose keys these are, together (docs/gdpr.md)."""
    replaced: Replaced | None = None
    completed_ms: int | None = None
    completed_by: RunIdentity | None = None
    remaining: tuple[Remaining, ...] = ()
    link: EraseLink | None = None
    """Its place among the table's erases; None before the commit, and of versions without."""
    head: Head | None = None
    """Newest transaction of the history for which it speaks: that of the erase, and of a complete
    one the state that was searched. None where that would have taken a request."""
    sha256: str = ""
    """SHA-256 of the stored certificate without this field (``digests.whole_digest``); empty before
    the commit, and of versions without."""

    @property
    def erased_ms(self) -> int:
        """Time of the commit, unix ms; before it that of the plan."""
        return self.planned_ms if self.replaced is None else self.replaced.t

    def to_json(self) -> dict[str, object]:
        """Plain data."""
        plain: dict[str, object] = msgspec.to_builtins(self)
        return plain


def remaining(
    kind: Kind, objects: Sequence[str], why: str, next_step: str, until_ms: int | None = None
) -> tuple[Remaining, ...]:
    """One entry, or none without objects."""
    if not objects:
        return ()
    return (
        Remaining(
            kind=kind,
            count=len(objects),
            why=why,
            next_step=next_step,
            until_ms=until_ms,
            objects=tuple(sorted(objects)[:_SHOWN]),
        ),
    )


def check_id(table: Table, erase: str) -> None:
    """Raise UsageError for text that is not a certificate's id."""
    if UUID7.fullmatch(erase) is None:
        raise UsageError(
            f"{erase!r} is not the id of a certificate of {table.settings.name}",
            next_step="take it from the report of the erase, or list them with "
            f"`firnline certificate {table.settings.name}`",
        )


def read(table: Table, key: str) -> Certificate | None:
    """Read the certificate under a key, one GET; None if there is none. Raises LogCorruptError."""
    try:
        data = table.store.get(key)
    except ObjectNotFoundError:
        return None
    return _decode(key, data)


def stored(table: Table, erase: str) -> bytes:
    """Return a certificate as it is stored, the complete one if there is any. 1 or 2 GET.

    Raises UsageError: there is none, or it is of version 1, which has paths that may hold keys.
    """
    check_id(table, erase)
    for key in (table.paths.completed_certificate(erase), table.paths.certificate(erase)):
        try:
            data = table.store.get(key)
        except ObjectNotFoundError:
            continue
        if _decode(key, data).version == 1:
            raise UsageError(
                f"certificate {erase} names parts by paths, which may hold keys",
                next_step=f"see it with `firnline certificate {table.settings.name} {erase}`",
            )
        return data
    raise UsageError(
        f"there is no certificate {erase} of {table.settings.name}",
        next_step="take its id from the page of the table, or from the note of the erase",
    )


def _decode(key: str, data: bytes) -> Certificate:
    try:
        return msgspec.json.decode(data, type=Certificate)
    except UNREADABLE as error:
        raise LogCorruptError(
            f"certificate {key} does not read: {error}",
            next_step=RESTORE_OR_MOVE,
        ) from None


def write(table: Table, key: str, certificate: Certificate) -> Certificate:
    """Create the certificate. Returns the one that exists, which may be another run's."""
    other = create(table.store, key, msgspec.json.encode(certificate))
    return certificate if other is None else _decode(key, other)


def forget(table: Table, key: str) -> bool:
    """Delete an object under ``_erase/``; False on failure: then the next check deletes it."""
    gone = True
    for answer in table.store.delete_many([key]):
        if answer.error is not None:
            gone = False
            _LOG.warning("%s could not be deleted: %s", answer.key, answer.error)
    return gone


class Listed(msgspec.Struct, frozen=True, kw_only=True):
    """An erase, as the names of objects under ``_erase/`` show it."""

    id: str
    status: Status
    has_keys: bool
    """True while its file of keys exists."""


def list_certificates(table: Table) -> tuple[Listed, ...]:
    """List all erases, oldest first. Requests: one LIST."""
    start = table.paths.erase_dir
    names: dict[str, set[str]] = {}
    for meta in table.store.list(start):
        erase, _, ending = meta.key.removeprefix(start).partition(".")
        if UUID7.fullmatch(erase):
            names.setdefault(erase, set()).add(f".{ending}")
    return tuple(
        Listed(
            id=erase,
            status=next((status for ending, status in _STATUS.items() if ending in found), "void"),
            has_keys=KEYS_SUFFIX in found,
        )
        for erase, found in sorted(names.items())
    )
