"""Run a function for numbers in the tasks of a Spark application, and collect the texts it returns.

A classic session does that with an RDD: no query is analysed, planned and converted to Arrow for a
few numbers (RFC 15). A Connect server has no RDDs; there the numbers are rows of a query, which
passes them through ``mapInArrow``.

The function is sent in Spark's closure, which appears in no argument list, configuration or log:
the only place for credentials. What it works on is part of it, too.

This module is loaded on the executors: it imports what Spark itself needs there and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession


class Function(Protocol):
    """A function that the executors call; it is pickled to get there."""

    def __call__(self, number: int, /) -> Iterable[str]:
        """Return the texts for a number."""
        ...


def collect(session: SparkSession, function: Function, numbers: int, tasks: int) -> list[str]:
    """Run one Spark job; return all texts, in no certain order.

    Args:
        session: classic or Connect.
        function: is called for each number from 0.
        numbers: how many there are.
        tasks: Spark tasks that share them evenly.

    Raises the errors of pyspark.
    """
    if is_connect(session):
        rows = session.range(0, numbers, 1, numPartitions=tasks)
        found: list[str] = (
            rows.mapInArrow(_InArrow(function), "text string").toArrow()["text"].to_pylist()
        )
        return found
    texts: list[str] = (
        session.sparkContext.parallelize(range(numbers), tasks).flatMap(function).collect()
    )
    return texts


def is_connect(session: SparkSession) -> bool:
    """Return True if the session is one on a Connect server."""
    return type(session).__module__.startswith("pyspark.sql.connect")


@dataclass(frozen=True)
class _InArrow:
    """The function of ``mapInArrow``: takes rows with a number each, returns rows with a text."""

    function: Function

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield pa.record_batch({"text": pa.array(self.function(number), pa.string())})
