"""Join Parquet files into one, below each other or side by side: pages are copied as bytes.

Row groups keep their pages, statistics, Bloom filters and page indexes; only positions change. The
layout is that of Parquet's ``parquet.thrift``.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final

from firnline.errors import KernelError, PartUnreadableError
from firnline.next_steps import REPORT_UNCHANGED, RESTORE_PART
from firnline.parquet.thrift import (
    BINARY,
    FALSE,
    I16,
    I32,
    I64,
    LIST,
    STRUCT,
    TRUE,
    Items,
    Struct,
    ThriftError,
    decode,
    encode,
)
from firnline.types.order import Order

MAGIC: Final = b"PAR1"
"""First and last bytes of a file."""
_COPIED_AT_ONCE = 4 * 2**20
_MOST_ORDINAL = 2**15 - 1

# Fields of parquet.thrift.
_VERSION, _SCHEMA, _NUM_ROWS, _ROW_GROUPS, _PAIRS, _CREATED_BY, _ORDERS, _ENCRYPTION = range(1, 9)
_ELEMENT_NAME, _CHILDREN = 4, 5
_COLUMNS, _BYTES, _ROWS, _SORTING, _GROUP_START, _PACKED, _ORDINAL = range(1, 8)
_PATH, _CHUNK_START, _META = 1, 2, 3
_FORM_OF_ELEMENT: Final = (1, 2, 3, 4, 5)
"""Of an element of the schema: physical type and its length, repetition, name and children."""
_STATISTICS = 12
_BOUNDS: Final = (1, 2, 5, 6, 7, 8)
"""Smallest and largest value in statistics, in their former and present form."""
_OFFSET_INDEX: Final = (4, 5)
_COLUMN_INDEX: Final = (6, 7)
_CRYPTO: Final = (8, 9)
_LEAF, _CODEC, _COMPRESSED, _DATA_PAGE, _INDEX_PAGE, _DICTIONARY_PAGE = 3, 4, 7, 9, 10, 11
_BLOOM: Final = (14, 15)
_PAGES, _PAGE_START = 1, 1
ZSTD = 6
"""``CompressionCodec.ZSTD``."""


@dataclass(frozen=True, slots=True)
class Footer:
    """The footer of a file."""

    path: Path
    plain: Struct

    @property
    def schema(self) -> bytes:
        """Return the schema and the order of its columns, in a form to compare."""
        named = {n: self.plain.fields[n] for n in (_SCHEMA, _ORDERS) if n in self.plain.fields}
        return encode(Struct(named))

    @property
    def columns(self) -> list[str]:
        """Return the names of the columns at the top of the schema, in their order."""
        elements = self.plain.structs(_SCHEMA)
        names: list[str] = []
        at = 1
        while at < len(elements):
            name = elements[at].get(_ELEMENT_NAME)
            names.append(name.decode(errors="replace") if isinstance(name, bytes) else "")
            at = _after(elements, at)
        return names

    @property
    def row_groups(self) -> list[RowGroup]:
        """Return the row groups."""
        return [RowGroup(each) for each in self.plain.structs(_ROW_GROUPS)]


@dataclass(frozen=True, slots=True)
class RowGroup:
    """A row group of a footer."""

    plain: Struct

    @property
    def rows(self) -> int:
        """Return the number of rows."""
        return self.plain.integer(_ROWS) or 0

    @property
    def bytes(self) -> int:
        """Return the size of its values, uncompressed."""
        return self.plain.integer(_BYTES) or 0

    def move(self, delta: int) -> None:
        """State that its pages are elsewhere, and that it has neither filters nor page indexes."""
        for chunk in self.chunks():
            _move(chunk, _start(chunk), delta)
            chunk.struct(_META).drop(*_BLOOM)
            chunk.drop(*_OFFSET_INDEX, *_COLUMN_INDEX)
        self.plain.drop(_GROUP_START)

    @property
    def codecs(self) -> frozenset[int | None]:
        """Return the codecs of the column chunks."""
        return frozenset(each.struct(_META).integer(_CODEC) for each in self.chunks())

    @property
    def has_bloom_filter(self) -> bool:
        """Return True if a column chunk has a Bloom filter."""
        return any(each.struct(_META).get(_BLOOM[0]) is not None for each in self.chunks())

    @property
    def has_dictionary(self) -> bool:
        """Return True if a column chunk has a dictionary."""
        return any(each.struct(_META).get(_DICTIONARY_PAGE) is not None for each in self.chunks())

    @property
    def place(self) -> tuple[int, int]:
        """Return the positions of its first byte in the file, and of the byte behind its last."""
        starts = [(_start(chunk), chunk.struct(_META)) for chunk in self.chunks()]
        if not starts:
            raise ThriftError("a row group has no columns")
        ends = [start + (meta.integer(_COMPRESSED) or 0) for start, meta in starts]
        return min(start for start, _ in starts), max(ends)

    def chunks(self) -> list[Struct]:
        """Return the column chunks."""
        return self.plain.structs(_COLUMNS)


def _after(elements: Sequence[Struct], at: int) -> int:
    """Return the position behind an element of the schema and all that is in it."""
    if at >= len(elements):
        raise ThriftError("the schema ends early")
    inside = elements[at].integer(_CHILDREN) or 0
    at += 1
    for _ in range(inside):
        at = _after(elements, at)
    return at


def read_footer(path: Path) -> Footer:
    """Return the footer of a file.

    Raises:
        PartUnreadableError: the file is not Parquet, is encrypted, or its data is in other files.
    """
    with path.open("rb") as file:
        size = file.seek(0, 2)
        file.seek(max(0, size - 8))
        tail = file.read()
        length = int.from_bytes(tail[:4], "little")
        if size < length + 12 or tail[4:] != MAGIC:
            raise _unreadable(path, "it does not end with a Parquet footer")
        file.seek(size - 8 - length)
        data = file.read(length)
    return parse_footer(path, data)


def parse_footer(path: Path, data: bytes) -> Footer:
    """Return a footer from its bytes, without their length and the magic behind them.

    Args:
        path: its file, for errors.
        data: the bytes.

    Raises PartUnreadableError: see ``read_footer``.
    """
    try:
        footer = Footer(path, decode(data))
        _check(footer)
    except ThriftError as error:
        raise _unreadable(path, str(error)) from None
    return footer


def _check(footer: Footer) -> None:
    encrypted = _ENCRYPTION in footer.plain.fields
    _ = footer.columns
    for group in footer.row_groups:
        for chunk in group.chunks():
            encrypted |= any(number in chunk.fields for number in _CRYPTO)
            if chunk.get(_PATH) is not None:
                raise _unreadable(footer.path, "a column chunk is in another file")
            _start(chunk)
    if encrypted:
        raise _unreadable(footer.path, "it is encrypted")


def _unreadable(path: Path, why: str) -> PartUnreadableError:
    return PartUnreadableError(
        f"the footer of {path.name} cannot be read: {why}",
        next_step=RESTORE_PART,
    )


def join(
    footers: Sequence[Footer],
    target: Path,
    metadata: Mapping[str, str],
    *,
    used_up: Collection[Path] = (),
) -> int:
    """Write one file with the row groups of all files, in their order; return its rows.

    Its footer states no order, whatever theirs do: the rows of one file may lie among those of
    another. ``state`` states one.

    Args:
        footers: of at least one file, all of one schema.
        target: new local file.
        metadata: key-value pairs of its footer, in place of those of the files.
        used_up: files to delete once they are copied, so that the disk holds little more than one
            copy.

    Raises:
        KernelError: the files have different schemas.
        OSError: the disk.
    """
    if len({footer.schema for footer in footers}) != 1:
        raise KernelError(
            f"{', '.join(f.path.name for f in footers[:5])} have different Parquet schemas",
            next_step=REPORT_UNCHANGED,
        )
    groups: list[Struct] = []
    with target.open("xb") as out:
        out.write(MAGIC)
        for footer in footers:
            with footer.path.open("rb") as source:
                for group in footer.row_groups:
                    _copy_group(group.plain, [source] * len(group.chunks()), out)
                    groups.append(group.plain)
            if footer.path in used_up:
                footer.path.unlink()
        _end_joined(out, footers[0], groups, metadata)
    return sum(group.integer(_ROWS) or 0 for group in groups)


def _end_joined(
    out: BinaryIO, like: Footer, groups: Sequence[Struct], metadata: Mapping[str, str]
) -> None:
    _number(groups)
    plain = _footer_of(like, groups)
    plain.put(_PAIRS, LIST, Items(STRUCT, [_pair(*each) for each in metadata.items()]))
    _write_footer(out, plain)


def join_columns(
    footers: Sequence[Footer],
    target: Path,
    metadata: Mapping[str, str],
    like: Footer,
    without_bounds: Collection[str] = (),
) -> bool:
    """Write one file with the columns of all files side by side.

    Args:
        footers: of at least one file; all have row groups of the same numbers of rows. They and
            what they hold are changed.
        target: new local file.
        metadata: key-value pairs of its footer.
        like: footer with the schema to state.
        without_bounds: columns whose smallest and largest value have to go.

    Returns:
        False, without a file, if the columns are not those of ``like``.

    Raises:
        KernelError: the row groups differ in their rows.
        OSError: the disk.
    """
    groups = [_beside(each) for each in zip(*(f.row_groups for f in footers), strict=True)]
    whole = Footer(target, _footer_of(footers[0], groups))
    elements = [each for footer in footers for each in footer.plain.structs(_SCHEMA)[1:]]
    whole.plain.put(_SCHEMA, LIST, Items(STRUCT, [footers[0].plain.structs(_SCHEMA)[0], *elements]))
    if not take_schema(whole, like, without_bounds):
        return False
    with ExitStack() as opened, target.open("xb") as out:
        files = [opened.enter_context(footer.path.open("rb")) for footer in footers]
        widths = [len(footer.row_groups[0].chunks()) if groups else 0 for footer in footers]
        sources = [file for file, width in zip(files, widths, strict=True) for _ in range(width)]
        out.write(MAGIC)
        for group in groups:
            _copy_group(group, sources, out)
        _end_joined(out, whole, groups, metadata)
    return True


def _beside(groups: Sequence[RowGroup]) -> Struct:
    """Return a row group with the columns of others, which have the same rows."""
    if len({group.rows for group in groups}) != 1:
        raise KernelError(
            f"columns of one row group have {sorted({group.rows for group in groups})} rows",
            next_step=REPORT_UNCHANGED,
        )
    plain = Struct({})
    plain.put(_COLUMNS, LIST, Items(STRUCT, [c for group in groups for c in group.chunks()]))
    plain.put(_BYTES, I64, sum(group.bytes for group in groups))
    plain.put(_ROWS, I64, groups[0].rows)
    plain.put(_GROUP_START, I64, 0)
    packed = [chunk.struct(_META).integer(_COMPRESSED) or 0 for g in groups for chunk in g.chunks()]
    plain.put(_PACKED, I64, sum(packed))
    return plain


def _footer_of(like: Footer, groups: Sequence[Struct]) -> Struct:
    """Return a footer with the schema of another one, and other row groups."""
    fields = like.plain.fields
    plain = Struct({n: fields[n] for n in (_VERSION, _SCHEMA, _CREATED_BY, _ORDERS) if n in fields})
    plain.put(_NUM_ROWS, I64, sum(group.integer(_ROWS) or 0 for group in groups))
    plain.put(_ROW_GROUPS, LIST, Items(STRUCT, list(groups)))
    return plain


def end_file(file: BinaryIO, like: Footer, groups: Sequence[RowGroup]) -> None:
    """Write a footer behind pages that are in place, and with it the end of the file.

    Args:
        file: open for writing, at its end.
        like: footer whose schema and key-value pairs it has.
        groups: row groups, of which ``move`` has stated the positions in this file.
    """
    plain = [group.plain for group in groups]
    _number(plain)
    footer = _footer_of(like, plain)
    if _PAIRS in like.plain.fields:
        footer.fields[_PAIRS] = like.plain.fields[_PAIRS]
    _write_footer(file, footer)


def state(path: Path, sorted_by: Order = (), pairs: Mapping[str, str] | None = None) -> Order:
    """State in a file's footer what is known of its rows; only the footer is written again.

    Args:
        path: a local file without ``sorting_columns``.
        sorted_by: by what the rows are sorted.
        pairs: key-value pairs to add.

    Returns:
        The order that the footer states: none where it could not name all of the columns.

    Raises:
        PartUnreadableError: see ``read_footer``.
        OSError: the disk.
    """
    footer = read_footer(path)
    order = note(footer, sorted_by, pairs)
    if order or pairs:
        _replace_footer(path, footer.plain)
    return order


def note(footer: Footer, sorted_by: Order = (), pairs: Mapping[str, str] | None = None) -> Order:
    """State in a footer, which is changed, what ``state`` states; returns the order."""
    plain = footer.plain
    groups = plain.structs(_ROW_GROUPS)
    sorting = _sorting(groups, sorted_by)
    if sorting is not None:
        for group in groups:
            group.put(_SORTING, LIST, sorting)
    if pairs:
        former = plain.structs(_PAIRS) if _PAIRS in plain.fields else []
        added = [_pair(key, value) for key, value in pairs.items()]
        plain.put(_PAIRS, LIST, Items(STRUCT, [*former, *added]))
    return () if sorting is None else sorted_by


def adopt(path: Path, like: Footer, without_bounds: Collection[str] = ()) -> bool:
    """Give a file the schema of another one; return False if its pages are of other columns.

    What a logical type is called differs between writers; only files whose schemas are equal byte
    by byte are joined.

    Args:
        path: a local file whose columns have the logical types of ``like``.
        like: footer with the schema to state.
        without_bounds: columns whose smallest and largest value have to go.

    Raises:
        PartUnreadableError: see ``read_footer``.
        OSError: the disk.
    """
    footer = read_footer(path)
    if not take_schema(footer, like, without_bounds):
        return False
    _replace_footer(path, footer.plain)
    return True


def take_schema(footer: Footer, like: Footer, without_bounds: Collection[str] = ()) -> bool:
    """Change a footer as ``adopt`` does; return False, and change nothing, where that does."""
    plain = footer.plain
    if _forms(footer) != _forms(like):
        return False
    for number in (_SCHEMA, _ORDERS):
        if number in like.plain.fields:
            plain.fields[number] = like.plain.fields[number]
    named = {name.encode() for name in without_bounds}
    for group in footer.row_groups if named else ():
        for chunk in group.chunks():
            meta = chunk.struct(_META)
            if _only(meta.get(_LEAF)) in named:
                chunk.drop(*_COLUMN_INDEX)
                if _STATISTICS in meta.fields:
                    meta.struct(_STATISTICS).drop(*_BOUNDS)
    return True


def _forms(footer: Footer) -> list[tuple[object, ...]]:
    """Return what the pages of each column depend on; the root's name says nothing."""
    elements = footer.plain.structs(_SCHEMA)[1:]
    return [tuple(each.get(number) for number in _FORM_OF_ELEMENT) for each in elements]


