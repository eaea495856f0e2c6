"""Fetch some row groups of a Parquet object as a local file, with ranged GETs.

The file has the pages of these row groups as they are and a footer of its own, without Bloom
filters and page indexes: it is read once, as a whole. Nothing is decoded.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from firnline.errors import PartUnreadableError
from firnline.next_steps import RESTORE_PART
from firnline.parquet.io import read_tail
from firnline.parquet.join import MAGIC, Footer, RowGroup, end_file, parse_footer
from firnline.parquet.thrift import ThriftError
from firnline.store.base import Store

_END_BYTES = 8
"""Bytes behind the footer: its length and the magic."""


@dataclass(frozen=True, slots=True)
class Excerpt:
    """Some row groups of an object."""

    bytes: int
    """Size of the whole object."""
    row_groups: tuple[int, ...]
    """Their numbers, ascending; at least one."""
    rows: int | None = None
    """Rows of these row groups, as they were when the task was planned; None: not compared."""


def fetch_excerpt(store: Store, key: str, excerpt: Excerpt, path: Path) -> None:
    """Write row groups of an object to a new local file.

    Requests: one ranged GET for the footer (two for a very wide table), and one for each stretch of
    row groups that are neighbours; each is streamed to the file.

    Args:
        store: store of the object.
        key: of the object.
        excerpt: which row groups.
        path: the file.

    Raises:
        PartUnreadableError: the object is not Parquet, has no such row groups, or has other ones by
            now.
        ObjectNotFoundError: it is gone.
        ScratchFullError: the disk is full.
    """
    footer, end = fetch_footer(store, key, excerpt.bytes, path)
    try:
        groups, spans = _wanted(footer, excerpt.row_groups, end)
    except (ThriftError, IndexError) as error:
        raise PartUnreadableError(
            f"the footer of {key} cannot be read: {error}",
            next_step=RESTORE_PART,
        ) from None
    _refuse_other(key, excerpt, groups)
    with path.open("xb") as file:
        file.write(MAGIC)
        for first, last, start, end in spans:
            delta = file.tell() - start
            store.get_range_into(key, start, end - start, file)
            for group in groups[first:last]:
                group.move(delta)
        end_file(file, footer, groups)


def _refuse_other(key: str, excerpt: Excerpt, groups: Sequence[RowGroup]) -> None:
    rows = sum(group.rows for group in groups)
    if excerpt.rows not in (None, rows):
        first, last = excerpt.row_groups[0], excerpt.row_groups[-1]
        raise PartUnreadableError(
            f"{key} was written anew while it was read: row groups {first} to {last} "
            f"had {excerpt.rows} rows, and have {rows}",
            next_step="leave the file as it is and run it again",
        )


def fetch_footer(store: Store, key: str, size: int, named: Path) -> tuple[Footer, int]:
    """Return the footer of an object, and the position where its row groups have ended.

    Requests: one ranged GET (two for a very wide table).

    Args:
        store: store of the object.
        key: of the object.
        size: bytes of the object.
        named: path that errors name.

    Raises:
        PartUnreadableError: it is not Parquet, encrypted or damaged.
        ObjectNotFoundError: it is gone.
    """
    tail = read_tail(store, key, size)
    length = int.from_bytes(tail[-_END_BYTES:-4], "little")
    footer = parse_footer(named, tail[-_END_BYTES - length : -_END_BYTES])
    return footer, size - _END_BYTES - length


def _wanted(
    footer: Footer, numbers: Sequence[int], end_of_data: int
) -> tuple[list[RowGroup], list[tuple[int, int, int, int]]]:
    """Return row groups, and the stretches of them that are neighbours.

    A stretch is the places of its first row group in the list and of the one behind its last, and
    the positions in the object where it begins and ends.
    """
    of_file = footer.row_groups
    groups = [of_file[number] for number in numbers]
    spans: list[tuple[int, int, int, int]] = []
    for place, group in enumerate(groups):
        start, end = group.place
        if not len(MAGIC) <= start < end <= end_of_data:
            raise ThriftError("a row group is not in the file")
        last = spans[-1] if spans else None
        if last is not None and numbers[place] == numbers[place - 1] + 1 and start >= last[3]:
            spans[-1] = (last[0], place + 1, last[2], end)
        else:
            spans.append((place, place + 1, start, end))
    return groups, spans
