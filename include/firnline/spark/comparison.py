"""Compare the rows of a prepared change, before and after it, in the tasks of a Spark application.

Each task compares whole partitions, one after another, within the memory of a kernel. The driver
gets what the tasks count and a few rows, and reads no part.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import TYPE_CHECKING

import msgspec

from firnline.clock import SystemClock
from firnline.errors import FirnlineError, KernelError, raised_elsewhere
from firnline.operations.prepared.comparing import compare_pieces
from firnline.operations.prepared.evidence import Evidence, added
from firnline.operations.prepared.pieces import Compare, Compared, Piece, Wanted
from firnline.read.duckdb import Limits
from firnline.spark.preflight import fault_of
from firnline.spark.reasons import TASK_MEMORY, reason
from firnline.spark.tasks import collect
from firnline.spark.worker import scratch_of
from firnline.store.access import StoreAccess
from firnline.store.client import open_store
from firnline.units import counted

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

TASK_BYTES = 32 * 2**20
"""Parts of a task that compares several partitions; a larger partition is alone in its task."""
TASK_PIECES = 64
"""Partitions of a task at most."""
JOB_TASKS = 64
"""Tasks of a job, or as many as the cluster has slots: bounds what the driver gets at once."""
JOB_PARTS = 50_000
"""Parts of a job, beyond its last task: their names are sent to each task, 10 MiB of them."""


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a task: the evidence of its pieces, or an error."""

    number: int
    """Of the task."""
    compared: Compared | None = None
    error: str = ""
    error_type: str = ""
    """Name of its class in firnline.errors."""
    error_next_step: str = ""


def comparison_by(
    session: SparkSession, root: str, access: StoreAccess | None, scratch: str | None, slots: int
) -> Compare:
    """Return what compares pieces in tasks of a session whose executors are ready.

    Args:
        session: classic or Connect.
        root: root URL of the table.
        access: credentials for the executors; None: those that they find themselves.
        scratch: local folder on the executors; None: the disks that Spark gives them.
        slots: number of concurrent tasks.
    """

    def compare(pieces: Iterable[Piece], wanted: Wanted) -> Iterator[Compared]:
        text = None if access is None else access.to_json()
        for job in jobs(groups(pieces), max(JOB_TASKS, slots)):
            tasks = tuple(msgspec.json.encode(group) for group in job)
            function = CompareFunction(tasks, msgspec.json.encode(wanted), root, text, scratch)
            yield from _run(session, function)

    return compare


def groups(pieces: Iterable[Piece]) -> Iterator[list[Piece]]:
    """Yield neighbouring pieces that one task compares."""
    held: list[Piece] = []
    size = 0
    for piece in pieces:
        if held and (size + piece.bytes > TASK_BYTES or len(held) >= TASK_PIECES):
            yield held
            held, size = [], 0
        held.append(piece)
        size += piece.bytes
    if held:
        yield held


def jobs(tasks: Iterable[list[Piece]], most: int) -> Iterator[list[list[Piece]]]:
    """Yield the tasks of one Spark job after another."""
    held: list[list[Piece]] = []
    parts = 0
    for task in tasks:
        held.append(task)
        parts += sum(piece.parts for piece in task)
        if len(held) >= most or parts >= JOB_PARTS:
            yield held
            held, parts = [], 0
    if held:
        yield held


def _run(session: SparkSession, function: CompareFunction) -> Iterator[Compared]:
    """Run one job. Raises the error of the first task that met one."""
    number = len(function.tasks)
    try:
        found = collect(session, function, number, number)
    except Exception as error:
        raise _fault(error, number) from error
    decode = msgspec.json.Decoder(Answer).decode
    for answer in sorted(map(decode, found), key=attrgetter("number")):
        if answer.compared is None:
            raise raised_elsewhere(answer.error_type, answer.error, answer.error_next_step)
        yield answer.compared


def _fault(error: Exception, tasks: int) -> FirnlineError:
    """Return the error for a job that Spark gave up."""
    fault = fault_of(str(error))  # of an executor that started after the check
    if fault is not None:
        return fault
    return KernelError(
        f"the comparison of the rows before and after, in {counted(tasks, 'Spark task')}, died: "
        f"{reason(str(error) or type(error).__name__)}",
        next_step=TASK_MEMORY,
    )


@dataclass(frozen=True)
class CompareFunction:
    """The function of a job (``spark.tasks``): takes a task's number, returns an answer as JSON."""

    tasks: tuple[bytes, ...]
    """Lists of Piece as JSON."""
    wanted: bytes
    root: str
    access: str | None = field(repr=False)
    scratch: str | None

    def __call__(self, number: int) -> list[str]:
        return [msgspec.json.encode(self.answer(number)).decode()]

    def answer(self, number: int) -> Answer:
        """Compare the pieces of one task, with a store and a scratch folder of its own."""
        pieces = msgspec.json.decode(self.tasks[number], type=list[Piece])
        wanted = msgspec.json.decode(self.wanted, type=Wanted)
        disk = scratch_of(self.scratch, number)
        disk.mkdir(parents=True, exist_ok=True)
        try:
            with tempfile.TemporaryDirectory(prefix="firnline-evidence-", dir=disk) as folder:
                return Answer(
                    number=number, compared=self._compared(pieces, wanted, disk / folder / "spill")
                )
        except FirnlineError as error:
            return Answer(
                number=number,
                error=error.message,
                error_type=type(error).__name__,
                error_next_step=error.next_step,
            )

    def _compared(self, pieces: Sequence[Piece], wanted: Wanted, spill: Path) -> Compared:
        access = StoreAccess.from_json(self.access) if self.access else None
        store = open_store(self.root, access, clock=SystemClock())
        limits = Limits(wanted.memory, wanted.threads, spill)
        found = Evidence()
        for more in compare_pieces(pieces, wanted, store, limits):
            found = added(found, more, wanted.samples)
        return Compared(evidence=found, requests=store.counters.as_dict())
