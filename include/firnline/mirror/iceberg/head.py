"""The head of the mirror: what the catalog says that its newest snapshot shows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import msgspec
from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError
from pyiceberg.io import FileIO
from pyiceberg.manifest import ManifestEntry, ManifestFile
from pyiceberg.table.snapshots import Snapshot

from firnline.errors import ForeignPathError, MirrorDamagedError, MirrorRefusedError
from firnline.mirror.iceberg.catalog import Opened, asked
from firnline.mirror.iceberg.shown import list_records, target_of
from firnline.mirror.position import Position
from firnline.next_steps import DROP_IT

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from firnline import table as firnline

SUMMARY = "firnline"
"""Key of a snapshot's summary under which the state stands that it shows."""
ROOT = "firnline.root"
"""Property of the Iceberg table: root of the table that it mirrors."""


@dataclass(frozen=True)
class Head:
    """The mirror as the catalog has it."""

    table: Table
    snapshot: Snapshot
    position: Position

    @property
    def version(self) -> int:
        """Sequence number of the newest snapshot."""
        return self.snapshot.sequence_number or 0

    @property
    def io(self) -> FileIO:
        """Access to its metadata."""
        return self.table.io


def read_head(opened: Opened) -> Head | None:
    """Return the newest snapshot; None if the catalog has no such table.

    Requests: those of the catalog, and of most catalogs 1 GET for the newest metadata.

    Raises:
        MirrorRefusedError: the table of this name is another one.
        MirrorDamagedError: its newest snapshot is not one of ours.
        MirrorCatalogError: the catalog does not answer.
    """
    with asked(opened.name):
        try:
            table = opened.catalog.load_table(opened.identifier)
        except (NoSuchTableError, NoSuchNamespaceError):
            return None
        except ForeignPathError as error:
            raise _other(opened, "its metadata lies elsewhere") from error
    root = table.metadata.properties.get(ROOT)
    if root is None:
        raise _other(opened, "firnline did not make it")
    if root != opened.root.url.rstrip("/"):
        raise _other(opened, f"it is one of {root}")
    snapshot = table.metadata.current_snapshot()
    position = None if snapshot is None else position_of(snapshot)
    if snapshot is None or position is None:
        raise _foreign(opened, table, snapshot)
    return Head(table, snapshot, position)


def _other(opened: Opened, why: str) -> MirrorRefusedError:
    return MirrorRefusedError(
        f"table {opened} is not a mirror of {opened.root.url}: {why}",
        next_step="give another name in the settings, or drop that table in the catalog, without "
        "its files",
    )


def refuse_second(table: firnline.Table, opened: Opened) -> str:
    """Refuse to make a table in the catalog beside one that mirrors the same table.

    Settings that name another table than before end nothing: readers of the former one would see
    its last state for ever, of which clean-up keeps no part for them. For a mirror without a head.

    Requests: 1 LIST; if the mirror was published before, 1 GET, and those of ``read_head`` if that
    was under another name.

    Returns a warning where the catalog does not tell; empty if there is nothing to warn of.

    Raises MirrorRefusedError, MirrorCatalogError.
    """
    records = list_records(table.store, table.paths)
    told = records.shown or records.begun  # whoever began may have died before it told
    if not told:
        return ""
    former = target_of(table.store, max(told, key=lambda record: (record.modified_ms, record.seq)))
    if former == opened.target:
        return ""  # somebody dropped it, to have it made again
    name = table.settings.name
    if former is None and not records.shown:
        return ""
    if former is None or former.catalog != opened.name:
        which = "under a name that is not known" if former is None else f"as {former}"
        return (
            f"the Iceberg mirror of table {name} was published before {which}, and not as "
            f"{opened}: if the former one is still there, drop it without its files, since it "
            "shows its last state for ever and clean-up keeps no part for its readers"
        )
    if _is_there(replace(opened, identifier=former.table)):
        raise MirrorRefusedError(
            f"table {name} is mirrored by {former}, and the settings name another table, "
            f"{'.'.join(opened.identifier)}: readers of the former one would be left behind",
            next_step=f"write {'.'.join(former.table)} into the settings again, or drop that table "
            "in the catalog without its files and run `firnline mirror`",
        )
    return ""


def _is_there(opened: Opened) -> bool:
    """Return True if a catalog has a table that mirrors the same root."""
    try:
        return read_head(opened) is not None
    except MirrorRefusedError:
        return False
    except MirrorDamagedError:
        return True


def position_of(snapshot: Snapshot) -> Position | None:
    """Return the state that a snapshot shows; None if firnline did not write it."""
    text = None if snapshot.summary is None else snapshot.summary[SUMMARY]
    try:
        position = None if text is None else msgspec.json.decode(text, type=Position)
    except msgspec.MsgspecError:
        return None
    return position if position is not None and position.v == 1 else None


def _foreign(opened: Opened, table: Table, snapshot: Snapshot | None) -> MirrorDamagedError:
    ours = [s for s in table.metadata.snapshots if position_of(s) is not None]
    last = max(ours, key=lambda s: s.sequence_number or 0, default=None)
    which = "has no snapshot" if snapshot is None else f"has snapshot {snapshot.snapshot_id}"
    back = "" if last is None else f"roll it back to snapshot {last.snapshot_id}, or "
    return MirrorDamagedError(
        f"table {opened} {which}, which firnline did not write, and only firnline writes a mirror",
        next_step=f"{back}{DROP_IT}",
    )


def entries(io: FileIO, manifest: ManifestFile) -> Iterator[ManifestEntry]:
    """Yield the files that a manifest adds or keeps."""
    if manifest.has_added_files() or manifest.has_existing_files():
        yield from manifest.fetch_manifest_entry(io)


def replay(head: Head) -> Iterator[str]:
    """Yield the URLs of the files that the newest snapshot shows. Requests: a GET per manifest."""
    for manifest in head.snapshot.manifests(head.io):
        for entry in entries(head.io, manifest):
            yield entry.data_file.file_path
