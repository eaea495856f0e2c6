"""The position of a reader in the feed of changes, as opaque text and as Spark's offset."""

from __future__ import annotations

import base64
import binascii
import zlib
from collections.abc import Mapping
from typing import Any

import msgspec

from firnline.errors import UsageError
from firnline.read.offsets import Offset

_MARK = "p1."
"""Beginning of every position as text, which neither a time nor a number has."""
_MOST = 16 * 2**20
"""Maximum bytes of a position: 50,000 names of appends take 3 MB."""
BEGINNING: Mapping[str, Any] = {"v": 1, "changes": "all"}
"""Spark's offset of a feed that begins with the rows of its first state."""


def is_position(text: object) -> bool:
    """Return True if this is a position, and not a time or the number of a transaction."""
    return isinstance(text, str) and text.strip().startswith(_MARK)


def to_text(offset: Offset) -> str:
    """Return a position as text of letters, digits, ``-``, ``_``, ``=`` and a dot."""
    packed = zlib.compress(msgspec.json.encode(to_json(offset)), 9)
    return _MARK + base64.urlsafe_b64encode(packed).decode()


def from_text(text: str) -> Offset:
    """Parse a position. Raises UsageError."""
    try:
        packed = base64.urlsafe_b64decode(text.strip().removeprefix(_MARK).encode())
        data = zlib.decompressobj().decompress(packed, _MOST)
        plain = msgspec.json.decode(data, type=dict[str, Any])
    except (ValueError, binascii.Error, zlib.error, msgspec.MsgspecError):
        raise UsageError(
            f"{text[:40]!r} is not a position that `changes` has given",
            next_step="give it as it was, or the number of a transaction, or a time",
        ) from None
    offset = from_json(plain)
    assert offset is not None  # only Spark has an offset from before the first position
    return offset


def to_json(offset: Offset | None) -> dict[str, Any]:
    """Return a position as plain data: equal ones are equal. None: before the first state."""
    return dict(BEGINNING) if offset is None else {**offset.to_json(), "changes": "since"}


def from_json(plain: Mapping[str, Any]) -> Offset | None:
    """Parse plain data. Raises UsageError for the offset of a stream of appends."""
    if plain == BEGINNING:
        return None
    if plain.get("changes") != "since":
        raise UsageError(
            "the position is not one of a feed of changes",
            next_step="begin with a new checkpoint, or without a position",
        )
    return Offset.from_json(plain)
