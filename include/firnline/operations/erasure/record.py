"""Requests of erasure as they are stored, and what became of them. None holds a key."""

from __future__ import annotations

from typing import Literal

import msgspec

from firnline.log.txn_file import RunIdentity


class Request(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A request of one or several people that all of their rows are erased."""

    id: str
    """UUIDv7."""
    received_ms: int
    """Unix ms, as whoever took it says."""
    due_ms: int
    """Unix ms."""
    columns: tuple[str, ...]
    """Columns of the file of keys in which any row has a value."""
    keys: int
    """Rows of the file."""
    digest: str
    """Of the file (``asked.file_digest``), with a secret that whoever took the request was told."""
    ending: Literal["csv", "parquet"]
    taken_ms: int
    """When it was written, unix ms."""
    taken_by: RunIdentity
    tables: tuple[str, ...] = ()
    """Tables from which it is to be erased, by the settings of when it was taken."""
    without: tuple[str, ...] = ()
    """Tables that whoever took it left out."""
    reference: str = ""
    """Of the request in another system; shown to everyone, so it names nobody."""


class ErasedTable(msgspec.Struct, frozen=True, kw_only=True):
    """A table from which a request was erased, with its complete certificate."""

    table: str
    root: str
    certificate: str
    sha256: str
    """Of the certificate, as it states it itself."""
    seq: int
    """Number of the erase among those of the table."""
    completed_ms: int


class Closed(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The end of a request: all tables are erased, or it was withdrawn."""

    id: str
    closed_ms: int
    closed_by: RunIdentity
    tables: tuple[ErasedTable, ...] = ()
    without: tuple[str, ...] = ()
    """Tables that were left out, as the request says."""
    unstated: tuple[str, ...] = ()
    """Tables of the settings of which nobody has said whether they have rows of people."""
    withdrawn: str = ""
    """Why it was withdrawn; empty: it was carried out."""
