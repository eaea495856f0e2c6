"""Any sequence of appends, changes of columns, deletes and merges against a plain list of rows."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

import firnline
from firnline.commit.fold import delete_is_over
from firnline.operations.delete.run import run_delete
from firnline.operations.operation import Work
from firnline.operations.options import DeleteOptions
from firnline.state.snapshot import read_snapshot
from tests.support.cleanups import clean_up
from tests.support.effort import examples
from tests.support.evolving import (
    DAY,
    RUN,
    at_once,
    columns_in_parts,
    engine,
    lazily,
    merged,
    put,
    rows_are,
    schema_of,
)
from tests.support.visible import tally
from tests.support.world import World, make_world

NAMES = ("a", "b", "c", "d")
KINDS = {"INTEGER": pa.int32(), "BIGINT": pa.int64(), "FLOAT": pa.float32(), "DOUBLE": pa.float64()}
WIDER = {"INTEGER": "BIGINT", "FLOAT": "DOUBLE"}
Row = dict[str, Any]


@dataclass
class Model:
    """A table, the columns that it must have and the rows that it must show."""

    world: World
    scratch: Path
    columns: dict[str, str] = field(default_factory=dict)
    """Beside ``id``: column -> type."""
    rows: list[Row] = field(default_factory=list)
    ids: int = 0
    named: set[str] = field(default_factory=set)
    """Columns that a delete record speaks of: their names stay."""

    def append(self, pick: int, kind: str, beside: Callable[[], None] | None = None) -> None:
        """Two rows with every column but one, and with one that the table may not have."""
        left_out, new = NAMES[pick % 4], NAMES[pick // 4 % 4]
        columns = {name: k for name, k in self.columns.items() if name != left_out}
        columns.setdefault(new, self.columns.get(new, kind))
        mine = [{"id": self.ids + n, **dict.fromkeys(columns, self.ids + n)} for n in (1, 2)]
        self.ids += 2
        arrays = {name: pa.array([r[name] for r in mine], KINDS[k]) for name, k in columns.items()}
        before = dict(self.columns)
        self.columns |= columns
        # What happens beside it concerns its rows too: it began before.
        self.rows += mine
        put(self.world, {"id": [r["id"] for r in mine], **arrays}, beside=beside)
        if beside is None:
            assert before.items() <= schema_of(self.world).items()

    def evolve(self, pick: int, *, lazy: bool) -> None:
        widen, rename, drop = self._wanted(pick)
        asked: dict[str, Any] = {"widen": widen, "rename": rename, "drop": drop}
        if not any(asked.values()):
            return
        if lazy:
            lazily(self.world, **asked)
        else:
            at_once(self.world, self.scratch, **asked)
        self.columns |= widen
        for old, new in rename.items():
            self.columns[new] = self.columns.pop(old)
            self.rows = [{**r, new: r[old]} | {old: None} if old in r else r for r in self.rows]
        for column in drop:
            del self.columns[column]
            self.rows = [{**r, column: None} for r in self.rows]

    def _wanted(self, pick: int) -> tuple[dict[str, str], dict[str, str], tuple[str, ...]]:
        stands = read_snapshot(self.world.store, self.world.table.paths).schema
        known = [name for name in self.columns if name in stands]
        free = [name for name in NAMES if name not in self.columns]
        if not known:
            return {}, {}, ()
        column = known[pick // 3 % len(known)]
        if pick % 3 == 0 and self.columns[column] in WIDER:
            return {column: WIDER[self.columns[column]]}, {}, ()
        if column in self.named:
            return {}, {}, ()
        if pick % 3 == 1 and free:
            return {}, {column: free[pick // 9 % len(free)]}, ()
        return {}, {}, (column,)

    def delete(self, pick: int, *, lazy: bool) -> None:
        """Rows by a column of today; a lazy one keeps that column's name from then on."""
        stands = read_snapshot(self.world.store, self.world.table.paths).schema
        if not stands:
            return
        known = [name for name in self.columns if name in stands and name not in self.named]
        column = "id" if pick % 2 or not known else known[pick // 2 % len(known)]
        value = self.rows[pick // 8 % len(self.rows)]["id"] if self.rows else 0
        options = DeleteOptions(where=f"{column} = {value}", mode="lazy" if lazy else "eager")
        self.world.clock.advance(10)
        made = run_delete(Work(self.world.table, RUN, engine(self.world, self.scratch)), options)
        if made.transaction is not None:
            self.named.add(column)
        self.rows = [r for r in self.rows if r.get(column) != value]

    def check(self) -> None:
        assert {n: k for n, k in schema_of(self.world).items() if n != "id"} == self.columns
        assert tally(firnline.scan(self.world.table).to_arrow().to_pylist()) == tally(self.rows)


WHAT = ("append", "append", "lazily", "lazily", "lazily", "at_once", "beside", "delete", "hide")
STEPS = st.tuples(
    st.sampled_from((*WHAT, "merge")), st.integers(0, 200), st.sampled_from(["INTEGER", "FLOAT"])
)


@examples(5, 150)
@given(steps=st.lists(STEPS, min_size=3, max_size=7))
def test_readers_see_the_columns_of_today_whatever_the_parts_hold(
    steps: list[tuple[str, int, str]],
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        world = make_world(sort_by=["id"], merge={"min_inputs": 2, "kernel_threads": 1})
        model = Model(world, Path(folder))
        model.append(0, "INTEGER")
        for what, pick, kind in steps:
            act(model, what, pick, kind)
        model.check()
        rows_are(world, model.rows)
        merged(world, model.scratch)
        model.check()
        # Every part is written anew, and then nothing needs the records any more.
        assert {name for name, _ in columns_in_parts(world)} <= {"id", *model.columns}
        world.clock.advance(3 * DAY)
        clean_up(world)
        state = read_snapshot(world.store, world.table.paths, everything=True)
        for record in state.records.values():
            # But for log files that nobody has folded yet: the next transactions do.
            cutoff, stay = world.clock.now - 2 * DAY, frozenset[str]()
            assert delete_is_over(state, record, cutoff, state.purged, stay)


def act(model: Model, what: str, pick: int, kind: str) -> None:
    if what == "append":
        model.append(pick, kind)
    elif what == "beside":
        model.append(pick, kind, beside=lambda: model.evolve(pick // 2, lazy=True))
    elif what in ("lazily", "at_once"):
        model.evolve(pick, lazy=what == "lazily")
    elif what in ("delete", "hide"):
        model.delete(pick, lazy=what == "hide")
    else:
        merged(model.world, model.scratch)
