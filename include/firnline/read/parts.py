"""Which live parts of a table can hold a wanted row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase

from firnline.errors import UsageError
from firnline.log.records import Marker
from firnline.parquet.partition import span_of
from firnline.predicate.pruning import Pruner
from firnline.settings.load import TableSettings
from firnline.state.snapshot import Snapshot
from firnline.types.calendar import timestamp_text
from firnline.types.schema import normalise
from firnline.types.values import Stats

_TIMES = {"TIMESTAMP": "", "TIMESTAMP WITH TIME ZONE": "Z"}
"""Types of partition columns whose bounds follow from a directory's name -> end of their text."""


def choose(snapshot: Snapshot, globs: Sequence[str]) -> tuple[Mapping[str, list[Marker]], int, int]:
    """Live parts of the partitions asked for; number and bytes of the others."""
    every = snapshot.partitions
    if not globs:
        return every, 0, 0
    for glob in globs:
        if not any(fnmatchcase(name, glob) for name in every):
            some = ", ".join(list(every)[:5]) or "none"
            raise UsageError(
                f"no partition of the table matches {glob!r}",
                next_step=f"see `firnline parts`; the first partitions are: {some}",
            )
    chosen = {n: parts for n, parts in every.items() if any(fnmatchcase(n, g) for g in globs)}
    left = [m for n, parts in every.items() if n not in chosen for m in parts]
    return chosen, len(left), sum(m.b for m in left)


class Wanted:
    """Whether a part can hold a row that is wanted."""

    def __init__(self, settings: TableSettings, snapshot: Snapshot, pruner: Pruner | None) -> None:
        self._settings = settings
        self._snapshot = snapshot
        self._pruner = pruner
        self._named: dict[str, Stats] = {}

    def __call__(self, partition: str, marker: Marker) -> bool:
        if self._pruner is None:
            return True
        if partition not in self._named:
            self._named[partition] = _by_name(partition, self._settings, self._snapshot.schema)
        stats = self._snapshot.stats_of(marker)
        return not self._pruner.matches_nothing({**self._named[partition], **stats})


def _by_name(partition: str, settings: TableSettings, schema: Mapping[str, str]) -> Stats:
    """Bounds that follow from a directory's name, for parts without statistics of their own."""
    stats: Stats = {}
    for column, (start, end) in (span_of(partition, settings.partition_by) or {}).items():
        zone = _TIMES.get(normalise(schema.get(column, "")))
        if zone is None:
            continue
        low, high = (timestamp_text(us) + zone for us in (start * 1000, end * 1000 - 1))
        stats[column] = (low, high, 0)
    return stats
