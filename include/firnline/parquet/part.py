"""A part as its writer knows it, and its key-value metadata: what rebuilds a log from parts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from firnline.errors import PartUnreadableError
from firnline.types.values import Stats


class WrittenPart(msgspec.Struct, frozen=True, kw_only=True):
    """One Parquet object that exists in the store and that no log file names yet."""

    key: str
    partition: str
    """The path between ``_data/`` and the file name; empty for an unpartitioned table."""
    bytes: int
    rows: int
    stats: Stats


_PREFIX = "firnline."


class PartMetadata(msgspec.Struct, frozen=True, kw_only=True):
    """What a part says of itself under ``firnline.*`` in its footer."""

    table: str
    """Key prefix of the table it was written for."""
    partition: str
    writer: str
    """``{prefix}-{append id}`` of an append, the operation's name for others."""
    append: str = ""
    """Append id (UUIDv7); empty for the parts of a transaction."""
    q: int = 0
    """Newest transaction its writer began from."""
    o: tuple[int, int] = (0, 0)
    """Insertion order, unix milliseconds; of an append the time it began."""
    rows: int = 0
    d: tuple[str, ...] = ()
    """Deletes that do not apply to it: of a part that a replace brings, its own."""
    replaces: tuple[str, ...] = ()
    """File names of the parts it was made from."""

    def to_pairs(self) -> dict[str, str]:
        """As Parquet holds it. Inverse: ``read_pairs``."""
        pairs = {
            "table": self.table,
            "partition": self.partition,
            "writer": self.writer,
            "append": self.append,
            "q": str(self.q),
            "o": f"[{self.o[0]},{self.o[1]}]",
            "rows": str(self.rows),
            "d": _list_json(self.d) if self.d else "",
            "replaces": _list_json(self.replaces) if self.replaces else "",
        }
        return {_PREFIX + name: value for name, value in pairs.items() if value or name in _ALWAYS}


_ALWAYS = {"table", "partition"}
"""Written even when empty: a table at the root of its bucket, an unpartitioned table."""


class _Pairs(msgspec.Struct, kw_only=True):
    table: str
    partition: str
    writer: str
    append: str = ""
    q: str = "0"
    o: str = "[0,0]"
    rows: str = "0"
    d: str = "[]"
    replaces: str = "[]"


def read_pairs(name: str, pairs: Mapping[bytes, bytes] | None) -> PartMetadata | None:
    """What a footer's key-value metadata says; None when no writer of ours wrote the part.

    Args:
        name: of the part, for the error.
        pairs: ``pyarrow.parquet.FileMetaData.metadata``.

    Raises:
        PartUnreadableError: metadata of ours that does not read.
    """
    own = {
        key.decode(errors="replace").removeprefix(_PREFIX): value.decode(errors="replace")
        for key, value in (pairs or {}).items()
        if key.startswith(_PREFIX.encode())
    }
    if not own:
        return None
    try:
        texts = msgspec.convert(own, _Pairs)
        return PartMetadata(
            table=texts.table,
            partition=texts.partition,
            writer=texts.writer,
            append=texts.append,
            q=int(texts.q),
            o=msgspec.json.decode(texts.o, type=tuple[int, int]),
            rows=int(texts.rows),
            d=msgspec.json.decode(texts.d, type=tuple[str, ...]),
            replaces=msgspec.json.decode(texts.replaces, type=tuple[str, ...]),
        )
    except (msgspec.MsgspecError, ValueError) as error:
        raise PartUnreadableError(
            f"the firnline metadata in the footer of {name} does not read: {error}",
            next_step="restore the part from a backup or rewrite it",
        ) from None


def _list_json(names: Sequence[str]) -> str:
    return msgspec.json.encode(names).decode()
