"""Any sequence of appends, replaces, deletes and merges against a plain list of rows."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from firnline.appends.append import Appender
from firnline.log.txn_file import RunIdentity
from firnline.operations.delete.run import run_delete
from firnline.operations.merge.run import run_merge
from firnline.operations.operation import Work
from firnline.operations.options import DeleteOptions, MergeOptions, ReplaceOptions
from firnline.operations.replace.run import run_replace
from firnline.state.history import history
from tests.support.effort import examples
from tests.support.log_tables import snapshot, v1_live
from tests.support.reading import stored_ids, visible_ids
from tests.support.scenarios import Sequential
from tests.support.world import World, make_world

RUN = RunIdentity(run_id="r")
SPAN, CLIENTS = 8, 2
COLUMNS = {"id": pa.int64(), "n": pa.int64(), "c": pa.int64()}
Row = tuple[int, int | None, int]
Act = Callable[["Model"], None]


@dataclass
class Model:
    """A table, and the rows that it must show: (id, time or null, client)."""

    world: World
    scratch: Path
    rows: list[Row] = field(default_factory=list)
    ids: int = 0

    def new(self, places: list[tuple[int | None, int]]) -> list[Row]:
        found = [(self.ids + i, n, c) for i, (n, c) in enumerate(places)]
        self.ids += len(found)
        return found

    def engine(self) -> Sequential:
        return Sequential(self.world.table, self.scratch)


def arrow(rows: list[Row]) -> pa.Table:
    columns = zip(*rows, strict=True) if rows else ((), (), ())
    return pa.table(
        {
            name: pa.array(list(values), kind)
            for (name, kind), values in zip(COLUMNS.items(), columns, strict=True)
        }
    )


@dataclass(frozen=True)
class Append:
    places: list[tuple[int | None, int]]
    beside: Any = None
    """What somebody else does between its beginning and its end."""

    def __call__(self, model: Model) -> None:
        mine = model.new(self.places)

        def batches() -> Iterator[pa.RecordBatch]:
            yield from arrow(mine).to_batches()
            if self.beside is not None:
                self.beside(model)

        model.world.clock.advance(10)
        Appender(model.world.table).append(batches())
        # An append that began before is covered by what commits beside it.
        gone = self.beside.hides if isinstance(self.beside, Replace | Delete) else lambda _: False
        model.rows += [row for row in mine if not gone(row)]


@dataclass(frozen=True)
class Replace:
    start: int
    length: int
    client: int | None
    places: list[int]
    """Of the new rows, counted from the start of the interval."""
    mode: str
    beside: Any = None

    def hides(self, row: Row) -> bool:
        _, n, c = row
        inside = n is not None and self.start <= n < self.start + self.length
        return inside and self.client in (None, c)

    def __call__(self, model: Model) -> None:
        places = [
            (self.start + place % self.length, 0 if self.client is None else self.client)
            for place in self.places
        ]
        mine = model.new(list(places))

        def batches() -> Iterator[pa.RecordBatch]:
            yield from arrow(mine).to_batches()
            if self.beside is not None:
                self.beside(model)

        options = ReplaceOptions(
            column="n",
            start=self.start,
            end=self.start + self.length,
            equal={} if self.client is None else {"c": self.client},
            nothing=not mine,
            mode=self.mode,  # type: ignore[arg-type] # eager or lazy
        )
        data = batches() if mine else None
        run_replace(Work(model.world.table, RUN, model.engine), options, data=data)
        model.rows = [row for row in model.rows if not self.hides(row)] + mine


@dataclass(frozen=True)
class Delete:
    below: int

    def hides(self, row: Row) -> bool:
        return row[1] is not None and row[1] < self.below

    def __call__(self, model: Model) -> None:
        options = DeleteOptions(where=f"n < {self.below}", mode="lazy")
        run_delete(Work(model.world.table, RUN, model.engine), options)
        model.rows = [row for row in model.rows if not self.hides(row)]


@dataclass(frozen=True)
class Merge:
    def __call__(self, model: Model) -> None:
        run_merge(Work(model.world.table, RUN, model.engine), MergeOptions())


TIMES = st.none() | st.integers(0, SPAN - 1)
PLACES = st.lists(st.tuples(TIMES, st.integers(0, CLIENTS - 1)), min_size=1, max_size=4)
DELETES, MERGES = st.builds(Delete, st.integers(0, 3)), st.builds(Merge)


def replaces(beside: st.SearchStrategy[Any]) -> st.SearchStrategy[Replace]:
    return st.builds(
        Replace,
        start=st.integers(0, SPAN - 1),
        length=st.integers(1, 5),
        client=st.none() | st.integers(0, CLIENTS - 1),
        places=st.lists(st.integers(0, 9), max_size=3),
        mode=st.sampled_from(["eager", "lazy"]),
        beside=beside,
    )


ALONE = replaces(st.none())
ACTS = st.one_of(
    st.builds(Append, PLACES, st.none() | ALONE | DELETES),
    replaces(st.none() | st.one_of(ALONE, MERGES, DELETES, st.builds(Append, PLACES))),
    DELETES,
    MERGES,
)


@examples(15, 300)
@given(st.lists(ACTS, min_size=2, max_size=7), st.booleans())
def test_the_table_shows_what_a_list_of_rows_would(acts: list[Act], partitioned: bool) -> None:
    levels = ["c"] if partitioned else []
    world = make_world(sort_by=["n"], partition_by=levels, merge={"min_inputs": 2})
    with tempfile.TemporaryDirectory() as folder:
        model = Model(world, Path(folder))
        Append([(0, 0), (None, 1)])(model)
        for act in acts:
            act(model)
            assert sorted(visible_ids(world.table).elements()) == sorted(r[0] for r in model.rows)
        Merge()(model)
    shown = sorted(row[0] for row in model.rows)
    assert sorted(visible_ids(world.table).elements()) == shown
    if not pending(world):
        assert sorted(stored_ids(world.table).elements()) == shown
        assert v1_live(world) == set(snapshot(world).live)
    for header in history(world.table):
        counts = header.counts
        assert counts.rows_in + counts.rows_added == counts.rows_out + counts.rows_deleted


def pending(world: World) -> bool:
    state = snapshot(world)
    return any(
        state.pending_deletes(marker, partition)
        for partition, markers in state.partitions.items()
        for marker in markers
    )
