"""Count the hash ranges of parts that state none, by reading the columns that are hashed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from firnline.errors import FirnlineError, PartGoneError, PartUnreadableError
from firnline.kernel.hashes import range_of
from firnline.operations.analyze.plan import Hashed, Lacking
from firnline.parquet.footers import FooterTask, ended_over
from firnline.parquet.io import tail_of
from firnline.read.batches import Stored, opened
from firnline.read.files import PartFiles, not_readable
from firnline.read.task import ReadPart
from firnline.store.base import Store
from firnline.store.transfer import each
from firnline.types.hashes import Hashes, HashRange, hull
from firnline.types.murmur3 import form_of
from firnline.types.sql import fold_name

AT_ONCE = 8
"""Parts that are read at a time: each holds the columns of one row group."""


@dataclass(frozen=True, slots=True)
class Counted:
    """Number and hash ranges of the rows of a part."""

    rows: int = 0
    ranges: Hashes = ()
    """With the names in the part; none of columns whose type in the part has no hash."""
    error: FirnlineError | None = None


def counted_ranges(store: Store, parts: Sequence[Lacking]) -> Iterator[tuple[Lacking, Counted]]:
    """Yield the ranges of many parts, in their order.

    Requests: one per part of up to 256 KiB, else two for its footer and one per row group, more if
    the columns lie apart.
    """
    files = PartFiles(keep_failure=False)
    by_key = {part.marker.p: part for part in parts}

    def one(key: str) -> tuple[Lacking, Counted]:
        part, size = by_key[key], by_key[key].marker.b
        try:
            whole = ReadPart(key=key, bytes=size, place=0, partition=0)
            _refuse_fatal(whole, store, files)
            with opened(whole, store, files) as stored:
                return part, Counted(stored.rows, _ranges(stored, list(part.hashed.values())))
        except (PartGoneError, PartUnreadableError) as error:
            return part, Counted(error=error)

    yield from each(list(by_key), one, AT_ONCE)


def _refuse_fatal(part: ReadPart, store: Store, files: PartFiles) -> None:
    """Raise PartUnreadableError for a footer over which Arrow would end this process.

    Another process parses it first; a small part is kept as it was fetched, for what comes next.
    """
    url = files.url(files.add(store), part)
    tail = tail_of(part.key, part.bytes, lambda start, length: files.read(url, start, length))
    ended = ended_over(FooterTask(part.key, part.bytes), tail)
    if ended is not None:
        why = f"the process that parsed its footer ended with {ended}"
        raise not_readable(part.key, why)


def _ranges(stored: Stored, all_hashed: Sequence[Hashed]) -> Hashes:
    """Return the ranges of all rows of a part, in one pass over its columns."""
    spelled = {fold_name(name): name for name in stored.schema.names}
    if len(spelled) < len(stored.schema.names):
        return ()  # two columns of one name: which of them is the table's is not known
    ranges: dict[Hashed, HashRange] = {}
    for hashed in all_hashed:
        nothing = _of_no_row(stored, hashed, spelled)
        if nothing is not None:
            ranges[hashed] = nothing
    present = {e: c for e in ranges if (c := _stored_columns(e, spelled))}
    names = sorted({name for columns in present.values() for name in columns})
    for batch in stored.batches(names) if names else ():
        for hashed, columns in present.items():
            forms = ranges[hashed].forms
            more = range_of([batch], columns, forms, hashed.buckets)
            more = msgspec.structs.replace(more, columns=hashed.columns)
            ranges[hashed] = hull(more, ranges[hashed])
    return tuple(ranges.values())


def _of_no_row(stored: Stored, hashed: Hashed, spelled: Mapping[str, str]) -> HashRange | None:
    """Return the range of no row, by the forms of the part; None if a type there has no hash.

    A column that the part lacks is null in all of its rows, so no row has a hash.
    """
    forms: list[str] = []
    for name, form in zip(hashed.columns, hashed.forms, strict=True):
        held = spelled.get(fold_name(name))
        form_here = form if held is None else form_of(stored.schema.field(held).type)
        if form_here is None:
            return None
        forms.append(form_here)
    return HashRange(hashed.columns, tuple(forms), hashed.buckets, None, None)


def _stored_columns(hashed: Hashed, spelled: Mapping[str, str]) -> tuple[str, ...]:
    """Return the columns as the part spells them; none if it lacks one."""
    columns = tuple(spelled.get(fold_name(name), "") for name in hashed.columns)
    return columns if all(columns) else ()
