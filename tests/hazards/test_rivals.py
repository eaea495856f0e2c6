"""Hazards of several who write at once, with clocks of their own (docs/guarantees.md)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path

import pytest

from firnline.appends.append import Appender
from firnline.clock import SystemClock
from firnline.errors import CommitConflictError
from firnline.kernel.local import LocalEngine
from firnline.operations.delete.run import run_delete
from firnline.operations.drop.run import run_drop
from firnline.operations.merge.run import run_merge
from firnline.operations.operation import Work
from firnline.operations.options import DeleteOptions, DropOptions, MergeOptions, RewriteOptions
from firnline.operations.rewrite.run import run_rewrite
from firnline.state.history import history
from firnline.table import Table
from tests.support.beside import Beside
from tests.support.cleanups import RUN, check, keys_under
from tests.support.engines import CountingEngine
from tests.support.histories import clean_up as clean_up_later
from tests.support.histories import ids_of, rows_from, table_world
from tests.support.log_tables import put_append, snapshot, v1_live
from tests.support.reading import visible_ids
from tests.support.world import SetClock, World, make_world

HOURS = 3_600_000


def _merge(world: World, table: Table) -> None:
    run_merge(Work(table, RUN, lambda: CountingEngine(world)), MergeOptions())


def _rewrite(world: World, table: Table) -> None:
    options = RewriteOptions(partitions=("d=1",), where="v > 0", force=True)
    run_rewrite(Work(table, RUN, lambda: CountingEngine(world)), options)


def _drop(world: World, table: Table) -> None:
    run_drop(Work(table, RUN), DropOptions(partitions=("d=1",)))


def _delete(world: World, table: Table) -> None:
    options = DeleteOptions(where="v = 1", partitions=("d=1",), mode="eager")
    run_delete(Work(table, RUN, lambda: CountingEngine(world)), options)


OPERATIONS: dict[str, Callable[[World, Table], None]] = {
    "merge": _merge,
    "rewrite": _rewrite,
    "drop": _drop,
    "delete": _delete,
}


@pytest.mark.parametrize(("first", "second"), list(product(OPERATIONS, OPERATIONS)))
def test_hazard_07_of_two_operations_on_the_same_parts_one_commits_and_the_other_conflicts(
    first: str, second: str
) -> None:
    """Both planned on the same parts; the second is about to commit when the first has."""
    world = make_world(merge={"min_inputs": 2, "max_replans": 0})
    for _ in range(3):
        put_append(world, "d=1")
    inputs = set(snapshot(world).live)
    store = Beside(world.store, what="/_txn/0", act=partial(OPERATIONS[first], world, world.table))
    with pytest.raises(CommitConflictError):
        OPERATIONS[second](world, replace(world.table, store=store))
    assert store.met
    assert [header.op for header in history(world.table, 9)] == [first]
    after = snapshot(world)
    assert {p for p, m in after.parts.items() if m.tmb is not None} == inputs
    assert len(after.live) == (0 if first == "drop" else 1)
    assert keys_under(world, "_data") == after.parts.keys(), "the loser left nothing behind"
    check(world, after.live)


def skewed(world: World, ms: int) -> Table:
    """The same table, seen by a machine whose clock is wrong by so much."""
    return replace(world.table, clock=SetClock(now=world.clock.now + ms))


@pytest.mark.parametrize("skew", [-2 * HOURS, 2 * HOURS])
def test_hazard_08_with_clocks_two_hours_apart_nothing_is_missed_or_merged_twice(
    skew: int, tmp_path: Path
) -> None:
    """A writer's clock is behind or ahead of the merger's; another one's is right."""
    world = table_world(merge={"min_inputs": 2})
    engine = LocalEngine(lambda: world.store, tmp_path, world.ids, SystemClock())
    first = 0
    expected: list[int] = []

    def append(ms: int) -> None:
        nonlocal first
        Appender(skewed(world, ms)).append(rows_from(first))
        expected.extend(range(first, first + 6))
        first += 6

    def merge() -> None:
        # One more append lands between the merger's listing and its commit.
        store = Beside(world.store, what="/_txn/0", act=lambda: append(skew))
        run_merge(Work(replace(world.table, store=store), RUN, lambda: engine), MergeOptions())
        assert store.met

    for _ in range(3):
        append(skew)
        append(0)
        world.clock.advance(50)
        merge()
        assert sorted(ids_of(world).elements()) == expected
        assert v1_live(world) == set(snapshot(world).live)
    run_merge(Work(world.table, RUN, lambda: engine), MergeOptions())
    assert {len(parts) for parts in snapshot(world).partitions.values()} == {1}, "nothing is missed"
    clean_up_later(world)
    assert sorted(ids_of(world).elements()) == expected
    check(world, snapshot(world).live)


@pytest.mark.parametrize("skew", [-2 * HOURS, 2 * HOURS])
def test_hazard_08_what_a_delete_hides_is_no_matter_of_clocks(skew: int) -> None:
    """It hides what was there before, and nothing that was appended after."""
    world = table_world(deletes="lazy")
    Appender(skewed(world, skew)).append(rows_from(0))
    run_delete(Work(world.table, RUN, _no_engine), DeleteOptions(where="id < 100"))
    Appender(skewed(world, skew)).append(rows_from(6))
    assert sorted(visible_ids(world.table)) == list(range(6, 12))


def _no_engine() -> CountingEngine:
    raise AssertionError("an engine was started for nothing")


def test_hazard_09_two_appends_of_one_host_in_the_same_millisecond_both_survive() -> None:
    """Two processes of one host, and one process twice, while the clock stands still."""
    world = table_world()
    one, two = (Appender(world.table, writer="host") for _ in range(2))
    made = [one.append(rows_from(0)), two.append(rows_from(6)), one.append(rows_from(12))]
    assert [result.t - world.clock.now for result in made] == [0, 0, 1]
    assert sorted(ids_of(world).elements()) == list(range(18))
    names = {result.log_key for result in made}
    assert len(names) == 3
    assert keys_under(world, "_log") == names
    assert v1_live(world) == set(snapshot(world).live)
