"""Replacing parts outside of a merge: what rewrite, delete and erase share.

How an operation uses it:

1. plan ``PlannedGroup``s on ``base.snapshot`` (parts in insertion order, with the deletes that are
   pending on them; for a table with a primary key the groups contiguous in that order),
2. make a task of each: ``kernel_task(table, base.snapshot, number, group, Work(op=…, …))``,
3. loop over ``run_groups``: a partition at a time, all of its groups done or none,
4. ``change_of(base.snapshot, partition.done, op=…, deletes=…)``: one partition, or several put
   together. Inputs without a hidden row (``only_touched``) are not replaced. New parts have the
   base as their sequence and name ``deletes`` as applied. ``is_nothing`` says of a change that it
   replaces nothing: then there is nothing to commit, unless it brings a delete record,
5. ``commit_or_discard``: a partition of which no row is left needs nothing special, its parts are
   tombstoned and none is added. On ``CommitConflictError`` take a new base and plan again.

What becomes of outputs after a failure: ``firnline.commit.outputs``.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass

from firnline.commit.base import Base
from firnline.commit.outputs import Outputs
from firnline.commit.transaction import Change, Committed, commit
from firnline.errors import FirnlineError
from firnline.kernel.engine import Engine, running
from firnline.kernel.task import KernelResult, KernelTask
from firnline.log.txn_file import RunIdentity
from firnline.operations.committer import Done, outputs_of
from firnline.operations.merge.groups import PlannedGroup
from firnline.operations.merge.run import Failure
from firnline.store.create import Attempt
from firnline.table import Table

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class PartitionResult:
    """All groups of one partition: either every one is done, or some failed."""

    partition: str
    done: tuple[Done, ...]
    """Empty when a group failed: the outputs of the others are deleted already."""
    failures: tuple[Failure, ...]


def run_groups(
    table: Table,
    engine: Engine,
    work: Sequence[tuple[PlannedGroup, KernelTask]],
    on_result: Callable[[PlannedGroup, KernelResult], None] = lambda _group, _result: None,
) -> Generator[PartitionResult | None]:
    """Run tasks and give partitions back as they complete, in any order.

    None comes at least once a second while no partition completes, for callers that go by the
    clock. Closing the iterator cancels what runs and deletes the outputs of partitions that are
    not complete; those of a partition that was given back are the caller's.

    Args:
        table: the table; the kernels' requests are added to its store's counters.
        engine: runs the kernels.
        work: groups with their tasks; ``task.group`` is the place in this sequence.
        on_result: called for every group, failed ones too.
    """
    waiting: dict[str, int] = defaultdict(int)
    for group, _ in work:
        waiting[group.partition] += 1
    results: dict[str, list[Done]] = defaultdict(list)
    tasks = [task for _, task in work]
    with Outputs(table) as new, running(engine, tasks) as found:
        for result in found:
            if result is None:
                yield None
                continue
            table.store.counters.add(result.requests)
            group = work[result.group][0]
            new.add(*outputs_of([(group, result)]))
            on_result(group, result)
            results[group.partition].append((group, result))
            if len(results[group.partition]) == waiting[group.partition]:
                yield _complete(new, group.partition, results.pop(group.partition))


def _complete(new: Outputs, partition: str, batch: list[Done]) -> PartitionResult:
    failures = tuple(_failure(group, result) for group, result in batch if result.error is not None)
    if failures:
        new.delete(outputs_of(batch))
        return PartitionResult(partition, (), failures)
    new.release(outputs_of(batch))
    return PartitionResult(partition, tuple(sorted(batch, key=lambda d: d[1].group)), ())


def _failure(group: PlannedGroup, result: KernelResult) -> Failure:
    message = f"{result.error}; {result.error_next_step}"
    _LOG.error("partition %s: %s", group.partition, message)
    return Failure(
        partition=group.partition,
        error=result.error_type or FirnlineError.__name__,
        message=message,
        key=result.error_key,
    )


def is_nothing(change: Change) -> bool:
    """Whether a change replaces nothing and adds nothing: no input was touched."""
    return not (change.replaces or change.adds or change.deletes)


def commit_or_discard(
    table: Table,
    base: Base,
    change: Change,
    run: RunIdentity,
    done: Sequence[Done],
    attempt: Attempt | None = None,
) -> Committed:
    """Commit; after a failure the outputs of ``done`` go, unless they may be live.

    Args:
        table: the table.
        base: see ``transaction.commit``, as of ``change`` and ``run``.
        change: what to commit.
        run: who does it.
        done: groups whose outputs it brings.
        attempt: of other new objects that it brings, too.

    Raises what ``transaction.commit`` raises.
    """
    with Outputs(table, outputs_of(done), attempt) as new:
        return commit(table, base, change, run, new.attempt)
