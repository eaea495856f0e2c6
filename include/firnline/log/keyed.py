"""Records of the keys of appends (docs/format.md, "Appends with a key").

``{"once":{"key":digest,"t":…,"folded":…,"seen":…}}`` is an extension record of the log: the rows of
an append with this key are there. Folds carry it, so the log says so as long as it has to, whatever
became of the append's own log file and parts.

``{"void":{"by":id}}`` stands in a log file without a part that takes a name away from an append
which has not published, so that it never will; or that names no part because there was no row.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import sha256

import msgspec

from firnline.log.record_kind import RecordKind


class Published(msgspec.Struct, frozen=True, omit_defaults=True):
    """An append with a key, whose rows are there."""

    key: str
    """Digest of the key."""
    t: int
    """Time of its log file, unix ms."""
    folded: int = 0
    """Time of the transaction that folded that first, unix ms; 0 in the log file itself."""
    seen: int = 0
    """Last-modified time of that log file by the store's clock, unix ms; 0 in itself."""


class _Void(msgspec.Struct, frozen=True):
    by: str
    """UUIDv7 of the append that wrote it."""


_KIND = RecordKind("once", Published)
_VOID = RecordKind("void", _Void)
_read = _KIND.read


def digest_of(key: str) -> str:
    """Return the digest of a key: nothing that is stored repeats the key itself."""
    return sha256(key.encode()).hexdigest()[:32]


def record(digest: str, t: int) -> bytes:
    """Return the record of an append as a line of its own log file."""
    return _KIND.line(Published(digest, t))


def void(by: str) -> bytes:
    """Return the line of a log file that names no part. ``by``: UUIDv7 of its writer."""
    return _VOID.line(_Void(by))


def find(lines: Iterable[bytes], digest: str) -> Published | None:
    """Return the newest append with a key, of extension records of any kind; None without one."""
    records = (each for each in map(_read, lines) if each is not None and each.key == digest)
    return max(records, key=lambda each: each.t, default=None)


def any_key(lines: Iterable[bytes]) -> bool:
    """Return True if an append with a key was ever published, as far as the log still tells."""
    return any(_read(line) is not None for line in lines)


def as_folded(lines: Iterable[bytes], t: int, seen: int) -> list[bytes]:
    """Return the records of a log file as the transaction that folds it states them.

    Args:
        lines: extension records of the log file.
        t: time of the transaction.
        seen: last-modified time of the log file.
    """
    return [_dated(line, t, seen) for line in lines if _VOID.read(line) is None]


def _dated(line: bytes, t: int, seen: int) -> bytes:
    entry = _read(line)
    if entry is None or entry.folded:
        return line
    return _KIND.line(msgspec.structs.replace(entry, folded=t, seen=seen))


def named(lines: Iterable[bytes]) -> frozenset[tuple[str, int]]:
    """Return digest and time of the appends with a key, of extension records of any kind."""
    return frozenset((each.key, each.t) for each in map(_read, lines) if each is not None)


def is_over(line: bytes, cutoff: int, fence_t: int) -> bool:
    """Return True for the record of a key that need not be known any more.

    Args:
        line: an extension record, as folded.
        cutoff: a key whose append was seen before this time, unix ms, may go.
        fence_t: time of the fence. Who began before the append was visible, and slept, may still
            publish under the same key; behind the fence it counts for nobody.
    """
    entry = _read(line)
    return entry is not None and entry.seen < cutoff and 0 < entry.folded <= fence_t


def without_expired(lines: Iterable[bytes], cutoff: int, fence_t: int) -> list[bytes]:
    """Return the records without those that are over (``is_over``).

    The newest one stays: it tells clean-ups that claims are there.
    """
    kept = list(lines)
    records = {line: each for line in kept if (each := _read(line)) is not None}
    newest = max(
        records, key=lambda line: (records[line].seen, records[line].t, line), default=None
    )
    return [line for line in kept if line == newest or not is_over(line, cutoff, fence_t)]
