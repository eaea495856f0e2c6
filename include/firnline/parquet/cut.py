"""Take neighbouring row groups out of a Parquet object: ranged GETs, and nothing is decoded.

A file that several tasks share is read by each of them in part.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from firnline.errors import PartUnreadableError
from firnline.parquet.excerpt import fetch_footer
from firnline.parquet.io import unreadable
from firnline.parquet.join import MAGIC, Footer, RowGroup, end_file
from firnline.parquet.thrift import ThriftError
from firnline.store.base import Store

PIECE_BYTES = 16 * 2**20
"""Bytes of one ranged GET, which are in memory while they are written to disk."""


@dataclass(frozen=True, slots=True)
class Cut:
    """Neighbouring row groups of an object."""

    bytes: int
    """Size of the whole object."""
    first: int
    end: int
    """Number of the row group behind the last one."""
    rows: int
    """Rows of these row groups, as they were when the cut was planned."""


def fetch_cut(store: Store, key: str, cut: Cut, path: Path) -> None:
    """Write a Parquet file with the row groups of a cut, and no others.

    Requests: one ranged GET for the footer (two for a very wide table), and one for each
    ``PIECE_BYTES`` of the row groups.

    Args:
        store: where the object lies.
        key: of the object.
        cut: which row groups.
        path: new local file.

    Raises:
        ObjectNotFoundError: it is gone.
        PartUnreadableError: it is not Parquet, encrypted or damaged, or another object by now.
        OSError: the disk.
    """
    footer, _ = fetch_footer(store, key, cut.bytes, Path(key))
    try:
        groups = footer.row_groups[cut.first : cut.end]
        _refuse_other(key, cut, groups)
        _write(store, key, footer, groups, path)
    except ThriftError as error:
        raise unreadable(key, error) from None


def _write(store: Store, key: str, footer: Footer, groups: Sequence[RowGroup], path: Path) -> None:
    places = [group.place for group in groups]
    start, end = min(first for first, _ in places), max(last for _, last in places)
    with path.open("xb") as out:
        out.write(MAGIC)
        for at in range(start, end, PIECE_BYTES):
            wanted = min(PIECE_BYTES, end - at)
            data = store.get_range(key, at, wanted)
            if len(data) != wanted:
                raise ThriftError(f"it ends after {at + len(data)} bytes, within a row group")
            out.write(data)
        for group in groups:
            group.move(len(MAGIC) - start)
        end_file(out, footer, groups)


def _refuse_other(key: str, cut: Cut, groups: Sequence[RowGroup]) -> None:
    rows = sum(group.rows for group in groups)
    if (len(groups), rows) != (cut.end - cut.first, cut.rows):
        raise PartUnreadableError(
            f"{key} was written anew while it was read: row groups {cut.first} to {cut.end - 1} "
            f"had {cut.rows} rows, and have {rows}",
            next_step="leave the file as it is and run it again",
        )
