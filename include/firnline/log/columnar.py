"""A mapping of parts: the columns of a checkpoint, overlaid with the markers of newer log files.

Numbers are arrays. Names and the columns that only markers need stay compressed until their row
group is accessed; states are determined, counted and summed without them. A million parts take
about 40 MB here, 100 MB with all names, and 600 MB as markers.
"""

from __future__ import annotations

import json
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from firnline.log.parts_view import (
    Dead,
    Figures,
    Numbers,
    PartitionsView,
    PartsView,
    Totals,
    died,
    summed,
)
from firnline.log.records import NO_STATS, Marker, parse_order, with_unknown
from firnline.log.union import Past, is_live
from firnline.types.order import Order

Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
NONE = -1
"""Missing value in a column of integers. Sizes, times and numbers are never negative."""
LAZY = ("d", "o", "o_last", "s", "c", "h", "x")
"""Columns that only a marker needs."""
WALKED = 4
"""Reads of row groups that a walk through partitions keeps, the last ones: names, other columns."""

_EXTRA = msgspec.json.Decoder(dict[str, msgspec.Raw])


@dataclass(frozen=True)
class PartColumns:
    """The parts of a checkpoint, sorted by partition and name."""

    data_dir: str
    """Key prefix of the table's parts, ending in ``/``."""
    partitions: list[str]
    starts: list[int]
    """First row of each partition, and at the end the number of rows."""
    b: Ints
    t: Ints
    tmb: Ints
    n: Ints
    q: Ints
    group_rows: int
    """Rows of a row group; the last one may have fewer."""
    read_names: Callable[[int], Any]
    """Row group -> pyarrow.StringArray of names: the parts' keys without partition."""
    read_rest: Callable[[int, Sequence[str]], dict[str, Any]]
    """Row group and some of ``LAZY`` -> these columns as pyarrow arrays."""
    _names: dict[int, Any] = field(default_factory=dict, compare=False)
    _groups: dict[int, dict[str, Any]] = field(default_factory=dict, compare=False)
    """Columns ``LAZY`` of row groups in which single parts were looked up."""
    _walked: dict[tuple[int, tuple[str, ...]], dict[str, Any]] = field(
        default_factory=dict, compare=False
    )
    """Columns that walks have read last, by row group and names."""

    def __len__(self) -> int:
        return len(self.b)

    def find(self, path: str) -> int:
        """Return the row of a part; -1 if there is none."""
        folder, slash, name = path.removeprefix(self.data_dir).rpartition("/")
        if not path.startswith(self.data_dir) or (slash and not folder):
            return -1
        at = bisect_left(self.partitions, folder)
        if at == len(self.partitions) or self.partitions[at] != folder:
            return -1
        low, high = self.starts[at], self.starts[at + 1]
        row = bisect_left(_Names(self), name, low, high)
        return row if row < high and self.name(row) == name else -1

    def name(self, row: int) -> str:
        """Return the name of a part: its key without partition."""
        group, place = divmod(row, self.group_rows)
        text: str = self.names(group)[place].as_py()
        return text

    def names(self, group: int) -> Any:  # noqa: ANN401 - pyarrow has no types
        """Return the names of a row group as a pyarrow.StringArray."""
        names = self._names.get(group)
        if names is None:
            names = self._names[group] = self.read_names(group)
        return names

    def partition_of(self, row: int) -> int:
        """Return the index of the row's partition in ``partitions``."""
        return bisect_right(self.starts, row) - 1

    def prefix(self, at: int) -> str:
        """Return the key prefix of the parts of a partition."""
        return f"{self.data_dir}{self.partitions[at]}/" if self.partitions[at] else self.data_dir

    def marker(self, row: int) -> Marker:
        """Return the marker of a row; what its row group holds is kept for further ones."""
        group = row // self.group_rows
        if group not in self._groups:
            self._groups[group] = self.read_rest(group, LAZY)
        return next(self.markers(row, row + 1))

    def markers(self, low: int, high: int, keep: Mask | None = None) -> Iterator[Marker]:
        """Yield the markers of rows of one partition; ``WALKED`` row groups are kept."""
        prefix = self.prefix(self.partition_of(low)) if low < high else ""
        for group, first, start, end in self._pieces(low, high):
            piece = slice(start - first, end - first)
            read = self._columns_of(group, LAZY).items()
            rest = {name: array[piece].to_pylist() for name, array in read}
            columns = (self.b, self.t, self.tmb, self.n, self.q)
            numbers = zip(*(c[start:end].tolist() for c in columns), strict=True)
            names = self._names_of(group)[piece].to_pylist()
            for row, (name, values) in enumerate(zip(names, numbers, strict=True), start):
                if keep is None or keep[row]:
                    yield _marker(prefix + name, values, rest, row - start)

    def spans(self, low: int, high: int) -> tuple[Ints, Ints, Mask]:
        """Return insertion times and runs of rows; creates no marker.

        Three arrays: times of the first rows, those of the last rows (``Marker.order``), and True
        for a part in a clustered run or a split group.
        """
        begins, ends, runs = [self.t[:0]], [self.t[:0]], [np.empty(0, np.bool_)]
        for group, first, start, end in self._pieces(low, high):
            read = self._columns_of(group, ("o", "o_last", "c"))
            piece = slice(start - first, end - first)
            one, two = (_ints(read[name])[piece] for name in ("o", "o_last"))
            begin = np.where(one == NONE, self.t[start:end], one)
            begins.append(begin)
            ends.append(np.where((one == NONE) | (two == NONE), begin, two))
            runs.append(_filled(read["c"])[piece])
        return np.concatenate(begins), np.concatenate(ends), np.concatenate(runs)

    def orders(self, low: int, high: int, keep: Mask | None = None) -> Counter[Order]:
        """Return how many rows state which sort order; creates no marker."""
        counts: Counter[Order] = Counter()
        for lines in self._extra_lines(low, high, keep):
            stated = Counter(bytes(each.k) for each in _ORDERS.decode(lines))
            for text, count in stated.items():
                counts[parse_order(text)] += count
        return counts

    def writers(self, low: int, high: int, keep: Mask | None = None) -> list[tuple[str, ...]]:
        """Return the writers of each row, none for a row that names none; creates no marker."""
        lines = self._extra_lines(low, high, keep)
        return [each.w for piece in lines for each in _NAMED.decode(piece)]

    def _extra_lines(self, low: int, high: int, keep: Mask | None) -> Iterator[bytes]:
        """Yield the objects of the column ``x``, as a JSON list for each row group."""
        for group, first, start, end in self._pieces(low, high):
            piece = self._columns_of(group, ("x",))["x"][start - first : end - first]
            if keep is not None:
                piece = piece.filter(pa.array(keep[start:end]))
            yield b"[%s]" % b",".join(text or b"{}" for text in piece.to_pylist())

    def _columns_of(self, group: int, names: tuple[str, ...]) -> dict[str, Any]:
        """Return columns of a row group for a walk, which keeps no more than ``WALKED`` reads."""
        if group in self._groups:
            return self._groups[group]
        found = self._walked.get((group, names)) or self._walked.get((group, LAZY))
        return found or self._keep_walked((group, names), self.read_rest(group, names))

    def _names_of(self, group: int) -> Any:  # noqa: ANN401 - as ``names``
        """Return the names of a row group for a walk; as ``_columns_of``."""
        if group in self._names:
            return self._names[group]
        key = group, ("p",)
        found = self._walked.get(key) or self._keep_walked(key, {"p": self.read_names(group)})
        return found["p"]

    def _keep_walked(
        self, key: tuple[int, tuple[str, ...]], columns: dict[str, Any]
    ) -> dict[str, Any]:
        self._walked[key] = columns
        while len(self._walked) > WALKED:
            self._walked.pop(next(iter(self._walked)), None)
        return columns

    def _pieces(self, low: int, high: int) -> Iterator[tuple[int, int, int, int]]:
        """Yield row groups: number, first row, and the rows between ``low`` and ``high``."""
        while low < high:
            group = low // self.group_rows
            first = group * self.group_rows
            end = min(high, first + self.group_rows)
            yield group, first, low, end
            low = end

    def paths(self, keep: Mask | None) -> Iterator[str]:
        """Yield the keys of the parts, in order."""
        for at, (low, high) in enumerate(pairwise(self.starts)):
            prefix = self.prefix(at)
            for group, first, start, end in self._pieces(low, high):
                names = self._names_of(group)[start - first : end - first].to_pylist()
                for row, name in enumerate(names, start):
                    if keep is None or keep[row]:
                        yield prefix + name


