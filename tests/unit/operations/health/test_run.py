from __future__ import annotations

import threading
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from firnline.errors import LogLostError
from firnline.operations.health.run import TableHealth, look, look_at_all
from tests.support.fleet import need_of
from tests.support.histories import clean_up, delete_lazily, drop, filled, lose_log, merge
from tests.support.programs import HUNG_SECONDS
from tests.support.world import FaultyStore, make_world

DAY_MS = 86_400_000


def test_parts_that_wait_for_a_merge_are_requests_of_every_scan(tmp_path: Path) -> None:
    world = filled(4)
    found = look(world.table)
    assert found.figures is not None
    figures = found.figures
    assert (figures.parts, figures.small_parts, figures.saved) == (8, 8, 6)
    assert (figures.merge_parts, figures.merge_outputs) == (8, 2)
    assert found.score.points == 100 - round(50 * 6 / 8)
    merge(world, tmp_path)
    after = look(world.table)
    assert after.figures is not None
    assert (after.figures.parts, after.figures.saved, after.score.points) == (2, 0, 100)
    assert after.figures.last["merge"].seq == after.figures.seq


def test_dead_bytes_count_once_a_clean_up_may_delete_them(tmp_path: Path) -> None:
    world = filled(4)
    merge(world, tmp_path)
    young = look(world.table)
    assert young.figures is not None
    assert (young.figures.dead_parts, young.figures.deletable_bytes) == (8, 0)
    assert young.figures.next_due is not None
    assert young.score.points == 100
    world.clock.advance(3 * DAY_MS)
    old = look(world.table)
    assert old.figures is not None
    assert old.figures.deletable_bytes == old.figures.dead_bytes > 0
    assert old.score.points < 100
    clean_up(world)
    clean = look(world.table)
    assert clean.figures is not None
    assert clean.figures.dead_parts == 0


def test_a_finished_partition_waits_for_a_merge_by_time_alone() -> None:
    world = filled(2)
    open_ = look(world.table)
    assert open_.figures is not None
    assert (open_.figures.saved, open_.score.points) == (0, 100)
    assert open_.figures.merge_due == open_.figures.holds_until
    world.clock.now = open_.figures.merge_due or 0
    finished = look(world.table)
    assert finished.figures is not None
    assert (finished.figures.saved, finished.figures.merge_parts) == (2, 4)
    assert finished.score.points == 100 - round(50 * 2 / 4)
    assert need_of(world.table, budgeted=False).saved == 2


def test_a_lazy_delete_waits_for_merges() -> None:
    world = filled(4)
    delete_lazily(world, below=2)
    found = look(world.table).figures
    assert found is not None
    assert found.deletes == 1


def test_a_look_writes_nothing_and_has_its_requests() -> None:
    world = filled(4)
    drop(world, "day=0")
    before, used = dict(world.store.objects), FaultyStore(world.store)
    look(replace(world.table, store=used))
    assert world.store.objects == before
    kinds = Counter(call.partition(" ")[0] for call in used.calls)
    # Log, transactions, history; two log files that are not folded, and the newest transaction.
    # And what is prepared.
    assert kinds == Counter(list=4, get=3)


def test_a_plan_that_cannot_be_made_is_a_reason() -> None:
    world = filled(2, ttl={"keep": "1d", "column": "id"})
    found = look(world.table)
    assert [reason.points for reason in found.score.reasons if "no TTL run" in reason.text] == [20]


def test_a_store_that_does_not_answer_holds_up_no_other_table() -> None:
    others_done = threading.Event()

    class Silent(FaultyStore):
        def list(self, prefix: str, after: str | None = None) -> Any:
            assert others_done.wait(HUNG_SECONDS)
            return super().list(prefix, after)

    silent, other = filled(2), filled(2)
    tables = [replace(silent.table, store=Silent(silent.store)), other.table]
    seen: list[str] = []

    def looked(one: TableHealth) -> None:
        seen.append(one.root)
        others_done.set()

    found = look_at_all(tables, looked)
    assert len(seen) == len(found) == 2


def test_tables_are_looked_at_together_and_one_that_is_lost_has_no_points() -> None:
    good, lost, empty = filled(2), filled(2), make_world()
    drop(lost, "day=0")
    lose_log(lost)
    with pytest.raises(LogLostError):
        look(lost.table)
    seen: list[str] = []
    found = look_at_all([good.table, lost.table, empty.table], lambda one: seen.append(one.table))
    assert len(seen) == 3
    assert [one.figures is None for one in found] == [False, True, True]
    assert found[1].score.points == 0
    assert "cannot be read" in found[1].score.reasons[0].text
    assert found[2].score.points == 0
    assert found[2].score.reasons[0].text.startswith("there is no table at memory://bucket/t: ")
    assert [one.missing is None for one in found] == [True, True, False]
    assert found[1].to_json()["figures"] is None
