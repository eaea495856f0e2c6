"""A written part, and the key-value metadata of parts, from which a log can be rebuilt."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import msgspec

from firnline.errors import PartUnreadableError
from firnline.next_steps import RESTORE_PART
from firnline.types.hashes import Hashes
from firnline.types.order import Order
from firnline.types.values import Stats

_PREFIX = "firnline."
DIGEST_KEY = f"{_PREFIX}digest"
_ALWAYS = {"table", "partition"}
"""Keys that are written even when empty: a table at the bucket's root, no partitions."""


class PartitionLevel(Protocol):
    """One level of the partition directory, of the settings or of a kernel task.

    As text it is what the settings say, such as ``month(ts)``.
    """

    @property
    def column(self) -> str: ...

    @property
    def transform(self) -> str: ...

    @property
    def buckets(self) -> int | None: ...

    @property
    def label(self) -> str:
        """The part of the directory name before ``=``, unquoted."""
        ...


class WrittenPart(msgspec.Struct, frozen=True, kw_only=True):
    """A Parquet object that exists in the store and that no log file names yet."""

    key: str
    partition: str
    """The path between ``_data/`` and the file name; empty for an unpartitioned table."""
    bytes: int
    rows: int
    stats: Stats
    hashes: Hashes = ()
    digest: str | None = None
    """Of its rows (``types.digests``); None: unknown."""
    sorted_by: Order = ()
    """Sort order that its footer states; empty: none."""


class PartMetadata(msgspec.Struct, frozen=True, kw_only=True):
    """Metadata of a part, under ``firnline.*`` in its footer."""

    table: str
    """Key prefix of the table that it was written for."""
    partition: str
    writer: str
    """``{prefix}-{append id}`` of an append, else the name of the operation."""
    append: str = ""
    """Append id (UUIDv7); empty for the parts of a transaction."""
    q: int = 0
    """Sequence number of the newest transaction in its writer's snapshot."""
    o: tuple[int, int] = (0, 0)
    """Insertion order, unix milliseconds; for an append the time it began."""
    rows: int = 0
    d: tuple[str, ...] = ()
    """Ids of deletes that do not apply to it: for a new part of a replace, the replace's own."""
    replaces: tuple[str, ...] = ()
    """File names of the parts that it replaces."""
    digest: str = ""
    """Of its rows (``types.digests``); empty: unknown."""

    def to_pairs(self) -> dict[str, str]:
        """Return the key-value pairs for Parquet; the inverse of ``read_pairs``."""
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
            "digest": self.digest,
        }
        return {_PREFIX + name: value for name, value in pairs.items() if value or name in _ALWAYS}


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
    digest: str = ""


def read_pairs(name: str, pairs: Mapping[bytes, bytes] | None) -> PartMetadata | None:
    """Parse the key-value metadata of a footer; None when firnline did not write the part.

    Args:
        name: name of the part, for the error.
        pairs: ``pyarrow.parquet.FileMetaData.metadata``.

    Raises:
        PartUnreadableError: the firnline metadata cannot be parsed.
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
            digest=texts.digest,
        )
    except (msgspec.MsgspecError, ValueError) as error:
        raise PartUnreadableError(
            f"the firnline metadata in the footer of {name} cannot be parsed: {error}",
            next_step=RESTORE_PART,
        ) from None


def _list_json(names: Sequence[str]) -> str:
    return msgspec.json.encode(names).decode()
