"""Run an operation: take the base, plan, probe the store, act, plan again after a conflict, report.

Every operation that commits goes through here, so that each of these steps has one rule. What an
operation plans and how it carries out the plan stays in its package.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

import msgspec

from firnline.commit.base import Base, take_base
from firnline.errors import (
    CommitConflictError,
    FirnlineError,
    ObjectNotFoundError,
    PartGoneError,
    PartSchemaError,
    PartUnreadableError,
)
from firnline.kernel.engine import Engine
from firnline.kernel.task import KernelResult
from firnline.log.txn_file import Counts, RunIdentity
from firnline.operations.common_options import Mode
from firnline.shown import ShownFigures, figures
from firnline.store.probe import probe
from firnline.table import Table
from firnline.units import counted

PlanT = TypeVar("PlanT")
ResultT = TypeVar("ResultT")
_DAMAGED = frozenset(
    kind.__name__
    for kind in (PartUnreadableError, PartSchemaError, PartGoneError, ObjectNotFoundError)
)


def refuse_unsafe_store(table: Table, locking: str | None = None) -> None:
    """Raise StoreUnsafeError where two transactions could both commit.

    Requests: four, once for each table and process; none for a table that its Airflow pool alone
    locks (``locking: pool-only``).

    Args:
        table: the table.
        locking: instead of the table's, for a run that changes it.
    """
    if (locking or table.settings.locking) == "fenced":
        probe(table.store, table.paths.prefix, ids=table.ids, clock=table.clock)


class RunMetrics:
    """Requests and seconds of one run, from when this is made.

    Args:
        table: the table; its store counts the requests.
    """

    def __init__(self, table: Table) -> None:
        self.table = table
        self._started_ms = table.clock.elapsed_ms()
        self._before = table.store.counters.as_dict()

    @property
    def requests(self) -> dict[str, int]:
        """Requests and bytes by kind, so far."""
        after = self.table.store.counters.as_dict()
        return {kind: after[kind] - self._before[kind] for kind in after}

    @property
    def seconds(self) -> float:
        """So far, by the monotonic clock."""
        return (self.table.clock.elapsed_ms() - self._started_ms) / 1000


class Report(ShownFigures, msgspec.Struct, frozen=True, kw_only=True):
    """Result of a run: its plan and what was done."""

    def to_json(self) -> dict[str, object]:
        """Plain data for XCom and ``--json``."""
        plain: dict[str, object] = msgspec.to_builtins(self)
        return plain

    def _facts(self) -> Mapping[str, str]:
        """Return its figures; of lists how long they are; nothing that is empty."""
        return figures({name: getattr(self, name) for name in self.__struct_fields__})


class PartsReport(Report, frozen=True, kw_only=True):
    """Report of a run that reads the parts which may hold its rows, and is one transaction."""

    table: str
    dry_run: bool
    mode: Mode
    delete: str | None
    """Id of the delete record; None when nothing was committed, or no record was needed."""
    transaction: int | None
    parts_read: int
    parts_rewritten: int
    """Parts that were read and held such rows."""
    parts_dropped: int
    """Parts dropped without being read: all of their rows are such."""
    parts_excluded: int
    """Statistics prove that they hold no such row."""
    parts_hidden: int
    """lazy: parts that may hold such rows, which go with the next merge."""
    counts: Counts
    failures: tuple[Failure, ...]
    """With any of them nothing is committed."""
    replans: int
    """Times that the run planned again because another run replaced parts of the plan."""
    requests: dict[str, int]
    seconds: float


class TransactionReport(Report, frozen=True, kw_only=True):
    """Report of a run that is one transaction, or none."""

    table: str
    dry_run: bool
    plan: dict[str, object]
    """The last plan, as its ``to_json``."""
    transaction: int | None
    """Sequence number of the transaction; None when nothing was committed."""
    replans: int
    """Times that the run planned again because another run changed the base of the plan."""
    requests: dict[str, int]
    seconds: float


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    """A group that failed and stays as it is."""

    partition: str
    error: str
    message: str
    key: str | None
    """Key of the part at fault, when there is one."""

    def __str__(self) -> str:
        """Return the place and the reason, for a sentence."""
        return f"in partition {self.partition or '(none)'}: {self.message}"

    @classmethod
    def of(cls, partition: str, result: KernelResult, key: str | None = None) -> Failure:
        """Return the failure of a kernel; ``key`` instead of the part that the result names."""
        return cls(
            partition=partition,
            error=result.error_type or FirnlineError.__name__,
            message=f"{result.error}; {result.error_next_step}",
            key=key or result.error_key,
        )


def what_helps(failures: Iterable[Failure], then: str = " and run it again") -> str:
    """Return the next step of a run that ended with failures; each of them says its own.

    Where anything but parts was at fault, such as a full disk, nobody is told to touch the parts.

    Args:
        failures: all of the run, as its report has them.
        then: what comes after that step.
    """
    damaged = all(failure.error in _DAMAGED for failure in failures)
    return f"{'repair or restore the named parts' if damaged else 'do what each reason says'}{then}"


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """Progress of a run, for display."""

    groups: int
    groups_done: int
    parts_in: int
    parts_merged: int
    """Parts of groups that are complete, committed or about to be."""
    parts_done: int
    """Parts of groups that are committed."""
    transactions: int
    tasks: int = 0
    """Kernel tasks of a merge, of which a large group has several."""
    tasks_done: int = 0
    partitions: int = 0
    """Above 0 once the new parts are written and their partitions compared with the old ones."""
    partitions_compared: int = 0

    @property
    def compared(self) -> str:
        """Return how many partitions are compared, in words; empty before the first."""
        if not self.partitions:
            return ""
        return f"{self.partitions_compared:,} of {self.partitions:,} partitions compared"

    @property
    def text(self) -> str:
        """Return it in words: parts, groups and, where a group has several, tasks."""
        if self.partitions:
            return self.compared
        text = f"{self.parts_merged:,} of {counted(self.parts_in, 'part')}"
        text += f", {self.groups_done:,} of {counted(self.groups, 'group')} done"
        if self.tasks > self.groups:
            text += f", {self.tasks_done:,} of {counted(self.tasks, 'task')} done"
        return text


class Runner(RunMetrics):
    """One run: its table as of the newest base, its identity, its engine, and what it costs.

    Args:
        table: the table.
        identity: who runs it, for the history.
        engine: called once, when there is a part to read: no JVM starts for nothing.
        locking: see ``refuse_unsafe_store``.
    """

    def __init__(
        self,
        table: Table,
        identity: RunIdentity,
        engine: Callable[[], Engine] | None = None,
        *,
        locking: str | None = None,
    ) -> None:
        super().__init__(table)
        self.identity = identity
        self.replans = 0
        """Times that the run planned again because another run changed the base of the plan."""
        self._locking = locking
        self._open_engine = engine
        self._engine: Engine | None = None

    def take_base(
        self, *, since: Base | None = None, tolerant: bool = False, everything: bool = False
    ) -> Base:
        """Take a base, and use the properties that it states. See ``commit.base.take_base``."""
        base = take_base(self.table, since=since, tolerant=tolerant, everything=everything)
        self.table = base.table
        return base

    def probe(self) -> None:
        """Refuse a store that lets two transactions commit. See ``refuse_unsafe_store``."""
        refuse_unsafe_store(self.table, self._locking)

    @property
    def engine(self) -> Engine:
        """The engine, started when it is first asked for; the history then names its application.

        Raises what starting it raises.
        """
        if self._engine is None:
            assert self._open_engine is not None
            self._engine = self._open_engine()
            name = self._engine.application_id
            self.identity = msgspec.structs.replace(self.identity, application_id=name)
        return self._engine

    def plan_again(self, conflict: CommitConflictError | None = None) -> None:
        """Count a plan that came to nothing, before the next one is made.

        Args:
            conflict: what it met; without it, rivals took parts away.

        Raises CommitConflictError: more than ``merge.max_replans`` did.
        """
        self.replans += 1
        if self.replans <= self.table.settings.merge.max_replans:
            return
        name = self.table.settings.name
        raise conflict or CommitConflictError(
            f"rivals took parts of {name} away {counted(self.replans, 'time')}",
            next_step=f"see in `firnline history {name}` who else maintains it, then run again",
        )

    def run(
        self,
        make_plan: Callable[[Base], PlanT],
        act: Callable[[Base, PlanT], ResultT | None],
        *,
        ends: Callable[[PlanT], bool],
        tolerant: bool = False,
    ) -> tuple[PlanT, ResultT | None]:
        """Plan on the newest base and act, from the start again when a rival was quicker.

        Args:
            make_plan: of a base.
            act: does what was planned, commits it, and returns what came of it; None or
                CommitConflictError when a rival took away what the plan was made on.
            ends: True for a plan after which there is nothing to do: a dry run, or an empty plan.
            tolerant: take the base of a log whose files contradict each other, too.

        Returns:
            The last plan, and what ``act`` returned; None when there was nothing to do.

        Raises CommitConflictError: rivals were quicker more than ``merge.max_replans`` times.
        """
        while True:
            base = self.take_base(tolerant=tolerant)
            plan = make_plan(base)
            if ends(plan):
                return plan, None
            self.probe()
            try:
                result = act(base, plan)
            except CommitConflictError as conflict:
                self.plan_again(conflict)
                continue
            if result is not None:
                return plan, result
            self.plan_again()
