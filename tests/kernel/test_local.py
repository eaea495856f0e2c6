from __future__ import annotations

import pyarrow as pa

from firnline.clock import SystemClock
from firnline.ids import SystemIds
from firnline.kernel.local import LocalEngine
from firnline.kernel.task import KernelResult, KernelTask
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


def test_leaving_early_stops_what_has_not_begun(group: Group) -> None:
    results = engine(group).run(tasks(group, 30))
    next(iter(results))
    results.close()  # type: ignore[attr-defined] # a generator, which Iterator does not say
    written = len(list((group.root / "table/_data/d=1").iterdir())) - 60
    assert 1 <= written < 30
    assert not list(group.scratch.iterdir())
