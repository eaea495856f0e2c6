"""A table that random things happen to, beside a plain list of the rows that should be visible."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import strategies as st

from firnline.appends.append import Appender
from firnline.clock import SystemClock
from firnline.commit.base import take_base
from firnline.commit.transaction import Change, commit
from firnline.kernel.local import LocalEngine
from firnline.log.records import Delete, Marker, stats_json
from firnline.log.txn_file import Counts, RunIdentity
from firnline.operations.delete.run import run_delete
from firnline.operations.merge.run import run_merge
from firnline.operations.operation import Work
from firnline.operations.options import DeleteOptions, MergeOptions
from firnline.parquet.stats import from_table
from firnline.predicate.sql import parse_sql
from firnline.predicate.tree import to_json
from firnline.read.scan import Scan
from firnline.state.snapshot import read_snapshot
from tests.support.world import World

Row = dict[str, Any]
RUN = RunIdentity(run_id="r")
SCHEMA = pa.schema([("id", pa.int64()), ("day", pa.int64()), ("v", pa.int64())])
EXTRA = SCHEMA.append(pa.field("extra", pa.string()))


def rows_like(ids: Sequence[int], salt: int, *, extra: bool) -> list[Row]:
    """Rows of three days, with nulls here and there."""
    found: list[Row] = []
    for place, number in enumerate(ids):
        value = None if (number + salt) % 5 == 0 else (number * 7 + salt) % 10
        row: Row = {"id": number, "day": number % 3, "v": value}
        if extra:
            row["extra"] = None if place % 3 == 0 else f"e{salt}"
        found.append(row)
    return found


@dataclass
class Played:
    """The table and what should be visible: ``raw`` in the order of insertion."""

    world: World
    scratch: Path
    raw: list[Row] = field(default_factory=list)

    def append(self, ids: Sequence[int], salt: int, *, extra: bool) -> None:
        rows = rows_like(ids, salt, extra=extra)
        self.world.clock.advance(10)
        schema = EXTRA if extra else SCHEMA
        Appender(self.world.table).append(pa.Table.from_pylist(rows, schema=schema))
        self.raw += rows

    def delete(self, low: int, span: int) -> None:
        """Lazily, every row with ``low <= id <= low + span``."""
        if not self.raw:
            return
        self.world.clock.advance(10)
        options = DeleteOptions(where=f"id between {low} and {low + span}", mode="lazy")
        run_delete(Work(self.world.table, RUN, self.engine), options)
        self.raw = [row for row in self.raw if not low <= row["id"] <= low + span]

    def replace(self, low: int, high: int, ids: Sequence[int], salt: int) -> None:
        """The interval [low, high) of ``id`` becomes these rows of one day, in one transaction."""
        if not self.raw:
            return
        self.world.clock.advance(10)
        table = self.world.table
        rows = [{**row, "day": 1} for row in rows_like(ids, salt, extra=False)]
        adds = (self._part(rows),) if rows else ()
        base = take_base(table)
        tree = parse_sql(f"id >= {low} and id < {high}", base.snapshot.schema)
        delete = Delete(
            id=table.ids.uuid7(table.clock.now_ms()), seq=0, t=0, where=msgspec.Raw(to_json(tree))
        )
        counts = Counts(rows_in=len(rows), parts_out=len(adds), rows_out=len(rows))
        change = Change(op="replace", replaces=(), adds=adds, counts=counts, deletes=(delete,))
        commit(table, base, change, RUN)
        self.raw = [row for row in self.raw if not low <= row["id"] < high] + rows

    def merge(self) -> None:
        self.world.clock.advance(10)
        run_merge(Work(self.world.table, RUN, self.engine), MergeOptions())

    def engine(self) -> LocalEngine:
        return LocalEngine(lambda: self.world.store, self.scratch, self.world.ids, SystemClock())

    def visible(self) -> list[Row]:
        """One row per key and day where the table has a primary key."""
        settings = self.world.settings
        if not settings.primary_key:
            return self.raw
        last: dict[Any, Row] = {}
        for row in self.raw:
            place = row["id"], row["day"]
            known = last.get(place)
            if known is None or not settings.version or _version(row) >= _version(known):
                last[place] = row
        return list(last.values())

    def _part(self, rows: list[Row]) -> Marker:
        table = self.world.table
        data = pa.Table.from_pylist(rows, schema=SCHEMA)
        sink = io.BytesIO()
        pq.write_table(data, sink)
        key = table.paths.data_part("day=1", table.ids.uuid7(table.clock.now_ms()))
        table.store.put_new(key, sink.getvalue())
        stats = stats_json(from_table(data, ["id", "day"]))
        now = table.clock.now_ms()
        return Marker(p=key, b=sink.tell(), t=0, n=len(rows), o=(now, now), s=stats)


IDS = st.lists(st.integers(0, 20), min_size=1, max_size=8, unique=True)
STEPS = st.one_of(
    st.tuples(st.just("append"), IDS, st.integers(0, 9), st.booleans()),
    st.tuples(st.just("delete"), st.integers(0, 20), st.integers(1, 6)),
    st.tuples(st.just("replace"), st.integers(0, 20), st.integers(1, 8), IDS, st.integers(0, 9)),
    st.tuples(st.just("merge")),
)


def _neither(row: Row) -> bool:
    """In three values: unknown is not true."""
    v, extra = row["v"], row.get("extra")
    return v is not None and v != 3 and extra is not None and extra != "e1"


WANTED: list[tuple[dict[str, Any], Callable[[Row], bool]]] = [
    ({}, lambda row: True),
    ({"where": "id >= 7 and v > 3"}, lambda r: r["id"] >= 7 and r["v"] is not None and r["v"] > 3),
    ({"where": "not (v = 3 or extra = 'e1')"}, _neither),
    ({"where": "day = 1", "partitions": "day=[12]"}, lambda r: r["day"] == 1),
    ({"where": "v is null", "columns": ["v", "id", "day", "extra"]}, lambda r: r["v"] is None),
]


def play(world: World, scratch: Path, steps: list[tuple[Any, ...]]) -> Played:
    played = Played(world, scratch)
    played.append(range(0, 12, 2), 1, extra=True)  # all columns and days are there
    for step in steps:
        play_one(played, step)
    return played


def play_one(played: Played, step: tuple[Any, ...]) -> None:
    """One of ``STEPS``."""
    kind, *given_ = step
    if kind == "append":
        ids, salt, extra = given_
        played.append(ids, salt, extra=extra)
    elif kind == "delete":
        # By key: else what a merge has taken away decides which row of a key is the last.
        played.delete(*given_)
    elif kind == "replace":
        low, span, ids, salt = given_
        inside = [low + number % span for number in ids]
        played.replace(low, low + span, sorted(set(inside)), salt)
    else:
        played.merge()


def _version(row: Row) -> int:
    """A null is older than every version."""
    return -1 if row["v"] is None else int(row["v"])


def tally(rows: Sequence[Row]) -> Counter[tuple[tuple[str, Any], ...]]:
    """Rows without regard to order; a column that a row lacks is null."""
    return Counter(
        tuple(sorted((name, value) for name, value in row.items() if value is not None))
        for row in rows
    )


def paths_of(scan: Scan) -> dict[str, Callable[[], list[Row]]]:
    """All that a scan can give: what reads its rows."""
    from firnline.read.duckdb import stream

    found: dict[str, Callable[[], list[Row]]] = {
        "duckdb": lambda: scan.duckdb().to_arrow_table().to_pylist(),
        "arrow_reader": lambda: scan.arrow_reader().read_all().to_pylist(),
        "polars": lambda: scan.polars().collect().to_dicts(),
        "pieces": lambda: [
            row
            for task in scan.plan.tasks(max_bytes=3_000)
            for row in stream(task, scan.table.store, scan.limits()).read_all().to_pylist()
        ],
    }
    task = scan.plan.task
    # What a dataset cannot express it refuses.
    if not task.primary_key and all(part.hidden < 0 > part.sources for part in task.parts):
        found["dataset"] = lambda: scan.arrow_dataset().to_table().to_pylist()
    return found


def by_every_path(scan: Scan) -> dict[str, list[Row]]:
    """The rows of a scan, by all that it can give."""
    return {name: read() for name, read in paths_of(scan).items()}


def parts_of(world: World) -> int:
    """Live parts."""
    return len(read_snapshot(world.store, world.table.paths).live)
