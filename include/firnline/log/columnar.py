"""The parts of a checkpoint, and the changes of newer log files on top of them, as a mapping."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np

from firnline.log.part_columns import NONE, Mask, PartColumns
from firnline.log.parts_view import Figures, PartitionsView, PartsView, Totals, summed
from firnline.log.records import Marker
from firnline.log.union import Past, is_live


class ColumnarParts(PartsView):
    """Rows of a checkpoint, and markers of newer log files in their place or beside them."""

    def __init__(
        self, columns: PartColumns, overlay: Mapping[str, Marker], keep: Mask | None = None
    ) -> None:
        """Take over ``overlay``, whose markers are final.

        Args:
            columns: of the checkpoint.
            overlay: parts that newer log files name, by path.
            keep: which rows count; None for all that ``overlay`` does not replace.
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
        found = self._overlay.get(path)
        if found is not None:
            return found
        row = self._row(path)
        if row < 0:
            raise KeyError(path)
        return next(self._columns.markers(row, row + 1))

    def __iter__(self) -> Iterator[str]:
        yield from self._columns.paths(self._keep)
        yield from self._overlay

    def items(self) -> Any:  # noqa: ANN401 - a view that iterates without looking each part up
        """Path and marker of every part; each iteration makes the markers anew."""
        return _Items(self)

    def values(self) -> Any:  # noqa: ANN401 - as above
        """Marker of every part; each iteration makes them anew."""
        return _Values(self)

    def markers(self) -> Iterator[Marker]:
        """Every part's."""
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
    """Partitions in order of their names."""

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
        found = list(self._columns.markers(low, high, self._keep))
        return found + self._newer.get(partition, [])

    def figures(self) -> Iterator[Figures]:
        for name in self._names:
            low, high = self._rows(name)
            kept = slice(None) if self._keep is None else self._keep[low:high]
            newer = self._newer.get(name, [])
            sizes = self._columns.b[low:high][kept].tolist() + [m.b for m in newer]
            rows = self._columns.n[low:high][kept].tolist()
            known = [None if n == NONE else n for n in rows]
            yield Figures(name, sizes, known + [m.n for m in newer])