def _ints(column: pa.Array) -> Ints:
    """Return the integers of a column without nulls; ``to_numpy`` would import pandas."""
    numbers: Ints = np.frombuffer(column.buffers()[1], np.int64)
    return numbers[column.offset : column.offset + len(column)]


def _filled(column: pa.Array) -> Mask:
    """Return which texts of a column without nulls are not empty."""
    ends = np.frombuffer(column.buffers()[1], np.int32)
    ends = ends[column.offset : column.offset + len(column) + 1]
    filled: Mask = ends[1:] != ends[:-1]
    return filled


class _Names:
    """The names as a sequence of strings, for bisect."""

    def __init__(self, columns: PartColumns) -> None:
        self._columns = columns

    def __len__(self) -> int:
        return len(self._columns)

    def __getitem__(self, row: int) -> str:
        return self._columns.name(row)


def _marker(path: str, numbers: tuple[int, ...], rest: Mapping[str, list[Any]], row: int) -> Marker:
    b, t, tmb, n, q = numbers
    d, first, last = rest["d"][row], rest["o"][row], rest["o_last"][row]
    order = None if first == NONE else first if last == NONE else (first, last)
    marker = Marker(
        path,
        b,
        t,
        None if tmb == NONE else tmb,
        None if n == NONE else n,
        None if q == NONE else q,
        tuple(json.loads(d)) if d else None,
        order,
        msgspec.Raw(rest["s"][row]) if rest["s"][row] else NO_STATS,
        rest["c"][row] or None,
        msgspec.Raw(rest["h"][row]) if rest["h"][row] else NO_STATS,
    )
    extra = _EXTRA.decode(rest["x"][row]) if rest["x"][row] else {}
    if "h" in extra:
        marker = msgspec.structs.replace(marker, h=extra.pop("h"))
    if "g" in extra:
        marker = msgspec.structs.replace(marker, g=_digest(extra.pop("g")))
    if "w" in extra:
        marker = msgspec.structs.replace(marker, w=_WRITERS.decode(extra.pop("w")))
    if "k" in extra:
        marker = msgspec.structs.replace(marker, k=extra.pop("k"))
    return with_unknown(marker, extra) if extra else marker


