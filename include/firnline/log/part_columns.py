"""The parts of a checkpoint as columns.

Numbers are arrays. Names, and what only a marker needs, stay compressed until one of their row
group is asked for: a state is known, counted and summed without them. A million parts take about
40 MB here, 100 MB with all names, and 600 MB as markers.
"""

from __future__ import annotations

import json
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from firnline.log.records import NO_STATS, Marker, with_unknown

Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
NONE = -1
"""In a column of integers: the marker does not say. Sizes, times and numbers are never negative."""
LAZY = ("d", "o", "o_last", "s", "c", "x")
"""Columns that only a marker needs."""


@dataclass(frozen=True)
class PartColumns:
    """Every part of a checkpoint, sorted by partition and name."""

    data_dir: str
    """Key prefix of the table's parts, ending in ``/``."""
    partitions: list[str]
    starts: list[int]
    """First row of each partition, and behind the last one the number of rows."""
    b: Ints
    t: Ints
    tmb: Ints
    n: Ints
    q: Ints
    group_rows: int
    """Rows of a row group; the last one may have fewer."""
    read_names: Callable[[int], Any]
    """Row group -> pyarrow.StringArray: what follows the partition in the parts' keys."""
    read_rest: Callable[[int], dict[str, Any]]
    """Row group -> its columns ``LAZY``, pyarrow arrays."""
    _names: dict[int, Any] = field(default_factory=dict, compare=False)
    _groups: dict[int, dict[str, Any]] = field(default_factory=dict, compare=False)

    def __len__(self) -> int:
        return len(self.b)

    def find(self, path: str) -> int:
        """Row of a part; -1 when it has none."""
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
        """What follows the partition in the key of a part."""
        group, place = divmod(row, self.group_rows)
        text: str = self.names(group)[place].as_py()
        return text

    def names(self, group: int) -> Any:  # noqa: ANN401 - pyarrow has no types
        """pyarrow.StringArray of a row group."""
        found = self._names.get(group)
        if found is None:
            found = self._names[group] = self.read_names(group)
        return found

    def partition_of(self, row: int) -> int:
        """Position of the row's partition among ``partitions``."""
        return bisect_right(self.starts, row) - 1

    def prefix(self, at: int) -> str:
        """Key prefix of the parts of a partition."""
        return f"{self.data_dir}{self.partitions[at]}/" if self.partitions[at] else self.data_dir

    def markers(self, low: int, high: int, keep: Mask | None = None) -> Iterator[Marker]:
        """Markers of some rows of one partition."""
        prefix = self.prefix(self.partition_of(low)) if low < high else ""
        for group, first, start, end in self._pieces(low, high):
            piece = slice(start - first, end - first)
            rest = {name: array[piece].to_pylist() for name, array in self._group(group).items()}
            columns = (self.b, self.t, self.tmb, self.n, self.q)
            numbers = zip(*(c[start:end].tolist() for c in columns), strict=True)
            names = self.names(group)[piece].to_pylist()
            for row, (name, values) in enumerate(zip(names, numbers, strict=True), start):
                if keep is None or keep[row]:
                    yield _marker(prefix + name, values, rest, row - start)

    def _pieces(self, low: int, high: int) -> Iterator[tuple[int, int, int, int]]:
        """Row group, its first row, and the rows of it between ``low`` and ``high``."""
        while low < high:
            group = low // self.group_rows
            first = group * self.group_rows
            end = min(high, first + self.group_rows)
            yield group, first, low, end
            low = end

    def paths(self, keep: Mask | None) -> Iterator[str]:
        """Keys of the parts, in order."""
        for at, (low, high) in enumerate(pairwise(self.starts)):
            prefix = self.prefix(at)
            for group, first, start, end in self._pieces(low, high):
                names = self.names(group)[start - first : end - first].to_pylist()
                for row, name in enumerate(names, start):
                    if keep is None or keep[row]:
                        yield prefix + name

    def _group(self, group: int) -> dict[str, Any]:
        found = self._groups.get(group)
        if found is None:
            found = self._groups[group] = self.read_rest(group)
        return found


class _Names:
    """The names as a sequence of texts, for bisect."""

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
    )
    extra = rest["x"][row]
    return with_unknown(marker, _EXTRA.decode(extra)) if extra else marker


_EXTRA = msgspec.json.Decoder(dict[str, msgspec.Raw])
