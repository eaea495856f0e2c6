"""Random lives of tables with a primary key, each step compared with a plain dictionary."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from firnline.appends.append import Appender
from firnline.clock import SystemClock
from firnline.commit.base import take_base
from firnline.commit.keys import units
from firnline.kernel.local import LocalEngine
from firnline.log.txn_file import RunIdentity
from firnline.operations.committer import Committer
from firnline.operations.delete.run import run_delete
from firnline.operations.kernel_tasks import kernel_task
from firnline.operations.merge.run import run_merge
from firnline.operations.operation import Work
from firnline.operations.options import DeleteOptions, MergeOptions, RewriteOptions
from firnline.operations.rewrite.run import run_rewrite
from firnline.operations.selection import group_of
from firnline.read.scan import scan
from firnline.table import Table
from tests.support.effort import sample
from tests.support.updates import Key, Row, visible
from tests.support.world import World, make_world

RUN = RunIdentity(run_id="r")
SEEDS = sample(range(120), 6, "updates")
STEPS = 14
ROW = pa.schema(
    {"p": pa.int64(), "id": pa.int64(), "v": pa.int64(), "name": pa.string(), "gone": pa.bool_()}
)
NAMES = "abcd"


@dataclass
class Life:
    """A table and the dictionary that it has to equal."""

    seed: int
    scratch: Path
    chance: random.Random = field(init=False)
    world: World = field(init=False)
    expected: dict[Key, tuple[int | None, Row]] = field(default_factory=dict)
    done: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.chance = random.Random(self.seed)
        self.world = make_world(
            primary_key=["id", "p"],
            partition_by=self.chance.choice([[], ["p"]]),
            sort_by=self.chance.choice([[], ["name"], ["v desc", "id"]]),
            version=self.chance.choice([None, "v"]),
            deleted=self.chance.choice([None, "gone"]),
            append={"ttl": "1h"},
            cleanup={"grace": "1h"},
        )

    def live(self) -> None:
        """Random steps, each followed by a look."""
        steps: list[Callable[[], None]] = [
            *([self.upsert] * 4), *([self.merge_some] * 3), self.merge_planned,
            self.delete_by_key, self.delete_by_key, self.delete_by_name, self.rewrite, self.wait,
        ]  # fmt: skip
        self.upsert()
        for _ in range(STEPS):
            step = self.chance.choice(steps)
            self.done.append(step.__name__)
            step()
            self.look()
        run_merge(Work(self.fine(min_inputs=2), RUN, self.engine), MergeOptions())
        self.look()

    def look(self) -> None:
        shown = {key: row for key, (_, row) in self.expected.items() if not self.is_tombstone(row)}
        assert visible(self.world) == shown, (self.seed, self.done)
        name = self.chance.choice(NAMES)
        wanted = sorted((r["p"], r["id"]) for r in shown.values() if r["name"] == name)
        found = scan(self.world.table, ["p", "id"], f"name = '{name}'").to_arrow().to_pylist()
        assert sorted((r["p"], r["id"]) for r in found) == wanted, (self.seed, self.done)

    def is_tombstone(self, row: Row) -> bool:
        return self.world.settings.deleted is not None and row["gone"] is True

    def engine(self) -> LocalEngine:
        world = self.world
        return LocalEngine(lambda: world.store, self.scratch, world.ids, SystemClock())

    def fine(self, **merge: Any) -> Table:
        """The table with other settings for merges."""
        policy = self.world.settings.merge.model_copy(update=merge)
        return replace(
            self.world.table, settings=self.world.settings.model_copy(update={"merge": policy})
        )

    def upsert(self) -> None:
        self.world.clock.advance(self.chance.choice([1, 1_000]))
        chance = self.chance
        rows = [
            {
                "p": chance.randrange(2),
                "id": chance.randrange(5),
                "v": chance.choice([None, 1, 2, 3, 4]),
                "name": chance.choice(NAMES),
                "gone": chance.choice([True, False, None]),
            }
            for _ in range(chance.randrange(1, 8))
        ]
        Appender(self.world.table).append(pa.Table.from_pylist(rows, schema=ROW))
        for row in rows:
            self.take(row)

    def take(self, row: Row) -> None:
        settings = self.world.settings
        key = (f"p={row['p']}" if settings.partition_by else "", row["id"], row["p"])
        rank = row["v"] if settings.version else None
        known = self.expected.get(key)
        if known is None or known[0] is None or (rank is not None and rank >= known[0]):
            self.expected[key] = rank, row

    def forget(self, goes: Callable[[Row], bool]) -> None:
        self.expected = {k: e for k, e in self.expected.items() if not goes(e[1])}

    def merge_some(self) -> None:
        """Any neighbours of one partition."""
        base = take_base(self.world.table)
        partition, parts = self.chance.choice(list(base.snapshot.partitions.items()) or [("", [])])
        pieces = list(units(parts))
        if not pieces:
            return
        first = self.chance.randrange(len(pieces))
        last = self.chance.randrange(first, len(pieces)) + 1
        chosen = [marker for unit in pieces[first:last] for marker in unit]
        group = group_of(base.snapshot, partition, chosen)
        committer = Committer(self.world.table, RUN, base, lambda *_: None)
        for result in self.engine().run([kernel_task(self.world.table, base.snapshot, 0, group)]):
            if result is not None:
                assert result.error is None, result.error
                committer.add((group, result))
        committer.commit_all()
        assert committer.conflicts == 0

    def merge_planned(self) -> None:
        table = self.fine(
            min_inputs=self.chance.choice([2, 3]),
            target_size=self.chance.choice([3_000, 6_000, 2**29]),
            max_parts_per_group=self.chance.choice([2, 3, 100]),
        )
        run_merge(Work(table, RUN, self.engine), MergeOptions())

    def delete_by_key(self) -> None:
        which = self.chance.randrange(5)
        where, goes = self.chance.choice(
            [
                (f"id = {which}", lambda r: r["id"] == which),
                (f"id > {which}", lambda r: r["id"] > which),
                (f"p = 1 AND id <= {which}", lambda r: r["p"] == 1 and r["id"] <= which),
            ]
        )
        mode = self.chance.choice(["eager", "lazy"])
        options = DeleteOptions(where=where, mode=mode)  # type: ignore[arg-type] # of a list
        run_delete(Work(self.world.table, RUN, self.engine), options)
        self.forget(goes)

    def delete_by_name(self) -> None:
        name = self.chance.choice(NAMES)
        run_delete(
            Work(self.world.table, RUN, self.engine), DeleteOptions(where=f"name = '{name}'")
        )
        self.forget(lambda row: row["name"] == name and not self.is_tombstone(row))

    def rewrite(self) -> None:
        name, least = self.chance.choice(NAMES), self.chance.randrange(4)
        where, goes = self.chance.choice(
            [
                (f"name != '{name}'", lambda r: r["name"] == name and not self.is_tombstone(r)),
                (f"id >= {least}", lambda r: r["id"] < least),
            ]
        )
        options = RewriteOptions(where=where, force=True)
        run_rewrite(Work(self.world.table, RUN, self.engine), options)
        self.forget(goes)

    def wait(self) -> None:
        self.world.clock.advance(3 * 3_600_000)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_table_with_a_primary_key_equals_a_dictionary_after_every_step(
    seed: int, tmp_path: Path
) -> None:
    Life(seed, tmp_path).live()