def _digest(text: msgspec.Raw) -> str | None:
    value = msgspec.json.decode(text)
    return value if isinstance(value, str) else None


class _OnlyWriters(msgspec.Struct):
    w: tuple[str, ...] = ()


_NAMED = msgspec.json.Decoder(list[_OnlyWriters])
_WRITERS = msgspec.json.Decoder(tuple[str, ...])


class _OnlyOrder(msgspec.Struct):
    k: msgspec.Raw = NO_STATS


_ORDERS = msgspec.json.Decoder(list[_OnlyOrder])


class ColumnarParts(PartsView):
    """Rows of a checkpoint, and markers of newer log files that replace or extend them."""

    def __init__(
        self, columns: PartColumns, overlay: Mapping[str, Marker], keep: Mask | None = None
    ) -> None:
        """Create the mapping; takes ownership of ``overlay``, whose markers are final.

        Args:
            columns: of the checkpoint.
            overlay: parts that newer log files name, by path.
            keep: mask of the rows that count; None for all that ``overlay`` does not replace.
        """
        if keep is None and overlay:
            rows = [row for row in map(columns.find, overlay) if row >= 0]
            if rows:
                keep = np.ones(len(columns), dtype=np.bool_)
                keep[rows] = False
        self._columns, self._overlay, self._keep = columns, overlay, keep

    @cached_property
    def _length(self) -> int:
        rows = len(self._columns) if self._keep is None else int(np.count_nonzero(self._keep))
        return rows + len(self._overlay)

    def __len__(self) -> int:
        return self._length

    def _row(self, path: object) -> int:
        row = self._columns.find(path) if isinstance(path, str) else -1
        return row if row >= 0 and (self._keep is None or self._keep[row]) else -1

    def __contains__(self, path: object) -> bool:
        return path in self._overlay or self._row(path) >= 0

    def __getitem__(self, path: str) -> Marker:
        newer = self._overlay.get(path)
        if newer is not None:
            return newer
        row = self._row(path)
        if row < 0:
            raise KeyError(path)
        return self._columns.marker(row)

    def __iter__(self) -> Iterator[str]:
        yield from self._columns.paths(self._keep)
        yield from self._overlay

    def items(self) -> Any:  # noqa: ANN401 - a view that iterates without looking each part up
        """Return path and marker of every part; each iteration creates the markers again."""
        return _Items(self)

    def values(self) -> Any:  # noqa: ANN401 - as above
        """Return the marker of every part; each iteration creates them again."""
        return _Values(self)

    def markers(self) -> Iterator[Marker]:
        """Yield the markers of all parts."""
        for low, high in pairwise(self._columns.starts):
            yield from self._columns.markers(low, high, self._keep)
        yield from self._overlay.values()

    def live(self, past: Past | None) -> PartsView:
        columns, keep = self._columns, self._keep
        alive: Mask = columns.tmb == NONE
        if past is not None:
            early, last = np.array(sorted(past.early), dtype=np.int64), max(past.upto, past.purged)
            born = (columns.t <= past.upto) | np.isin(columns.t, early)
            alive = born & (alive | ((columns.tmb > last) & ~np.isin(columns.tmb, early)))
        if keep is not None:
            alive &= keep
        overlay = {p: m for p, m in self._overlay.items() if is_live(m, past)}
        return ColumnarParts(columns, overlay, None if alive.all() and not overlay else alive)

    def by_partition(self) -> PartitionsView:
        return _Partitions(self._columns, self._overlay, self._keep)

    def deaths(self) -> dict[int, Dead]:
        dead: Mask = self._columns.tmb != NONE
        if self._keep is not None:
            dead &= self._keep
        times, places = np.unique(self._columns.tmb[dead], return_inverse=True)
        counts, sizes = np.bincount(places, minlength=len(times)), np.zeros(len(times), np.int64)
        np.add.at(sizes, places, self._columns.b[dead])
        rows = zip(times.tolist(), counts.tolist(), sizes.tolist(), strict=True)
        return died(self._overlay.values(), {t: Dead(parts, size) for t, parts, size in rows})

    def totals(self) -> Totals:
        columns, keep = self._columns, self._keep
        b, n = (c if keep is None else c[keep] for c in (columns.b, columns.n))
        parts, rows, size = summed(self._overlay.values())
        if rows is not None:
            rows = None if (n == NONE).any() else rows + int(n.sum())
        return Totals(parts + len(b), rows, size + int(b.sum()))


