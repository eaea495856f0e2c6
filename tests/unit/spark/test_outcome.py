"""What becomes of the groups of a Spark job that did not give all their results."""

from __future__ import annotations

from concurrent.futures import Future

import pytest

from firnline.kernel.batches import Batch
from firnline.kernel.task import KernelResult, KernelTask
from firnline.spark.engine import _outcome
from tests.kernel.test_batches import tasks


def done(*results: KernelResult) -> Future[list[KernelResult]]:
    future: Future[list[KernelResult]] = Future()
    future.set_result(list(results))
    return future


def died() -> Future[list[KernelResult]]:
    future: Future[list[KernelResult]] = Future()
    future.set_exception(RuntimeError("the worker is gone"))
    return future


def groups() -> tuple[KernelTask, ...]:
    return tuple(tasks(10, 10))


def test_groups_that_gave_no_result_are_tried_again_each_alone() -> None:
    both = groups()
    results, again = _outcome(done(KernelResult(group=1)), Batch(both))
    assert results == []
    assert again == [Batch((one,), 1) for one in both]


def test_a_group_is_tried_twice_and_then_reported() -> None:
    one, _ = groups()
    assert _outcome(died(), Batch((one,))) == ([], [Batch((one,), 1)])
    (result,), again = _outcome(died(), Batch((one,), 1))
    assert (result.group, result.error_type, again) == (0, "KernelError", [])
    assert "the worker is gone" in str(result.error)


def test_what_is_no_failure_of_a_job_passes_through() -> None:
    future: Future[list[KernelResult]] = Future()
    future.set_exception(KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        _outcome(future, Batch(groups()))
