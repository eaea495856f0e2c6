"""Commits completed groups: those of the last seconds in one transaction."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import Self

from firnline.commit.base import Base, take_base
from firnline.commit.outputs import Outputs
from firnline.commit.transaction import commit
from firnline.errors import CommitConflictError
from firnline.kernel.task import KernelResult
from firnline.log.txn_file import Counts, RunIdentity
from firnline.operations.groups import PlannedGroup
from firnline.operations.kernel_tasks import change_of
from firnline.table import Table

_LOG = logging.getLogger(__name__)
Done = tuple[PlannedGroup, KernelResult]


@dataclass
class Committer:
    """Holds back completed groups for ``commit_every`` and commits them together.

    Used as a context manager: the exception that ends it, or none, decides whether the outputs
    that wait are committed or deleted.
    """

    table: Table
    run: RunIdentity
    planned_on: Base
    on_commit: Callable[[int, Counts, int], None]
    """Called with sequence number, counts and number of groups."""
    conflicts: int = 0
    """Groups that lost their parts to a rival; their outputs are deleted."""
    new: Outputs = field(init=False)
    """Outputs of completed groups that are not committed."""
    _base: Base | None = None
    _waiting: list[Done] = field(default_factory=list)
    _since_ms: int = 0

    def __post_init__(self) -> None:
        self.new = Outputs(self.table)

    def __enter__(self) -> Self:
        self.new.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.new.__exit__(kind, error, trace)

    def add(self, done: Done) -> None:
        """Take a completed group."""
        self.new.add(*outputs_of([done]))
        if not self._waiting:
            self._since_ms = self.table.clock.elapsed_ms()
        self._waiting.append(done)

    def commit_when_due(self) -> None:
        """Commit what waits once the oldest of it has waited for ``commit_every``."""
        waited = self.table.clock.elapsed_ms() - self._since_ms
        if self._waiting and waited >= self.table.settings.merge.commit_every:
            self.commit_all()

    def commit_all(self) -> None:
        """Commit what waits. Raises what ``transaction.commit`` raises, except conflicts."""
        batch, self._waiting = self._waiting, []
        if not batch:
            return
        try:
            self._commit(batch)
        except CommitConflictError:
            if len(batch) == 1:
                partition = batch[0][0].partition or "(none)"
                self.conflicts += 1
                _LOG.warning("partition %s was maintained by somebody else meanwhile", partition)
                self.new.delete(outputs_of(batch))
                return
            # Some of the groups lost their parts; the others did not.
            for done in batch:
                self.add(done)
                self.commit_all()

    def _commit(self, batch: Sequence[Done]) -> None:
        made = change_of(self.planned_on.snapshot, batch)
        query = self.table.settings.merge.sql is not None
        change = replace(made, query=query, computed=query)
        base = self._base or self.planned_on
        try:
            committed = commit(self.table, base, change, self.run, self.new.attempt)
        except CommitConflictError:
            self._base = None
            raise
        self.new.committed(outputs_of(batch))
        self.on_commit(committed.header.seq, committed.header.counts, len(batch))
        # Not published by this run: the run that takes the next base publishes it first.
        self._base = committed.base or take_base(self.table, since=base)


def outputs_of(batch: Iterable[Done]) -> list[str]:
    """Return the keys of the objects that the groups have written."""
    return [part.key for _, result in batch for part in result.parts]