class _Values:
    def __init__(self, parts: ColumnarParts) -> None:
        self._parts = parts

    def __len__(self) -> int:
        return len(self._parts)

    def __iter__(self) -> Iterator[Marker]:
        return self._parts.markers()


class _Items(_Values):
    def __iter__(self) -> Iterator[tuple[str, Marker]]:  # type: ignore[override] # pairs of them
        return ((marker.p, marker) for marker in self._parts.markers())


class _Partitions(PartitionsView):
    """Partitions in the order of their names."""

    def __init__(
        self, columns: PartColumns, overlay: Mapping[str, Marker], keep: Mask | None
    ) -> None:
        self._columns, self._keep = columns, keep
        self._newer: dict[str, list[Marker]] = {}
        for path, marker in overlay.items():
            folder = path.removeprefix(columns.data_dir).rpartition("/")[0]
            self._newer.setdefault(folder, []).append(marker)
        here = [
            name
            for at, name in enumerate(columns.partitions)
            if keep is None or keep[columns.starts[at] : columns.starts[at + 1]].any()
        ]
        self._place = {name: at for at, name in enumerate(columns.partitions)}
        self._names = dict.fromkeys(sorted({*here, *self._newer}) if self._newer else here)

    def __len__(self) -> int:
        return len(self._names)

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __contains__(self, partition: object) -> bool:
        return partition in self._names

    def _rows(self, partition: str) -> tuple[int, int]:
        at = self._place.get(partition)
        return (0, 0) if at is None else (self._columns.starts[at], self._columns.starts[at + 1])

    def __getitem__(self, partition: str) -> list[Marker]:
        if partition not in self._names:
            raise KeyError(partition)
        low, high = self._rows(partition)
        markers = list(self._columns.markers(low, high, self._keep))
        return markers + self._newer.get(partition, [])

    def figures(self) -> Iterator[Figures]:
        for name in self._names:
            low, high = self._rows(name)
            kept = slice(None) if self._keep is None else self._keep[low:high]
            newer = self._newer.get(name, [])
            sizes = self._columns.b[low:high][kept].tolist() + [m.b for m in newer]
            rows = self._columns.n[low:high][kept].tolist()
            counts = [None if n == NONE else n for n in rows]
            yield Figures(name, sizes, counts + [m.n for m in newer])

    def numbers(self, partition: str) -> Numbers:
        columns, newer = self._columns, self._newer.get(partition, [])
        low, high = self._rows(partition)
        kept = slice(None) if self._keep is None else self._keep[low:high]
        first, last, in_run = columns.spans(low, high)
        first, last = first[kept], last[kept]
        arrays = [c[low:high][kept] for c in (columns.b, columns.n, columns.t, columns.q)]
        sizes, rows, times, sequences = arrays
        if newer:
            spans = [m.order() for m in newer]
            sizes = _longer(sizes, (m.b for m in newer))
            rows = _longer(rows, (m.n for m in newer))
            times = _longer(times, (m.t for m in newer))
            sequences = _longer(sequences, (m.q for m in newer))
            first = _longer(first, (begin for begin, _ in spans))
            last = _longer(last, (end for _, end in spans))
        in_runs = bool(in_run.any()) or any(m.c is not None for m in newer)
        return Numbers(sizes, rows, times, sequences, first, last, in_runs)

    def orders(self) -> Iterator[tuple[str, Counter[Order]]]:
        for name in self._names:
            low, high = self._rows(name)
            counts = self._columns.orders(low, high, self._keep)
            counts.update(marker.sorted_by() for marker in self._newer.get(name, []))
            yield name, counts

    def writers(self) -> Iterator[tuple[str, Sequence[tuple[str, ...]]]]:
        for name in self._names:
            found = self._columns.writers(*self._rows(name), self._keep)
            yield name, found + [marker.w or () for marker in self._newer.get(name, [])]


def _longer(numbers: Ints, more: Iterable[int | None]) -> Ints:
    """Return an array with further numbers at its end.

    Raises OverflowError: one of them is no number of 64 bits.
    """
    added = np.array([NONE if each is None else each for each in more], np.int64)
    return np.concatenate([numbers, added])
