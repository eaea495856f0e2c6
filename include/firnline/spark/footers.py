"""Read the footers of many parts in the tasks of a Spark application."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import msgspec

from firnline.clock import SystemClock
from firnline.kernel.engine import Engine
from firnline.parquet.footers import FooterFacts, FooterTask, FooterWanted, many_facts
from firnline.spark.engine import SparkEngine
from firnline.spark.preflight import faults
from firnline.spark.tasks import collect
from firnline.store.access import StoreAccess
from firnline.store.client import open_store

if TYPE_CHECKING:
    from firnline.operations.verify.run import ReadFooters

PER_TASK = 2_000
"""Footers per Spark task: some seconds of work."""
PER_JOB = 64
"""Spark tasks per job: limits the data returned to the driver at once."""


def footers_by(engine: Callable[[], Engine]) -> ReadFooters:
    """Return a reader of footers for ``run_verify`` that uses the application of a Spark engine.

    Args:
        engine: returns a SparkEngine; called only if there are footers to read.
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
    batches = tuple(
        msgspec.json.encode(tasks[start : start + PER_TASK])
        for start in range(0, len(tasks), PER_TASK)
    )
    access = None if engine.access is None else engine.access.to_json()
    function = FooterFunction(batches, msgspec.json.encode(wanted), engine.root, access)
    with faults():  # of an executor that started after the check
        found = collect(engine.session, function, len(batches), len(batches))
    decode = msgspec.json.Decoder(FooterFacts).decode
    yield from map(decode, found)


@dataclass(frozen=True)
class FooterFunction:
    """The function of a job (``spark.tasks``): takes a batch's number, returns JSON by footer."""

    batches: tuple[bytes, ...]
    """Lists of FooterTask as JSON."""
    wanted: bytes
    root: str
    access: str | None = field(repr=False)

    def __call__(self, number: int) -> Iterator[str]:
        """Read the footers of the batch of this number."""
        access = StoreAccess.from_json(self.access) if self.access else None
        store = open_store(self.root, access, clock=SystemClock())
        wanted = msgspec.json.decode(self.wanted, type=FooterWanted)
        tasks = msgspec.json.decode(self.batches[number], type=list[FooterTask])
        for found in many_facts(store, tasks, wanted):
            yield msgspec.json.encode(found).decode()
