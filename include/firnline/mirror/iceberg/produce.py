"""Write the manifests of a snapshot: files that come, files that stay beside those that go.

Manifests have at most a thousand files, so that a publication rewrites few of those that stay. The
record of a file that goes states no bounds, and no later snapshot keeps it: once the snapshots that
showed a file have expired, no value of its rows is left.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Literal

from pyiceberg.avro.codecs import AvroCompressionCodec
from pyiceberg.io import FileIO
from pyiceberg.manifest import (
    DataFile,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
    write_manifest,
    write_manifest_list,
)
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC
from pyiceberg.schema import Schema
from pyiceberg.table.snapshots import Operation, Snapshot, Summary

from firnline.errors import MirrorDamagedError
from firnline.mirror.iceberg.files import without_bounds
from firnline.mirror.iceberg.head import SUMMARY, Head, entries
from firnline.mirror.progress import MirrorProgress, OnProgress, silent
from firnline.next_steps import DROP_IT

FILES = 1_000
"""Files of a manifest at most."""
MANIFESTS = 100
"""Manifests of a snapshot above which the small ones are put together."""
_VERSION: Literal[2] = 2
_COMPRESSION: AvroCompressionCodec = "deflate"


@dataclass(frozen=True)
class Wanted:
    """The next snapshot."""

    snapshot_id: int
    sequence_number: int
    timestamp_ms: int
    schema: Schema
    location: str
    """URL of the folder for manifests."""
    commit: str
    """Id of the attempt, in all names."""
    position: str
    """The state that it shows, as JSON."""
    adds: Sequence[DataFile]
    removes: Collection[str]
    """URLs."""
    rearranged: bool
    """Rows of the files that come are those of the files that go."""


@dataclass
class _Totals:
    files: int = 0
    rows: int = 0
    bytes: int = 0

    def take(self, files: Iterable[DataFile]) -> None:
        for each in files:
            self.files += 1
            self.rows += each.record_count
            self.bytes += each.file_size_in_bytes


@dataclass
class _Writer:
    io: FileIO
    wanted: Wanted
    progress: OnProgress = silent
    total: int = 0
    """Files in all that it writes."""
    done: int = 0
    numbers: Iterator[int] = field(default_factory=count)

    def write(self, alike: Sequence[ManifestEntry]) -> Iterator[ManifestFile]:
        """Write entries of one kind; yields the manifests."""
        wanted = self.wanted
        for start in range(0, len(alike), FILES):
            name = f"{wanted.location}/{wanted.commit}-m{next(self.numbers)}.avro"
            with write_manifest(
                format_version=_VERSION,
                spec=UNPARTITIONED_PARTITION_SPEC,
                schema=wanted.schema,
                output_file=self.io.new_output(name),
                snapshot_id=wanted.snapshot_id,
                avro_compression=_COMPRESSION,
            ) as writer:
                for entry in alike[start : start + FILES]:
                    writer.add_entry(entry)
            self.done += len(alike[start : start + FILES])
            self.tell()
            yield writer.to_manifest_file()

    def tell(self) -> None:
        """Tell how many files of all are written."""
        self.progress(
            MirrorProgress(format="iceberg", stage="write", done=self.done, total=self.total)
        )


def produce(
    io: FileIO, head: Head | None, wanted: Wanted, progress: OnProgress = silent
) -> Snapshot:
    """Write manifests and their list; return the snapshot, which nobody sees yet.

    Requests: 1 GET of the list before; where files go, a GET per manifest; a PUT per 1,000 files
    that come, per manifest that loses some, and for the list.

    Raises MirrorDamagedError: the snapshot before does not show a file that goes.
    """
    before = () if head is None else head.snapshot.manifests(io)
    live = [m for m in before if m.has_added_files() or m.has_existing_files()]
    kept, stay, gone = _split(io, live, wanted.removes)
    if len(kept) > MANIFESTS:
        small = [m for m in kept if _count(m) < FILES // 2]
        kept = [m for m in kept if _count(m) >= FILES // 2]
        stay += [e for manifest in small for e in entries(io, manifest)]
    if len(gone) != len(wanted.removes):
        raise MirrorDamagedError(
            f"the Iceberg mirror shows {len(gone)} of {len(wanted.removes)} files that it should "
            "show and that are dead now",
            next_step=DROP_IT,
        )
    added = [_entry(ManifestEntryStatus.ADDED, f, wanted.snapshot_id) for f in wanted.adds]
    writer = _Writer(io, wanted, progress, len(added) + len(gone) + len(stay))
    writer.tell()
    manifests = [
        *writer.write(added),
        *writer.write([_dead(entry, wanted.snapshot_id) for entry in gone]),
        *writer.write([_stays(entry) for entry in stay]),
        *kept,
    ]
    return _snapshot(io, head, wanted, manifests, [entry.data_file for entry in gone])


def _count(manifest: ManifestFile) -> int:
    return (manifest.added_files_count or 0) + (manifest.existing_files_count or 0)


def _split(
    io: FileIO, manifests: Iterable[ManifestFile], removes: Collection[str]
) -> tuple[list[ManifestFile], list[ManifestEntry], list[ManifestEntry]]:
    """Return manifests that stay whole, and of the others the files that stay and that go."""
    kept: list[ManifestFile] = []
    stay: list[ManifestEntry] = []
    gone: list[ManifestEntry] = []
    for manifest in manifests:
        if len(gone) == len(removes):
            kept.append(manifest)
            continue
        listed = list(entries(io, manifest))
        dead = [e for e in listed if e.data_file.file_path in removes]
        if dead:
            gone += dead
            stay += [e for e in listed if e.data_file.file_path not in removes]
        else:
            kept.append(manifest)
    return kept, stay, gone


def _entry(
    status: ManifestEntryStatus,
    file: DataFile,
    snapshot_id: int | None,
    sequences: tuple[int | None, int | None] = (None, None),
) -> ManifestEntry:
    return ManifestEntry.from_args(
        status=status,
        snapshot_id=snapshot_id,
        sequence_number=sequences[0],
        file_sequence_number=sequences[1],
        data_file=file,
    )


def _stays(entry: ManifestEntry) -> ManifestEntry:
    sequences = entry.sequence_number, entry.file_sequence_number
    return _entry(ManifestEntryStatus.EXISTING, entry.data_file, entry.snapshot_id, sequences)


def _dead(entry: ManifestEntry, snapshot_id: int) -> ManifestEntry:
    sequences = entry.sequence_number, entry.file_sequence_number
    file = without_bounds(entry.data_file)
    return _entry(ManifestEntryStatus.DELETED, file, snapshot_id, sequences)


def _snapshot(
    io: FileIO,
    head: Head | None,
    wanted: Wanted,
    manifests: list[ManifestFile],
    gone: list[DataFile],
) -> Snapshot:
    parent = None if head is None else head.snapshot.snapshot_id
    name = f"{wanted.location}/snap-{wanted.snapshot_id}-0-{wanted.commit}.avro"
    with write_manifest_list(
        format_version=_VERSION,
        output_file=io.new_output(name),
        snapshot_id=wanted.snapshot_id,
        parent_snapshot_id=parent,
        sequence_number=wanted.sequence_number,
        avro_compression=_COMPRESSION,
    ) as writer:
        if manifests:
            writer.add_manifests(manifests)
    return Snapshot.model_validate(
        {
            "snapshot-id": wanted.snapshot_id,
            "parent-snapshot-id": parent,
            "sequence-number": wanted.sequence_number,
            "timestamp-ms": wanted.timestamp_ms,
            "manifest-list": name,
            "summary": _summary(head, wanted, gone),
            "schema-id": wanted.schema.schema_id,
        }
    )


def _summary(head: Head | None, wanted: Wanted, gone: list[DataFile]) -> Summary:
    before = None if head is None else head.snapshot.summary

    def total(name: str) -> int:
        return int((None if before is None else before[name]) or 0)

    come, go = _Totals(), _Totals()
    come.take(wanted.adds)
    go.take(gone)
    return Summary(
        operation=_operation(wanted),
        **{
            SUMMARY: wanted.position,
            "added-data-files": str(come.files),
            "added-records": str(come.rows),
            "added-files-size": str(come.bytes),
            "deleted-data-files": str(go.files),
            "deleted-records": str(go.rows),
            "removed-files-size": str(go.bytes),
            "total-data-files": str(total("total-data-files") + come.files - go.files),
            "total-records": str(total("total-records") + come.rows - go.rows),
            "total-files-size": str(total("total-files-size") + come.bytes - go.bytes),
            "total-delete-files": "0",
            "total-position-deletes": "0",
            "total-equality-deletes": "0",
        },
    )


def _operation(wanted: Wanted) -> Operation:
    if not wanted.removes:
        return Operation.APPEND
    if wanted.rearranged:
        return Operation.REPLACE
    return Operation.OVERWRITE if wanted.adds else Operation.DELETE
