"""The birth record of a table: ``_txn/`` number 0 (docs/format.md, "Properties").

Written once the first append of a new table is visible. It states the table's properties when
concurrent first appends disagree, and that the table had a log: a table with a birth record and
without log files has lost them. It is not a transaction, and is never deleted.
"""

from __future__ import annotations

import msgspec

from firnline.errors import LogCorruptError
from firnline.properties.record import Properties

VERSION = 2
"""Differs from that of a transaction: versions without birth records must not publish one."""


class Birth(msgspec.Struct, frozen=True, kw_only=True):
    """The birth record."""

    v: int = VERSION
    log: str
    """Key of the log file of the first append."""
    t: int
    """Time of that log file, unix milliseconds."""
    properties: Properties


_DECODE = msgspec.json.Decoder(Birth).decode


def encode(birth: Birth) -> bytes:
    """Return the record as bytes, one line."""
    return msgspec.json.encode(birth) + b"\n"


def decode(key: str, data: bytes) -> Birth:
    """Parse the bytes of a birth record. Raises LogCorruptError."""
    try:
        return _DECODE(data)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise LogCorruptError(
            f"birth record {key} cannot be read: {error}",
            next_step="upgrade firnline if a newer version wrote it; else restore it from a backup",
        ) from error
