"""The metadata of a mirror in an Iceberg catalog: publishers, a sweep, readers and a certificate.

A small model of its own. A snapshot is a number in the catalog and a file of metadata, which may
state bounds of the rows of that state. Stands for ``mirror.iceberg.commit``, ``produce``, ``sweep``
and ``erasure``. A publisher asks whether it is in time and writes in one step: one that is stopped
right between the two is beyond what the product promises.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

GRACE = 2
"""Ticks of a reader, by the properties of the table."""
OF_SETTINGS = 1
"""Ticks of a reader, by the settings of the process that publishes."""
IN_TIME = 1
"""Ticks after which a publisher writes nothing any more."""
TICKS = 3

SETTINGS = "metadata goes by the grace of the settings"
BOUNDS_STAY = "the record of a file that goes states its bounds"
OLD_STAY = "an erase leaves the snapshots of before it"
WHENEVER = "who stood still writes metadata all the same"
MISREAD = "snapshots stay that would be read wrongly"


class File(NamedTuple):
    """A file of metadata."""

    number: int
    """The snapshot that leads to it."""
    at: int
    bounds: bool
    """It states bounds of the row that is erased."""


class Snapshot(NamedTuple):
    """A snapshot in the catalog."""

    number: int
    at: int
    erased: bool
    """It shows a state of after the erase."""
    column: int
    """Id of the column that is called ``a`` in it."""


class Publisher(NamedTuple):
    """A process that publishes one snapshot after the other."""

    at: str = "begin"
    began: int = 0
    head: int = 0
    erased: bool = False
    column: int = 1
    file: int = 0


class State(NamedTuple):
    """Table, catalog, files, and who works on them."""

    tick: int
    erased: bool
    column: int
    snapshots: tuple[Snapshot, ...]
    files: tuple[File, ...]
    former: tuple[tuple[int, int], ...]
    """Number of each snapshot that was the newest one, and since when."""
    publisher: Publisher
    reader: tuple[int, int]
    """Snapshot that it reads, and when it began; (0, 0): none yet, (-1, 0): its grace is over."""
    complete: bool


class Metadata:
    """The model (``search.Model``)."""

    def __init__(self, off: frozenset[str] = frozenset()) -> None:
        self._off = off

    def start(self) -> State:
        """Return a table with one snapshot, which states bounds of the row to erase."""
        return State(
            0, False, 1, (Snapshot(1, 0, False, 1),), (File(1, 0, True),), ((1, 0),),
            Publisher(), (0, 0), False,
        )  # fmt: skip

    def successors(self, state: State) -> Iterator[tuple[str, State]]:
        """Yield what may happen next."""
        if not state.erased:
            yield "an erase commits", state._replace(erased=True)
        if state.column == 1:
            yield "column a goes, and another one is called a", state._replace(column=2)
        if state.reader == (0, 0):
            newest = state.snapshots[-1].number
            yield (
                f"a reader begins with snapshot {newest}",
                state._replace(reader=(newest, state.tick)),
            )
        yield from self._publish(state)
        yield from self._publish_at_once(state)
        swept = self._swept(state, OF_SETTINGS if SETTINGS in self._off else GRACE)
        if swept != state:
            yield "a sweep deletes metadata that nothing leads to", swept
        yield from self._certificate(state)
        if state.tick < TICKS:
            tick, (number, began) = state.tick + 1, state.reader
            reads = number > 0 and tick - began < GRACE
            reader = state.reader if reads or not number else (-1, 0)
            yield "a day passes", state._replace(tick=tick, reader=reader)

    def _publish(self, state: State) -> Iterator[tuple[str, State]]:
        p, newest = state.publisher, state.snapshots[-1]
        late = state.tick - p.began >= IN_TIME
        if p.at == "begin" and (newest.erased, newest.column) != (state.erased, state.column):
            ready = Publisher("write", state.tick, newest.number, state.erased, state.column)
            yield "a publisher reads the table", state._replace(publisher=ready)
        elif p.at == "write" and (not late or WHENEVER in self._off):
            number = 1 + max(f.number for f in state.files)
            goes = p.erased and not newest.erased and BOUNDS_STAY in self._off
            file = File(number, state.tick, not p.erased or goes)
            written = state._replace(files=(*state.files, file))
            yield (
                f"the publisher writes metadata of snapshot {number}",
                written._replace(publisher=p._replace(at="commit", file=number)),
            )
        elif p.at == "commit" and not late and newest.number == p.head:
            yield f"the publisher commits snapshot {p.file}", self._committed(state)
        elif p.at in ("write", "commit"):
            yield "the publisher gives up", state._replace(publisher=Publisher())

    def _publish_at_once(self, state: State) -> Iterator[tuple[str, State]]:
        """Another publisher, which does not stop between its requests."""
        newest = state.snapshots[-1]
        if (newest.erased, newest.column) == (state.erased, state.column):
            return
        number = 1 + max(f.number for f in state.files)
        goes = state.erased and not newest.erased and BOUNDS_STAY in self._off
        file = File(number, state.tick, not state.erased or goes)
        other = Publisher("commit", state.tick, 0, state.erased, state.column, number)
        written = state._replace(files=(*state.files, file), publisher=other)
        after = self._committed(written)._replace(publisher=state.publisher)
        yield f"another publisher writes and commits snapshot {number}", after

    def _committed(self, state: State) -> State:
        """Add the snapshot, and take out those that are over or would be read wrongly."""
        p, tick = state.publisher, state.tick
        kept = [
            s
            for s, after in zip(state.snapshots, (*state.snapshots[1:], None), strict=True)
            if (after is None or after.at > tick - GRACE)
            and (s.column == p.column or MISREAD in self._off)
        ]
        return state._replace(
            snapshots=(*kept, Snapshot(p.file, tick, p.erased, p.column)),
            former=(*state.former, (p.file, tick)),
            publisher=Publisher(),
        )

    def _swept(self, state: State, grace: int) -> State:
        limit = state.tick - grace
        before = [(at, number) for number, at in state.former if at <= limit]
        then = max(before)[1] if before else 0
        used = {s.number for s in state.snapshots} | {then}
        return state._replace(
            files=tuple(f for f in state.files if f.number in used or f.at > limit)
        )

    def _certificate(self, state: State) -> Iterator[tuple[str, State]]:
        """Stands for ``mirror.iceberg.erasure.clear``."""
        shown = [s for s in state.snapshots if s.erased]
        if not state.erased or state.complete or not shown or shown[0].at > state.tick - GRACE:
            return
        kept = shown if OLD_STAY not in self._off else [*state.snapshots]
        swept = self._swept(state._replace(snapshots=tuple(kept)), GRACE)
        used = {s.number for s in kept}
        # The one that was the newest a grace ago shows the erase by now.
        if all(f.number in used or f.at <= state.tick - GRACE for f in swept.files):
            yield "the certificate is complete", swept._replace(complete=True)

    def wrong(self, state: State) -> str | None:
        """Return what is broken."""
        there = {f.number for f in state.files}
        number, _ = state.reader
        if (number > 0 and number not in there) or any(
            s.number not in there for s in state.snapshots
        ):
            return "a snapshot leads to metadata that is gone"
        if any(s.column != state.snapshots[-1].column for s in state.snapshots):
            return "a snapshot reads a column as another"
        if state.complete and any(f.bounds for f in state.files):
            return "metadata states bounds of erased rows"
        return None
