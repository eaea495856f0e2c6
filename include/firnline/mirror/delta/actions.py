"""The actions of a Delta log, as far as the mirror writes them, and its own record in each version.

A version is a file of JSON lines. Its first line is ``commitInfo``, a free-form action that other
readers ignore: its key ``firnline`` says which state of the table the version shows.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from firnline.errors import MirrorDamagedError
from firnline.mirror.position import Position
from firnline.next_steps import WRITE_ANEW

APP_ID = "firnline"
GUARD = "firnline"
"""A writer feature that no engine knows: each of them reads the mirror, and none writes to it."""
TIMESTAMP_NTZ = "timestampNtz"
"""The feature that columns without a time zone need, of readers and writers."""
DELETION_VECTORS = "deletionVectors"
"""The feature that files with hidden rows need, of readers and writers."""
VERSIONS = (1, 2)
"""Versions of a position. 2: the mirror may have deletion vectors, which a version of firnline that
does not know them would not take away with their files."""


class CommitInfo(msgspec.Struct, frozen=True, kw_only=True):
    """``commitInfo``: writer, time and operation of a version."""

    timestamp: int
    operation: str
    operation_parameters: dict[str, str] = msgspec.field(name="operationParameters")
    engine_info: str = msgspec.field(name="engineInfo")
    txn_id: str = msgspec.field(name="txnId")
    """UUIDv7 of the writer: no two files of a version are equal by accident."""
    firnline: Position


class Txn(msgspec.Struct, frozen=True, kw_only=True):
    """The newest transaction of the table that the version shows."""

    app_id: str = msgspec.field(name="appId", default=APP_ID)
    version: int
    last_updated: int = msgspec.field(name="lastUpdated")


class Protocol(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """``protocol``: the versions and features that readers and writers must support."""

    min_reader: int = msgspec.field(name="minReaderVersion")
    min_writer: int = msgspec.field(name="minWriterVersion")
    reader_features: tuple[str, ...] = msgspec.field(name="readerFeatures", default=())
    writer_features: tuple[str, ...] = msgspec.field(name="writerFeatures", default=())


class Format(msgspec.Struct, frozen=True):
    """The format of the files."""

    provider: str = "parquet"
    options: dict[str, str] = {}


class MetaData(msgspec.Struct, frozen=True, kw_only=True):
    """The columns."""

    id: str
    format: Format = Format()
    schema_string: str = msgspec.field(name="schemaString")
    partition_columns: tuple[str, ...] = msgspec.field(name="partitionColumns", default=())
    configuration: dict[str, str] = {}
    created_time: int = msgspec.field(name="createdTime")


class DeletionVector(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """``deletionVector``: the hidden rows of a file."""

    storage: str = msgspec.field(name="storageType", default="u")
    """``u``: in a file below the root whose name has a UUID."""
    path: str = msgspec.field(name="pathOrInlineDv")
    """Folder of the file, and the UUID in base 85."""
    offset: int
    size: int = msgspec.field(name="sizeInBytes")
    rows: int = msgspec.field(name="cardinality")


class Add(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A file that the table has from this version on."""

    path: str
    partition_values: dict[str, str] = msgspec.field(name="partitionValues", default_factory=dict)
    size: int
    modification_time: int = msgspec.field(name="modificationTime")
    data_change: bool = msgspec.field(name="dataChange")
    stats: str | None = None
    vector: DeletionVector | msgspec.UnsetType = msgspec.field(
        name="deletionVector", default=msgspec.UNSET
    )


class Remove(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A file that the table has no more from this version on."""

    path: str
    deletion_timestamp: int = msgspec.field(name="deletionTimestamp")
    data_change: bool = msgspec.field(name="dataChange")
    extended: bool = msgspec.field(name="extendedFileMetadata", default=True)
    partition_values: dict[str, str] = msgspec.field(name="partitionValues", default_factory=dict)
    size: int | None = None
    vector: DeletionVector | msgspec.UnsetType = msgspec.field(
        name="deletionVector", default=msgspec.UNSET
    )


class Line(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """One line of a version: exactly one of its fields is set."""

    commit_info: CommitInfo | None = msgspec.field(name="commitInfo", default=None)
    txn: Txn | None = None
    protocol: Protocol | None = None
    meta_data: MetaData | None = msgspec.field(name="metaData", default=None)
    add: Add | None = None
    remove: Remove | None = None


def protocol(features: Iterable[str]) -> Protocol:
    """Return the protocol of a table with these reader features."""
    readers = tuple(features)
    return Protocol(
        min_reader=3 if readers else 1,
        min_writer=7,
        reader_features=readers,
        writer_features=("appendOnly", GUARD, *readers),
    )


def encode(lines: Iterable[Line]) -> bytes:
    """Return the bytes of a version."""
    return msgspec.json.Encoder().encode_lines(lines)


class _Named(msgspec.Struct, frozen=True, gc=False):
    path: str
    vector: DeletionVector | None = msgspec.field(name="deletionVector", default=None)


class Named(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A line of a version as a replay needs it: which file comes or goes, columns and protocol."""

    add: _Named | None = None
    remove: _Named | None = None
    meta_data: dict[str, Any] | None = msgspec.field(name="metaData", default=None)
    protocol: Protocol | None = None


_LINES = msgspec.json.Decoder(Named)


class _Info(msgspec.Struct, frozen=True):
    firnline: Position | None = None


class _First(msgspec.Struct, frozen=True):
    info: _Info | None = msgspec.field(name="commitInfo", default=None)


_FIRST = msgspec.json.Decoder(_First)


def decode(key: str, data: bytes) -> list[Named]:
    """Return the lines of a version. Raises MirrorDamagedError."""
    try:
        return _LINES.decode_lines(data)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise _damaged(key, str(error)) from error


def decode_position(key: str, head: bytes) -> Position | None:
    """Return the position in the first bytes of a version; None if they end before it does.

    Raises MirrorDamagedError for a version that the mirror did not write.
    """
    line, newline, _ = head.partition(b"\n")
    if not newline:
        return None
    try:
        first = _FIRST.decode(line)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise _damaged(key, str(error)) from error
    position = None if first.info is None else first.info.firnline
    if position is None:
        raise _damaged(key, "firnline did not write it")
    if position.v not in VERSIONS:
        raise _damaged(key, f"it is of version {position.v}, which this firnline does not know")
    return position


def _damaged(key: str, reason: str) -> MirrorDamagedError:
    return MirrorDamagedError(
        f"{key} is not a version of the mirror: {reason}",
        next_step=WRITE_ANEW,
    )
