"""The files that the mirror shows, read from the mirror alone, as other engines do it."""

from __future__ import annotations

import io
from dataclasses import dataclass, field

import msgspec

from firnline.errors import MirrorDamagedError
from firnline.mirror.delta import columns
from firnline.mirror.delta.actions import GUARD, DeletionVector, Named, Protocol, decode
from firnline.mirror.delta.head import Listing, list_versions
from firnline.mirror.delta.vectors import Vector
from firnline.mirror.position import Position
from firnline.next_steps import VERSIONS_EXPIRE, WRITE_ANEW
from firnline.paths import TablePaths
from firnline.store.base import Store


@dataclass(slots=True)
class Shown:
    """The state of the mirror at a version."""

    version: int
    files: set[str] = field(default_factory=set)
    """Paths as the mirror spells them."""
    schema: str = ""
    """Schema string of the newest metadata."""
    vectors: dict[str, Vector] = field(default_factory=dict)
    """Deletion vectors by path of the file."""
    protocol: Protocol | None = None
    """The newest one; None where no version states one."""

    def damage(self, position: Position) -> str | None:
        """Return why engines do not read it as the table, or would write to it; None if they do.

        Whether the files are the right ones only the table knows.

        Args:
            position: that the version states.
        """
        if self.protocol is None:
            return "has no protocol, without which no engine reads it"
        if not self.schema:
            return "has no columns, without which no engine reads it"
        if GUARD not in self.protocol.writer_features:
            return f"does not ask for the feature {GUARD}, so other engines may write to it"
        if not {*position.features} <= {*self.protocol.reader_features}:
            return f"does not ask for the features {', '.join(position.features)}, which it needs"
        if columns.digest(self.schema) != position.columns:
            return "has other columns than it states"
        return None


def replay(store: Store, paths: TablePaths, upto: int, listing: Listing | None = None) -> Shown:
    """Return what the mirror shows at a version.

    Requests: 1 GET for each version since the checkpoint before it, 1 for the checkpoint; those of
    ``list_versions`` without a listing.

    Raises MirrorDamagedError: a version is missing or does not read.
    """
    listing = listing or list_versions(store, paths)
    start = max(
        (c for c in listing.checkpoints if c.number <= upto), default=None, key=lambda c: c.number
    )
    shown = Shown(upto)
    first = 0
    if start is not None:
        first = start.number + 1
        _read_checkpoint(shown, store.get(start.key))
    since = [v for v in listing.versions if first <= v.number <= upto]
    if not listing.has_all(first, upto):
        raise MirrorDamagedError(
            f"{paths.delta_dir} lacks versions between {first} and {upto}",
            next_step=WRITE_ANEW,
        )
    fetched = dict(store.get_many([v.key for v in since]))
    for version in since:
        data = fetched[version.key]
        if data is None:
            raise MirrorDamagedError(
                f"{version.key} was deleted while the mirror was read",
                next_step=VERSIONS_EXPIRE,
            )
        for line in decode(version.key, data):
            _take(shown, line)
    return shown


def _take(shown: Shown, line: Named) -> None:
    if line.add is not None:
        shown.files.add(line.add.path)
        if line.add.vector is not None:
            shown.vectors[line.add.path] = Vector.of_action(line.add.vector)
    elif line.remove is not None:
        shown.files.discard(line.remove.path)
        shown.vectors.pop(line.remove.path, None)
    elif line.meta_data is not None:
        shown.schema = line.meta_data.get("schemaString", "")
    elif line.protocol is not None:
        shown.protocol = line.protocol


def _read_checkpoint(shown: Shown, data: bytes) -> None:
    """Take the paths, the columns, the protocol and the vectors that a checkpoint holds."""
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    file = pq.ParquetFile(io.BytesIO(data))
    adds = file.schema_arrow.field("add").type
    has_vectors = adds.get_field_index("deletionVector") >= 0
    names = ["add.path", "metaData.schemaString", "protocol"]
    table = file.read(columns=[*names, *["add.deletionVector"] * has_vectors])
    paths = pc.struct_field(table["add"], "path")
    shown.files = set(paths.drop_null().to_pylist())
    schemas = pc.struct_field(table["metaData"], "schemaString").drop_null().to_pylist()
    shown.schema = (schemas or [""])[-1]
    for protocol in table["protocol"].drop_null().to_pylist():
        stated = {name: value for name, value in protocol.items() if value is not None}
        shown.protocol = msgspec.convert(stated, Protocol)
    if has_vectors:
        vectors = pc.struct_field(table["add"], "deletionVector")
        valid = vectors.is_valid()
        for path, vector in zip(
            paths.filter(valid).to_pylist(), vectors.filter(valid).to_pylist(), strict=True
        ):
            shown.vectors[path] = Vector.of_action(msgspec.convert(vector, DeletionVector))
