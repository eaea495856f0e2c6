"""What a table knows of itself: the record that holds its properties (docs/format.md).

``{"props":{"seq":…,"t":…,"seen":…,"values":{…}}}`` is an extension record. The one with the highest
``seq`` is in force; older ones stay as long as somebody may be under way who began by them.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec


class Cluster(msgspec.Struct, frozen=True, omit_defaults=True):
    """How merges cluster rows: as ``cluster_by`` of the settings."""

    columns: tuple[str, ...]
    method: str = "range"
    run_size: int | None = None
    """Bytes; None: a multiple of the target size."""


class Properties(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Everything that decides about correctness or layout; times in ms.

    A property that this version does not know is an error: nobody can say what it would decide.
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
    """As JSON or in the short form of the settings."""
    partition: str | None = None
    sort_by: tuple[str, ...] = ()
    cluster_by: Cluster | None = None
    deletes: str = "eager"
    statistics: tuple[str, ...] = ()
    """Columns whose bounds stand in markers."""


class PropertiesRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """Properties, and since when they are in force."""

    seq: int
    """Transaction that set them; 0: the first append of the table did."""
    t: int
    """Of the log file that brought them, unix ms by its writer's clock."""
    values: Properties
    seen: int | None = None
    """Last-modified time of the first log file with them, unix ms by the store's clock. None in
    that log file itself, which cannot know it."""

    @property
    def identity(self) -> tuple[int, str]:
        """What tells two records apart: appends that began a table at once may disagree."""
        return self.seq, "" if self.seq else msgspec.json.encode(self.values).decode()


class _Line(msgspec.Struct, frozen=True):
    props: PropertiesRecord


_DECODE = msgspec.json.Decoder(_Line).decode


def record_line(record: PropertiesRecord) -> bytes:
    """Return the record as its line in a log file."""
    return msgspec.json.encode(_Line(record))


def parse_line(line: bytes) -> PropertiesRecord:
    """Return the record of a line. Raises msgspec.MsgspecError."""
    return _DECODE(line).props


def union(records: Iterable[PropertiesRecord]) -> tuple[PropertiesRecord, ...]:
    """Return each record once, oldest first.

    Of two copies that say since when a record is visible the later time counts: whoever waits by
    it waits longer.
    """
    found: dict[tuple[int, str], PropertiesRecord] = {}
    for record in records:
        known = found.setdefault(record.identity, record)
        if known is not record:
            seen = max((r.seen for r in (known, record) if r.seen is not None), default=None)
            t = min(known.t, record.t)
            found[record.identity] = msgspec.structs.replace(known, seen=seen, t=t)
    return tuple(found[identity] for identity in sorted(found))
