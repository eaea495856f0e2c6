"""Kernels for tests: they count rows and write nothing but a name."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from firnline.kernel.task import KernelResult, KernelTask
from firnline.parquet.part import WrittenPart
from tests.support.world import World


@dataclass
class CountingEngine:
    """Merges by adding up the rows that the markers state."""

    world: World
    fail: dict[str, str] = field(default_factory=dict)
    """Partition -> message of the error its group ends with."""
    lose_rows: int = 0
    between: Callable[[int], None] = lambda _: None
    """Called with the number of results so far before each result."""
    tasks: list[KernelTask] = field(default_factory=list)
    application_id: str = "app-1"

    def run(self, tasks: Sequence[KernelTask]) -> Iterator[KernelResult | None]:
        self.tasks += tasks
        for number, task in enumerate(tasks):
            self.between(number)
            yield None
            yield self._result(task)

    def _result(self, task: KernelTask) -> KernelResult:
        if task.partition in self.fail:
            return KernelResult(
                group=task.group,
                error=self.fail[task.partition],
                error_type="PartUnreadableError",
                error_next_step="repair it",
                error_key=task.inputs[0].key,
            )
        rows = sum(i.rows or 0 for i in task.inputs)
        world = self.world
        key = f"{task.data_prefix}{world.ids.uuid7(world.clock.now)}.parquet"
        world.store.objects[key] = (b"rows", world.clock.now)
        part = WrittenPart(
            key=key,
            partition=task.partition,
            bytes=sum(i.bytes for i in task.inputs),
            rows=rows - self.lose_rows,
            stats={},
        )
        return KernelResult(
            group=task.group, parts=(part,), rows_in=rows, requests={"get": len(task.inputs)}
        )
