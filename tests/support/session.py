"""Stand-ins for Spark sessions that run the function of a job here."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import pyarrow as pa


@dataclass(eq=False)
class Classic:
    """As much of a classic session, and of its context, as ``spark.tasks.collect`` takes."""

    error: Exception | None = None
    """What every job fails with."""
    backwards: bool = False
    """The last task's texts come first."""
    jobs: list[int] = field(default_factory=list)
    """Number of tasks of each job."""

    @property
    def sparkContext(self) -> Self:  # noqa: N802 -- Spark's
        return self

    def parallelize(self, numbers: Sequence[int], tasks: int) -> _Numbers:
        self.jobs.append(tasks)
        return _Numbers(list(numbers)[:: -1 if self.backwards else 1], self.error)


@dataclass
class _Numbers:
    numbers: Iterable[Any]
    error: Exception | None

    def flatMap(self, function: Callable[[int], Iterable[str]]) -> _Numbers:  # noqa: N802 -- Spark's
        # As lazily as Spark.
        return _Numbers((text for n in self.numbers for text in function(n)), self.error)

    def collect(self) -> list[str]:
        if self.error is not None:
            raise self.error
        return list(self.numbers)


class Connected:
    """As much of a session on a Connect server."""

    def __init__(self) -> None:
        self.jobs: list[int] = []

    def range(self, start: int, end: int, _step: int, *, numPartitions: int) -> _Rows:  # noqa: N803 -- Spark's
        self.jobs.append(numPartitions)
        return _Rows([pa.record_batch({"id": range(start, end)})])


# By which firnline tells them apart.
Connected.__module__ = "pyspark.sql.connect.session"


@dataclass
class _Rows:
    batches: list[pa.RecordBatch]

    def mapInArrow(self, function: Any, schema: str) -> _Rows:  # noqa: N802 -- Spark's
        assert schema == "text string"
        return _Rows(list(function(iter(self.batches))))

    def toArrow(self) -> pa.Table:  # noqa: N802 -- Spark's
        return pa.Table.from_batches(self.batches)
