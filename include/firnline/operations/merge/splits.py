"""Large groups are merged by several tasks: which groups, and how plans see their outputs.

A group above ``merge.split_above`` is cut into slices: key ranges of the leading column of its
order, or of several columns of a z-order. Each task reads what its slice needs and writes its own
outputs.

The outputs of a clustered group are a run, as always. Those of a sorted group, which would be one
part, name a run of their own: in plans its parts count as one of their size, or else a group that
became several parts would be merged again at once.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import attrgetter

from firnline.log.records import Marker
from firnline.operations.groups import SPLIT_MARK
from firnline.settings.load import TableSettings
from firnline.types.schema import normalise
from firnline.types.sql import fold_name
from firnline.types.values import WITHOUT_BOUNDS, bound_key

MOST_TASKS = 64
"""Maximum tasks of one group."""


def slicing_columns(settings: TableSettings, schema: Mapping[str, str]) -> tuple[str, ...]:
    """Return the columns by whose values a group may be cut; none if it cannot be.

    Of a z-order all of them, else the leading one. Rows of one primary key have to be in one slice,
    and a query may look at all rows of its group. Hashes have no bounds in footers.
    """
    cluster = settings.cluster_by
    if settings.merge.sql is not None or (cluster is not None and cluster.method == "hash"):
        return ()
    order = [key.column for key in settings.sort_by] if cluster is None else cluster.columns
    leading = order if cluster is not None and cluster.method == "zorder" else order[:1]
    key = {fold_name(name) for name in settings.primary_key}
    return tuple(
        column
        for column in leading
        if (not key or fold_name(column) in key) and _has_bounds(schema.get(column))
    )


def _has_bounds(kind: str | None) -> bool:
    """Return True for the type of a column that has bounds in footers."""
    if kind is None:
        return False
    return bound_key(normalise(kind)) is not None and normalise(kind) not in WITHOUT_BOUNDS


def slices_of(settings: TableSettings, parts: Sequence[Marker]) -> int:
    """Return the number of slices of a group by its bytes; 1 if it is not above the limit."""
    if len(parts) < 2:
        return 1
    size = sum(m.b for m in parts)
    return min(MOST_TASKS, -(-size // settings.merge.split_bytes)) or 1


def name_of(marker: Marker) -> str:
    """Return the run of a part of a split group, and the key of any other part."""
    return marker.c if marker.c is not None and marker.c.startswith(f"{SPLIT_MARK}-") else marker.p


def count(parts: Iterable[Marker]) -> int:
    """Return the number of parts, those of one split group counted as one."""
    return len({name_of(m) for m in parts})


def together(parts: Sequence[Marker]) -> list[list[Marker]]:
    """Return the parts, those of one split group in one list, by their keys."""
    if all(m.c is None for m in parts):
        return [[m] for m in parts]  # the usual case, and there may be a million parts
    by_run: dict[str, list[Marker]] = defaultdict(list)
    for marker in sorted(parts, key=attrgetter("p")):
        by_run[name_of(marker)].append(marker)
    return list(by_run.values())


def sizes_of_runs(parts: Sequence[Marker], size: Callable[[Marker], int]) -> dict[str | None, int]:
    """Return the size of each split group by its run."""
    sizes: dict[str | None, int] = defaultdict(int)
    for marker in parts:
        if marker.c is not None and name_of(marker) == marker.c:
            sizes[marker.c] += size(marker)
    return sizes
