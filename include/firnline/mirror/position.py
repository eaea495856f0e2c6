"""The record in each version of a mirror of the state of the table that it shows."""

from __future__ import annotations

import msgspec


class Position(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The state of the table that a version shows, and what the next version needs to know."""

    v: int = 1
    seq: int
    """Newest transaction of the state."""
    t: int
    """Its date, unix ms; 0 without one."""
    at: int
    """When the state was read, unix ms by the clock of the process that wrote the version."""
    seen: str = ""
    """Names of the appends in it that no transaction had folded, as in offsets of streams."""
    files: int
    """Files that the version shows."""
    table: str
    """Id of the mirror, a UUID that stays the same."""
    created: int
    """When its first version was written, unix ms."""
    columns: str
    """Digest of the schema."""
    features: tuple[str, ...] = ()
    """Reader features of the protocol in force, of a Delta table."""
    vectors: str = ""
    """UUIDv7 in the name of the index of its deletion vectors; empty without any."""