def _replace_footer(path: Path, plain: Struct) -> None:
    with path.open("r+b") as file:
        file.seek(-8, 2)
        length = int.from_bytes(file.read(4), "little")
        file.seek(-8 - length, 2)
        _write_footer(file, plain)
        file.truncate()


def split_file(path: Path, data: bytes) -> tuple[bytes, Footer]:
    """Return the pages of a file in memory, and its footer.

    Args:
        path: its name, for errors.
        data: the whole file.

    Raises PartUnreadableError: see ``read_footer``.
    """
    length = int.from_bytes(data[-8:-4], "little")
    if len(data) < length + 12 or data[-4:] != MAGIC:
        raise _unreadable(path, "it does not end with a Parquet footer")
    end = len(data) - 8 - length
    return data[:end], parse_footer(path, data[end:-8])


def end_of(footer: Footer) -> bytes:
    """Return the bytes behind the pages of a file."""
    return _end(footer.plain)


def _end(plain: Struct) -> bytes:
    data = encode(plain)
    return data + len(data).to_bytes(4, "little") + MAGIC


def _write_footer(file: BinaryIO, plain: Struct) -> None:
    file.write(_end(plain))


def _pair(key: str, value: str) -> Struct:
    return Struct({1: (BINARY, key.encode()), 2: (BINARY, value.encode())})


