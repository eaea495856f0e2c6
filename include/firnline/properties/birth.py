"""The birth record of a table: ``_txn/`` number 0 (docs/format.md, "Properties").

Written once the first append of a new table is visible. It says which properties the table has when
appends that began it at once disagree, and that there was a log: a table with a birth record and
without log files has lost them. It is no transaction, and stays for good.
"""

from __future__ import annotations

import msgspec

from firnline.errors import LogCorruptError
from firnline.properties.record import Properties

VERSION = 2
"""Not that of a transaction: a version that knows no birth records must not publish one."""


class Birth(msgspec.Struct, frozen=True, kw_only=True):
    """The record."""

    v: int = VERSION
    log: str
    """Key of the log file of the first append."""
    t: int
    """Of that log file, unix ms."""
    properties: Properties


_DECODE = msgspec.json.Decoder(Birth).decode


def encode(birth: Birth) -> bytes:
    """Return the bytes of the record, one line."""
    return msgspec.json.encode(birth) + b"\n"


def decode(key: str, data: bytes) -> Birth:
    """Return the birth record of an object. Raises LogCorruptError."""
    try:
        return _DECODE(data)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise LogCorruptError(
            f"birth record {key} does not read: {error}",
            next_step="upgrade firnline if a newer one wrote it; else restore it from a backup",
        ) from error
