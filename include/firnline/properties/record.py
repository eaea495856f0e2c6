"""The records that hold the properties of a table (docs/format.md, "Properties").

``{"props":{"seq":…,"t":…,"seen":…,"values":{…}}}`` is an extension record of the log. The one with
the highest ``seq`` is in force; older ones are kept as long as an operation that began with them
may run.

The birth record, ``_txn/`` number 0, is written once the first append of a new table is visible. It
states the table's properties when concurrent first appends disagree, and that the table had a log:
a table with a birth record and without log files has lost them. It is not a transaction, and is
deleted only with the whole table; a downgrade overwrites it with the properties of then and the
last number in use.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from firnline.errors import LogCorruptError
from firnline.units import DAY_MS

ONCE_MS = 7 * DAY_MS
"""How long the key of an append is known unless the table says otherwise, ms."""

VERSION = 2
"""Differs from that of a transaction: versions without birth records must not publish one."""


class Cluster(msgspec.Struct, frozen=True, omit_defaults=True):
    """Clustering of rows by merges, as ``cluster_by`` of the settings."""

    columns: tuple[str, ...]
    method: str = "range"
    run_size: int | None = None
    """Bytes of a clustered run; None: a multiple of the target size."""


class Hold(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A legal hold: rows that nobody may remove until a person ends it."""

    name: str
    """As the file number of a case; unique among the holds of a table."""
    where: str = ""
    """Bound predicate as JSON; empty: all rows of its partitions."""
    partitions: tuple[str, ...] = ()
    """Globs over partition paths; empty for all."""
    by: str
    """Who put it."""
    why: str
    t: int
    """When, unix ms."""
    approved_by: str = ""


class Properties(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The properties that affect correctness or layout; times in milliseconds.

    A property that this version does not know is an error, since its effect is unknown.
    """

    append_ttl: int = msgspec.field(name="append.ttl")
    commit_ttl: int
    grace: int = msgspec.field(name="cleanup.grace")
    orphan_grace: int
    locking: str = "fenced"
    primary_key: tuple[str, ...] = ()
    version: str | None = None
    deleted: str | None = None
    deleted_keep: int | None = None
    partition_by: tuple[str, ...] = ()
    """Partition fields, as JSON or in the short form of the settings."""
    partition: str | None = None
    sort_by: tuple[str, ...] = ()
    cluster_by: Cluster | None = None
    deletes: str = "eager"
    statistics: tuple[str, ...] = ()
    """Columns with bounds in the markers."""
    mirror: tuple[str, ...] | msgspec.UnsetType = msgspec.UNSET
    """Formats that the table is mirrored in. Left out where there is none: a version that does not
    know mirrors refuses only a table that has one, whose parts it would delete too early."""
    append_once: int | msgspec.UnsetType = msgspec.field(default=msgspec.UNSET, name="append.once")
    """How long the key of an append is known. Left out where it is ``ONCE_MS``: a version that
    knows no keys refuses only a table that says another time."""

    holds: tuple[Hold, ...] | msgspec.UnsetType = msgspec.UNSET
    """Legal holds. Left out where there is none: a version that does not know them refuses only a
    table that has one, whose rows it would remove."""

    def __post_init__(self) -> None:
        if self.holds == ():
            msgspec.structs.force_setattr(self, "holds", msgspec.UNSET)
        if self.mirror == ():
            msgspec.structs.force_setattr(self, "mirror", msgspec.UNSET)
        if self.append_once == ONCE_MS:
            msgspec.structs.force_setattr(self, "append_once", msgspec.UNSET)

    @property
    def mirrors(self) -> tuple[str, ...]:
        """Formats that the table is mirrored in; empty for none."""
        return () if isinstance(self.mirror, msgspec.UnsetType) else self.mirror

    @property
    def held(self) -> tuple[Hold, ...]:
        """Legal holds; empty for none."""
        return () if isinstance(self.holds, msgspec.UnsetType) else self.holds

    @property
    def once(self) -> int:
        """How long the key of an append is known, ms."""
        return ONCE_MS if isinstance(self.append_once, msgspec.UnsetType) else self.append_once

    def plain(self) -> dict[str, Any]:
        """Return every property by its name in the settings, as plain data."""
        values: dict[str, Any] = msgspec.to_builtins(self)
        holds = msgspec.to_builtins(self.held)
        return values | {"mirror": list(self.mirrors), "append.once": self.once, "holds": holds}


class PropertiesRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """Properties, and the time since when they are in force."""

    seq: int
    """Sequence number of the transaction that set them; 0 for the first append of the table."""
    t: int
    """Time of the log file that set them, unix milliseconds by its writer's clock."""
    values: Properties
    seen: int | None = None
    """Last-modified time of the first log file with them, unix milliseconds by the store's clock.
    None in that log file itself, which cannot contain it."""

    @property
    def identity(self) -> tuple[int, str]:
        """Key that distinguishes records: concurrent first appends of a table may disagree."""
        return self.seq, "" if self.seq else msgspec.json.encode(self.values).decode()


class _Line(msgspec.Struct, frozen=True):
    props: PropertiesRecord


_DECODE_LINE = msgspec.json.Decoder(_Line).decode


def record_line(record: PropertiesRecord) -> bytes:
    """Return the record as a line of a log file."""
    return msgspec.json.encode(_Line(record))


def parse_line(line: bytes) -> PropertiesRecord:
    """Parse the line of a record. Raises msgspec.MsgspecError."""
    return _DECODE_LINE(line).props


def union(records: Iterable[PropertiesRecord]) -> tuple[PropertiesRecord, ...]:
    """Return each record once, oldest first.

    Of two copies with different ``seen`` the later one counts, so that waits are longer rather than
    shorter.
    """
    records_by_identity: dict[tuple[int, str], PropertiesRecord] = {}
    for record in records:
        first = records_by_identity.setdefault(record.identity, record)
        if first is not record:
            seen = max((r.seen for r in (first, record) if r.seen is not None), default=None)
            t = min(first.t, record.t)
            records_by_identity[record.identity] = msgspec.structs.replace(first, seen=seen, t=t)
    return tuple(records_by_identity[identity] for identity in sorted(records_by_identity))


class Birth(msgspec.Struct, frozen=True, kw_only=True):
    """The birth record."""

    v: int = VERSION
    log: str
    """Key of the log file of the first append, or of the downgrade."""
    t: int
    """Time of that log file, unix milliseconds."""
    properties: Properties
    seq: int | msgspec.UnsetType = msgspec.UNSET
    """Number of the last transaction before the history was deleted; left out of a new table."""

    @property
    def last(self) -> int:
        """Number after which those of transactions continue; 0 for a new table."""
        return 0 if self.seq is msgspec.UNSET else self.seq


_DECODE_BIRTH = msgspec.json.Decoder(Birth).decode


def encode(birth: Birth) -> bytes:
    """Return the record as bytes, one line."""
    return msgspec.json.encode(birth) + b"\n"


def decode(key: str, data: bytes) -> Birth:
    """Parse the bytes of a birth record. Raises LogCorruptError."""
    try:
        return _DECODE_BIRTH(data)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise LogCorruptError(
            f"birth record {key} cannot be read: {error}",
            next_step="upgrade firnline if a newer version wrote it; else restore it from a backup",
        ) from error
