"""Clean-ups that may delete only so much come to an end, however much one transaction replaced."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pytest

from firnline.store.base import Deleted
from tests.support.cleanups import GRACE, check, clean_up, keys_under
from tests.support.log_tables import do_merge, put_append, snapshot
from tests.support.world import FaultyStore, World, make_world


@pytest.mark.long
@pytest.mark.parametrize("limit", [1, 2, 3, 7])
def test_bounded_runs_come_to_the_end_of_what_one_transaction_replaced(limit: int) -> None:
    """The horizon stays below it until all of it is gone; each run goes on behind the last."""
    world = make_world()
    keys = put_append(world, *["d=1"] * 10)
    do_merge(world, keys)
    world.clock.advance(2 * GRACE)
    deleted: list[str] = []

    class Noting(FaultyStore):
        def delete_many(self, keys: Iterable[str]) -> Iterator[Deleted]:
            wanted = list(keys)
            deleted.extend(key for key in wanted if "/_probe/" not in key)
            yield from super().delete_many(wanted)

    for _ in range(11):
        before = len(deleted)
        report = clean_up(world, Noting(world.store), max_deletes=limit)
        assert report.parts + report.log_files == len(deleted) - before <= limit
        check(world, snapshot(world).live)
        if report.transactions:
            break
    assert keys_under(world, "_data") == set(snapshot(world).live)
    assert len(deleted) == len(set(deleted)), "no object is deleted twice"
    assert set(keys) <= set(deleted)
    assert snapshot(world).purged == max(world.table.paths.parse_log(k).t for k in _ours(world)[:1])


def _ours(world: World) -> list[str]:
    return sorted(key for key in keys_under(world, "_log") if "_m_" in key)


@pytest.mark.parametrize("left", [0, 1])
def test_a_bounded_run_that_died_before_its_commit_is_gone_on_with(left: int) -> None:
    """What it deleted counts, though nothing but the store knows of it."""
    world = make_world()
    keys = put_append(world, *["d=1"] * 4)
    do_merge(world, keys)
    world.clock.advance(2 * GRACE)
    for key in keys[left:]:
        del world.store.objects[key]
    report = clean_up(world, max_deletes=2)
    assert (report.parts, report.log_files, len(report.transactions)) == (left, 1, 1)
    assert keys_under(world, "_data") == set(snapshot(world).live)
    assert clean_up(world).to_json()["parts"] == 0
