"""Footers of many parts, read by the tasks of a Spark application."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import msgspec
import pyarrow as pa

from firnline.clock import SystemClock
from firnline.kernel.engine import Engine
from firnline.parquet.footers import FooterFacts, FooterTask, FooterWanted, many_facts
from firnline.spark.engine import SparkEngine
from firnline.store.access import StoreAccess
from firnline.store.client import open_store

if TYPE_CHECKING:
    from firnline.operations.verify.run import ReadFooters

PER_TASK = 2_000
"""Footers of one Spark task: some seconds of work."""
PER_JOB = 64
"""Spark tasks of one job: bounds what comes back to the driver at once."""
_SCHEMA = "facts string"
_FACTS = pa.schema([("facts", pa.string())])


def footers_by(engine: Callable[[], Engine]) -> ReadFooters:
    """A reader of footers for ``run_verify`` in the application of a Spark engine.

    Args:
        engine: gives a SparkEngine; called once there are footers to read.
    """

    def read(tasks: Sequence[FooterTask], wanted: FooterWanted) -> Iterator[FooterFacts]:
        if not tasks:
            return
        running = engine()
        assert isinstance(running, SparkEngine)
        running.prepare()
        step = PER_TASK * PER_JOB
        for start in range(0, len(tasks), step):
            yield from _job(running, tasks[start : start + step], wanted)

    return read


def _job(
    engine: SparkEngine, tasks: Sequence[FooterTask], wanted: FooterWanted
) -> Iterator[FooterFacts]:
    bunches = tuple(
        msgspec.json.encode(tasks[start : start + PER_TASK])
        for start in range(0, len(tasks), PER_TASK)
    )
    access = None if engine.access is None else engine.access.to_json()
    function = FooterFunction(bunches, msgspec.json.encode(wanted), engine.root, access)
    numbers = engine.session.range(0, len(bunches), 1, numPartitions=len(bunches))
    found = numbers.mapInArrow(function, _SCHEMA).toArrow()
    decode = msgspec.json.Decoder(FooterFacts).decode
    for column in found["facts"].iterchunks():
        for text in column:
            yield decode(text.as_py())


@dataclass(frozen=True)
class FooterFunction:
    """The function of ``mapInArrow``: a bunch's number in, its footers as JSON out.

    As ``worker.KernelFunction`` it carries the tasks and the credentials in its closure.
    """

    bunches: tuple[bytes, ...]
    """Lists of FooterTask as JSON."""
    wanted: bytes
    root: str
    access: str | None = field(repr=False)

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        access = StoreAccess.from_json(self.access) if self.access else None
        store = open_store(self.root, access, clock=SystemClock())
        wanted = msgspec.json.decode(self.wanted, type=FooterWanted)
        for batch in batches:
            for number in batch.column(0).to_pylist():
                tasks = msgspec.json.decode(self.bunches[number], type=list[FooterTask])
                facts = [
                    msgspec.json.encode(found).decode()
                    for found in many_facts(store, tasks, wanted)
                ]
                yield pa.record_batch([pa.array(facts, pa.string())], schema=_FACTS)
