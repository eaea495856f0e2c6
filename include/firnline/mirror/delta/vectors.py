"""Deletion vectors of the mirror: the rows of live parts that deletes hide until a merge.

A file of vectors is written with a version that needs new ones, and an index that says which part
has which vector, with the deletes that it was made of. A version names its index; the vectors of
parts in which nothing has changed stay those of earlier versions. Both are written before the
version, under a fresh name, so what a crash leaves is named by no version and expires.
"""

from __future__ import annotations

import struct
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self
from zlib import crc32

import msgspec

from firnline.errors import MirrorDamagedError, ObjectNotFoundError
from firnline.mirror.delta import roaring
from firnline.mirror.delta.actions import DeletionVector
from firnline.mirror.position import Position
from firnline.next_steps import WRITE_ANEW
from firnline.paths import TablePaths
from firnline.store.base import Store
from firnline.store.create import create

if TYPE_CHECKING:
    from firnline.read.hidden import Rows

FORMAT = b"\x01"
"""First byte of a file of vectors."""


class Vector(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The hidden rows of one part."""

    file: str
    """UUIDv7 in the name of the file; empty if no row is hidden."""
    offset: int
    """Of the vector in its file, bytes."""
    size: int
    """Bytes of its data."""
    rows: int
    """Rows that it hides."""
    deletes: tuple[str, ...] = ()
    """Ids of the deletes that it was made of; empty where that is not known."""
    count: int | None = None
    """All rows of the part, where its marker does not state them."""

    def action(self) -> DeletionVector | None:
        """Return the vector as actions name it; None if it hides no row."""
        if not self.rows:
            return None
        return DeletionVector(
            path=TablePaths.vectors_ref(self.file),
            offset=self.offset,
            size=self.size,
            rows=self.rows,
        )

    @classmethod
    def of_action(cls, action: DeletionVector) -> Vector:
        """Return the vector that an action names. Raises MirrorDamagedError for another's."""
        try:
            name = TablePaths.vectors_of_ref(action.path)
        except (ValueError, OverflowError) as error:
            raise MirrorDamagedError(
                f"the mirror has a deletion vector that firnline did not write: {error}",
                next_step=WRITE_ANEW,
            ) from None
        return cls(name, action.offset, action.size, action.rows)


Vectors = Mapping[str, Vector]
"""Vector by path of a part, as the mirror spells it."""


class _Index(msgspec.Struct, frozen=True, kw_only=True):
    v: int = 1
    parts: dict[str, Vector]


_DECODE = msgspec.json.Decoder(_Index).decode


def index_of(store: Store, paths: TablePaths, position: Position) -> dict[str, Vector] | None:
    """Return the vectors of a version by its index; None if that cannot be used.

    Requests: 1 GET; none for a version without vectors.
    """
    if not position.vectors:
        return {}
    try:
        index = _DECODE(store.get(paths.vectors_index(position.vectors)))
    except (ObjectNotFoundError, msgspec.MsgspecError, UnicodeDecodeError):
        return None  # the mirror's actions name the same vectors
    return index.parts if index.v == 1 else None


def missing_vectors(store: Store, paths: TablePaths, vectors: Vectors) -> dict[str, Vector]:
    """Return those, by path of their part, of which the store lacks the bytes.

    Requests: 1 LIST per 1,000 objects; none without vectors.
    """
    if not vectors:
        return {}
    sizes = {meta.key: meta.size for meta in store.list(paths.vectors_dir)}
    return {
        path: vector
        for path, vector in sorted(vectors.items())
        if sizes.get(paths.vectors(vector.file), 0) < vector.offset + vector.size
    }


@dataclass
class Collected:
    """Vectors that one publication makes, kept in a local file until a version is written.

    A lost race for a version makes none of them again. Memory: one vector, which has 8 KiB for each
    65,536 rows of its part at most; disk: all of them.
    """

    _folder: tempfile.TemporaryDirectory[str] | None = None
    """None until there is a vector: most versions have none."""
    _known: dict[tuple[str, tuple[str, ...]], Vector] = field(default_factory=dict)
    _size: int = 0

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Remove the local file."""
        if self._folder is not None:
            self._folder.cleanup()

    @property
    def _path(self) -> Path:
        if self._folder is None:
            self._folder = tempfile.TemporaryDirectory(prefix="firnline-mirror-")
        return Path(self._folder.name) / "vectors"

    def has(self, path: str, deletes: tuple[str, ...]) -> bool:
        """Return True if the vector of a part by these deletes is known."""
        return (path, deletes) in self._known

    def may_hide(self, path: str, deletes: tuple[str, ...]) -> bool:
        """Return False if it is known that these deletes hide no row of a part."""
        vector = self._known.get((path, deletes))
        return vector is None or vector.rows > 0

    def add(self, path: str, deletes: tuple[str, ...], rows: Rows, count: int | None) -> None:
        """Take a vector.

        Args:
            path: of the part, as the mirror spells it.
            deletes: ids of the deletes.
            rows: numbers of the rows that they hide.
            count: all rows of the part, where its marker does not state them.
        """
        if not len(rows):
            self._known[path, deletes] = Vector("", 0, 0, 0, deletes, count)
            return
        data = roaring.encode(rows)
        with self._path.open("ab") as file:
            if not self._size:
                self._size = file.write(FORMAT)
            offset = self._size
            for piece in (struct.pack(">I", len(data)), data, struct.pack(">I", crc32(data))):
                self._size += file.write(piece)
        self._known[path, deletes] = Vector("", offset, len(data), len(rows), deletes, count)

    def named(self, name: str, wanted: Mapping[str, tuple[str, ...]]) -> dict[str, Vector]:
        """Return vectors by path, as those of the file with a name.

        Args:
            name: UUIDv7.
            wanted: ids of deletes by path of a part.
        """
        return {
            path: msgspec.structs.replace(vector, file=name if vector.rows else "")
            for path, deletes in wanted.items()
            for vector in [self._known[path, deletes]]
        }

    def write(
        self,
        store: Store,
        paths: TablePaths,
        name: str,
        vectors: Vectors,
        may_put: Callable[[], bool],
    ) -> None:
        """Write an index, and the file of vectors if one of them is in it.

        Requests: 1 PUT, and 1 with the file (more for one that is sent in several).
        """
        if any(vector.file == name for vector in vectors.values()):
            store.put_file(paths.vectors(name), self._path)
        index = msgspec.json.encode(_Index(parts=dict(vectors)))
        create(store, paths.vectors_index(name), index, may_put=may_put)


def rows_of(store: Store, paths: TablePaths, vector: Vector) -> Rows:
    """Return the rows that a vector hides. Requests: 1 ranged GET.

    Raises:
        MirrorDamagedError: it is not as it was written.
        ObjectNotFoundError: its file is gone.
    """
    key = paths.vectors(vector.file)
    data = store.get_range(key, vector.offset, vector.size + 8)
    body = data[4:-4]
    whole = len(data) == vector.size + 8 and data[:4] == struct.pack(">I", vector.size)
    try:
        if not whole or data[-4:] != struct.pack(">I", crc32(body)):
            raise ValueError("its length or its checksum is wrong")
        return roaring.decode(body)
    except ValueError as error:
        raise MirrorDamagedError(
            f"the deletion vector at {vector.offset} of {key} is damaged: {error}",
            next_step=WRITE_ANEW,
        ) from None
