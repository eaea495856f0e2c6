"""Plan the vectors of the next version, and the parts that are looked through for them.

A vector is made of the deletes that may hide rows of its part; parts never change, so it holds as
long as these are the same.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from firnline.commit.base import Base
from firnline.log.records import Marker
from firnline.mirror.changes import Difference
from firnline.mirror.delta import columns
from firnline.mirror.delta.replay import Shown
from firnline.mirror.delta.vectors import Collected, Vector, Vectors
from firnline.mirror.hold import Hiding, Hold, find_hold
from firnline.paths import Root, is_plain
from firnline.state.snapshot import Snapshot

if TYPE_CHECKING:
    from collections.abc import Sequence

    from firnline.read.hidden import Rows
    from firnline.table import Table

MEMORY = 2**30
"""Bytes of DuckDB's buffers while parts are looked through; it spills beyond."""
NOT_FOUND = ", whose paths have characters by which Polars does not find deletion vectors"
"""The reason why some parts cannot have one. Polars compares the path of a part with that of its
vector, one of them URL-encoded, and would show the deleted rows."""


def hold_of(base: Base, hiding: Sequence[Hiding]) -> Hold | None:
    """Return why a state cannot be mirrored, by the settings; None if it can.

    Args:
        base: the table.
        hiding: its parts of which deletes may hide rows.
    """
    delta = base.table.settings.delta
    if delta is None or delta.deletes == "wait":
        return find_hold(base.snapshot, columns.reads_narrower, hiding)
    root = Root.parse(base.table.settings.root)
    plain = is_plain(f"{root.bucket}/{root.prefix}")
    unfound = [each for each in hiding if not (plain and is_plain(each.marker.p))]
    return find_hold(base.snapshot, columns.reads_narrower, unfound, why=NOT_FOUND)


def wrongly_hidden(
    snapshot: Snapshot, hiding: Iterable[Hiding], shown: Shown, index: Vectors | None
) -> list[str]:
    """Return the keys of live parts of which the mirror does not hide what deletes hide.

    Args:
        snapshot: the state.
        hiding: its parts of which deletes may hide rows.
        shown: what the mirror shows.
        index: of its newest version; None for one without vectors.
    """
    vectors = index or {}
    deletes_of = {snapshot.paths.delta_path(each.marker.p): each.ids for each in hiding}
    wrong: list[str] = []
    for path in shown.files & (deletes_of.keys() | vectors.keys() | shown.vectors.keys()):
        vector, actual = vectors.get(path), shown.vectors.get(path)
        deletes = () if vector is None else vector.deletes
        same = _action(vector) == _action(actual)
        if not same or deletes != deletes_of.get(path, ()):
            wrong.append(snapshot.paths.delta_key(path))
    return sorted(key for key in wrong if key in snapshot.live)


@dataclass(frozen=True, slots=True)
class Making:
    """A part whose vector is to be made."""

    path: str
    """As the mirror spells it."""
    hiding: Hiding
    whole: bool
    """Statistics prove that one of the deletes hides every row."""

    @property
    def ids(self) -> tuple[str, ...]:
        """Ids of its deletes."""
        return self.hiding.ids


@dataclass(frozen=True, slots=True)
class HiddenPlan:
    """The vectors of a version: what stays, what is made, and what goes."""

    old: Vectors = field(default_factory=dict)
    """Of the version before."""
    kept: Vectors = field(default_factory=dict)
    """Those of ``old`` that hold on."""
    make: tuple[Making, ...] = ()
    stays: Mapping[str, Marker] = field(default_factory=dict)
    """Parts, by path, that both versions show and whose vector is another or none now."""

    @property
    def changed(self) -> bool:
        """Return True if the index of the version before does not hold on."""
        return bool(self.make) or len(self.kept) != len(self.old)

    def changed_files(self, vectors: Vectors) -> list[Marker]:
        """Return the parts that both versions show with other hidden rows.

        Args:
            vectors: of the version.
        """
        return [
            marker
            for path, marker in self.stays.items()
            if _action(self.old.get(path)) != _action(vectors.get(path))
        ]


