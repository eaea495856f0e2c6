from __future__ import annotations

import threading
import time
from dataclasses import replace as replace_engine
from typing import Any

import pyarrow as pa
import pytest
from msgspec.structs import replace

from firnline.clock import SystemClock
from firnline.ids import SystemIds
from firnline.kernel import local
from firnline.kernel.local import LocalEngine
from firnline.kernel.merge import merge_in
from firnline.kernel.task import KernelResult, KernelTask
from firnline.kernel.workplace import Workplace
from tests.kernel.conftest import Group


def engine(group: Group) -> LocalEngine:
    return LocalEngine(lambda: group.store, group.scratch, SystemIds(), SystemClock(), parallel=2)


def tasks(group: Group, count: int) -> list[KernelTask]:
    return [
        group.task(group.put(pa.table({"a": [n]}), pa.table({"a": [-n]})), {"a": "BIGINT"}, group=n)
        for n in range(count)
    ]


def results_of(group: Group, todo: list[KernelTask]) -> list[KernelResult]:
    return [result for result in engine(group).run(todo) if result is not None]


def test_every_group_is_merged_and_its_requests_are_its_own(group: Group) -> None:
    results = results_of(group, tasks(group, 5))
    assert sorted(result.group for result in results) == [0, 1, 2, 3, 4]
    assert {result.requests["get"] for result in results} == {2}
    assert all(result.error is None for result in results)


def test_one_group_that_fails_does_not_stop_the_others(group: Group) -> None:
    todo = tasks(group, 4)
    (group.root / todo[1].inputs[0].key).write_bytes(b"broken")
    results = {result.group: result for result in results_of(group, todo)}
    assert results[1].error_type == "PartUnreadableError"
    assert [len(results[n].parts) for n in (0, 2, 3)] == [1, 1, 1]


def at_most_at_once(
    group: Group, todo: list[KernelTask], expected: int, monkeypatch: pytest.MonkeyPatch
) -> int:
    """Merge with an engine of two kernels; return how many groups it worked on at a time.

    The first groups wait for as many as are expected, so that a busy machine does not matter.
    """
    running, most, lock, together = 0, 0, threading.Lock(), threading.Event()

    def counted(*given: Any) -> KernelResult:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
            if most >= expected:
                together.set()
        together.wait(30)
        time.sleep(0.05)
        with lock:
            running -= 1
        return merge_in(*given)

    monkeypatch.setattr(local, "merge_in", counted)
    results = results_of(group, todo)
    assert sorted(each.group for each in results) == sorted(each.group for each in todo)
    assert {each.error for each in results} == {None}
    return most


def test_four_small_groups_are_merged_in_place_of_a_large_one(
    group: Group, monkeypatch: pytest.MonkeyPatch
) -> None:
    todo = tasks(group, 12)
    known = [
        replace(task, inputs=tuple(replace(each, rows=1) for each in task.inputs)) for task in todo
    ]
    assert at_most_at_once(group, todo, 2, monkeypatch) == 2
    assert at_most_at_once(group, known, 8, monkeypatch) == 8


def test_a_group_may_use_the_cores_that_no_other_needs(
    group: Group, monkeypatch: pytest.MonkeyPatch
) -> None:
    both, beside, alone = threading.Barrier(2), [], []

    def seen(place: Workplace, task: KernelTask, *given: Any) -> KernelResult:
        both.wait(30)
        beside.append(place.cores.idle)
        both.wait(30)
        if task.group == 1:
            until = time.monotonic() + 30
            while place.cores.idle < 1 and time.monotonic() < until:
                time.sleep(0.01)
            alone.append(place.cores.idle)
        return merge_in(place, task, *given)

    monkeypatch.setattr(local, "merge_in", seen)
    assert len(results_of(group, tasks(group, 2))) == 2
    assert (beside, alone) == ([0, 0], [1])


def test_a_core_that_the_next_group_needs_is_not_lent_in_between(
    group: Group, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended: list[int] = []
    offered: list[tuple[int, float]] = []
    others = threading.Event()

    def watched(place: Workplace, task: KernelTask, *given: Any) -> KernelResult:
        if task.group == 0:
            with place.cores.waiting(lambda: offered.append((len(ended), place.cores.idle))):
                others.wait(30)
        result = merge_in(place, task, *given)
        if task.group != 0:
            ended.append(task.group)
        return result

    monkeypatch.setattr(local, "merge_in", watched)
    monkeypatch.setattr(local, "is_small", lambda _: False)
    results = 0
    for result in engine(group).run(tasks(group, 4)):
        results += result is not None
        if results == 3:
            others.set()
    assert {(count, idle) for count, idle in offered if idle >= 1} == {(3, 1)}


def test_cores_for_which_memory_has_no_kernel_are_idle_too(
    group: Group, monkeypatch: pytest.MonkeyPatch
) -> None:
    idle = []

    def seen(place: Workplace, *given: Any) -> KernelResult:
        idle.append(place.cores.idle)
        return merge_in(place, *given)

    monkeypatch.setattr(local, "merge_in", seen)
    narrow = replace_engine(engine(group), parallel=1, cores=4)
    assert [result.error for result in narrow.run(tasks(group, 2)) if result is not None] == [
        None
    ] * 2
    assert idle == [3, 3]


def test_leaving_early_stops_what_has_not_begun(group: Group) -> None:
    results = engine(group).run(tasks(group, 30))
    next(each for each in results if each is not None)
    results.close()  # type: ignore[attr-defined] # a generator, which Iterator does not say
    written = len(list((group.root / "table/_data/d=1").iterdir())) - 60
    assert 1 <= written < 30
    assert not list(group.scratch.glob("*"))