def _sorting(groups: Sequence[Struct], sorted_by: Order) -> Items | None:
    """Return Parquet's ``sorting_columns``; None unless all of them are plain columns."""
    chunks = groups[0].structs(_COLUMNS) if groups else []
    leaves = [_only(chunk.struct(_META).get(_LEAF)) for chunk in chunks]
    keys: list[Struct] = []
    for key in sorted_by:
        name = key.column.encode()
        if name not in leaves:
            return None
        number = leaves.index(name)
        order = (TRUE, TRUE) if key.descending else (FALSE, FALSE)
        nulls_first = (FALSE, FALSE)
        keys.append(Struct({1: (I32, number), 2: order, 3: nulls_first}))
    return Items(STRUCT, list(keys)) if keys else None


def _only(path: object) -> bytes:
    """Return the name of a column at the top of the schema; empty for a nested one."""
    one = path.values[0] if isinstance(path, Items) and len(path.values) == 1 else b""
    return one if isinstance(one, bytes) else b""


def _number(groups: Sequence[Struct]) -> None:
    for number, group in enumerate(groups):
        group.drop(_ORDINAL, _SORTING)
        if len(groups) <= _MOST_ORDINAL:
            group.put(_ORDINAL, I16, number)


def _copy_group(group: Struct, sources: Sequence[BinaryIO], out: BinaryIO) -> None:
    """Copy a row group with its filters and indexes, each column chunk from its file.

    ``group`` is changed to its entry for the new footer.
    """
    chunks = list(zip(sources, group.structs(_COLUMNS), strict=True))
    moved: list[int] = []
    for source, chunk in chunks:
        start = _start(chunk)
        moved.append(out.tell() - start)
        _copy(source, out, start, chunk.struct(_META).integer(_COMPRESSED) or 0)
        _move(chunk, start, moved[-1])
    # Filters and indexes stand behind the data of all columns.
    for (source, chunk), delta in zip(chunks, moved, strict=True):
        _copy_filter(source, out, chunk.struct(_META))
        _copy_indexes(source, out, chunk, delta)
    if group.get(_GROUP_START) is not None and chunks:
        group.put(_GROUP_START, I64, _start(chunks[0][1]))