NOTHING_HIDDEN = HiddenPlan()


def _action(vector: Vector | None) -> object:
    return None if vector is None else vector.action()


def plan_hidden_rows(
    snapshot: Snapshot, hiding: Sequence[Hiding], old: Vectors, difference: Difference
) -> HiddenPlan:
    """Return what becomes of the vectors.

    Args:
        snapshot: the newest state.
        hiding: its parts of which deletes may hide rows.
        old: vectors of the version before.
        difference: the files that come and go.
    """
    if not hiding and not old:
        return NOTHING_HIDDEN
    paths = snapshot.paths
    comes = {marker.p for marker in difference.adds}
    kept: dict[str, Vector] = {}
    make: list[Making] = []
    stays: dict[str, Marker] = {}
    for each in hiding:
        marker = each.marker
        path = paths.delta_path(marker.p)
        vector = old.get(path)
        if vector is not None and vector.deletes == each.ids and marker.p not in comes:
            kept[path] = vector
            continue
        whole = marker.n is not None and snapshot.hidden_whole(marker, each.deletes)
        make.append(Making(path, each, whole))
        if marker.p not in comes:
            stays[path] = marker
    for path in old.keys() - kept.keys() - stays.keys():
        live = snapshot.live.get(paths.delta_key(path))
        if live is not None and live.p not in comes:
            stays[path] = live
    return HiddenPlan(old, kept, tuple(make), dict(sorted(stays.items())))


Look = Callable[[Base, "Sequence[Hiding]"], Iterator[tuple[str, "Rows", int | None]]]
"""Finds the rows that deletes hide: key of each part, their numbers, ascending from 0, and the
number of all rows where the marker does not state it."""


def look_through(
    base: Base,
    plan: HiddenPlan,
    made: Collected,
    look: Look,
    progress: Callable[[int, int], object] = lambda *_: None,
) -> None:
    """Make the vectors that are not known yet. Requests: those of ``look``.

    Args:
        base: the table that the plan was made on.
        plan: of the version.
        made: takes them.
        look: finds rows.
        progress: called with the number of parts that are done, and of all.
    """
    missing = {each.path: each for each in plan.make if not made.has(each.path, each.ids)}
    if not missing:
        return
    import numpy as np

    done = 0
    for each in missing.values():
        if each.whole:
            rows = np.arange(each.hiding.marker.n or 0, dtype=np.int64)
            made.add(each.path, each.ids, rows, None)
            done += 1
            progress(done, len(missing))
    left = [each.hiding for each in missing.values() if not each.whole]
    paths = base.snapshot.paths
    for key, rows, count in look(base, left) if left else ():
        path = paths.delta_path(key)
        made.add(path, missing[path].ids, rows, count)
        done += 1
        progress(done, len(missing))


def in_parts(base: Base, hiding: Sequence[Hiding]) -> Iterator[tuple[str, Rows, int | None]]:
    """Find the hidden rows by reading the columns of the deletes' conditions (``Look``).

    Requests, memory and errors: those of ``read.hidden.hidden_rows``.
    """
    from firnline.read.duckdb import Limits
    from firnline.read.hidden import hidden_rows
    from firnline.read.plan import plan_hidden

    table: Table = base.table
    task = plan_hidden(base.snapshot, [(each.partition, each.marker) for each in hiding])
    uncounted = {each.marker.p for each in hiding if each.marker.n is None}
    with tempfile.TemporaryDirectory(prefix="firnline-mirror-") as folder:
        limits = Limits(memory=MEMORY, threads=os.cpu_count() or 1, spill=Path(folder))
        for part, rows, count in hidden_rows(task, table.store, limits, uncounted):
            yield part.key, rows, count