def _start(chunk: Struct) -> int:
    """Return the position of a chunk's first page. Raises ThriftError without a data page."""
    meta = chunk.struct(_META)
    data = meta.integer(_DATA_PAGE)
    if data is None or meta.integer(_COMPRESSED) is None:
        raise ThriftError("a column chunk has no pages")
    others = [meta.integer(number) for number in (_INDEX_PAGE, _DICTIONARY_PAGE)]
    # Some writers state position 0 for a page that is not there.
    return min(data, *(each for each in others if each), data)


def _move(chunk: Struct, start: int, delta: int) -> None:
    """State that the pages of a chunk, which began at ``start``, lie ``delta`` bytes later."""
    meta = chunk.struct(_META)
    for number in (_DATA_PAGE, _INDEX_PAGE, _DICTIONARY_PAGE):
        if old := meta.integer(number):
            meta.put(number, I64, old + delta)
    chunk.put(_CHUNK_START, I64, start + delta)


def _copy_filter(source: BinaryIO, out: BinaryIO, meta: Struct) -> None:
    start, length = (meta.integer(number) for number in _BLOOM)
    if start is None:
        return
    if length is None:
        # Its length is in front of it only; readers do without a filter.
        meta.drop(*_BLOOM)
        return
    meta.put(_BLOOM[0], I64, out.tell())
    _copy(source, out, start, length)


def _copy_indexes(source: BinaryIO, out: BinaryIO, chunk: Struct, delta: int) -> None:
    """Copy the page indexes; the positions of pages in the offset index change."""
    offsets, columns = (
        [chunk.integer(number) for number in pair] for pair in (_OFFSET_INDEX, _COLUMN_INDEX)
    )
    if columns[0] is not None and columns[1] is not None:
        chunk.put(_COLUMN_INDEX[0], I64, out.tell())
        _copy(source, out, columns[0], columns[1])
    if offsets[0] is not None and offsets[1] is not None:
        source.seek(offsets[0])
        index = decode(source.read(offsets[1]))
        for page in index.structs(_PAGES):
            page.put(_PAGE_START, I64, (page.integer(_PAGE_START) or 0) + delta)
        data = encode(index)
        chunk.put(_OFFSET_INDEX[0], I64, out.tell())
        chunk.put(_OFFSET_INDEX[1], I32, len(data))
        out.write(data)


def _copy(source: BinaryIO, out: BinaryIO, start: int, length: int) -> None:
    source.seek(start)
    while length:
        data = source.read(min(length, _COPIED_AT_ONCE))
        if not data:
            raise ThriftError("the file ends within a column chunk")
        out.write(data)
        length -= len(data)
