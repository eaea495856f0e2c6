from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from firnline.kernel.batches import batches
from firnline.kernel.task import KernelInput, KernelTask

MIB = 2**20


def tasks(*sizes: int) -> list[KernelTask]:
    return [
        KernelTask(
            group=number,
            partition="",
            inputs=(KernelInput(key="k", bytes=size, rows=None),),
            columns=(),
            sort_by=(),
            stats_columns=(),
            data_prefix="",
            memory=1,
            threads=1,
            row_group_rows=1,
            compression_level=1,
        )
        for number, size in enumerate(sizes)
    ]


def test_large_groups_are_alone_and_small_ones_share_a_job() -> None:
    found = batches(tasks(*[500 * MIB] * 8, *[MIB] * 64), 2)
    sizes = [len(batch.tasks) for batch in found]
    assert sizes[:8] == [1] * 8
    assert max(sizes[8:]) > 4


def test_every_slot_gets_several_jobs_where_there_are_groups_enough() -> None:
    assert len(batches(tasks(*[100] * 12), 2)) >= 8


@given(st.lists(st.integers(0, 100 * MIB), max_size=200), st.integers(1, 64))
def test_every_group_is_in_one_job_in_order(sizes: list[int], slots: int) -> None:
    found = batches(tasks(*sizes), slots)
    assert [task.group for batch in found for task in batch.tasks] == list(range(len(sizes)))
    assert all(
        len(batch.tasks) == 1 or sum(t.inputs[0].bytes for t in batch.tasks) <= 32 * MIB
        for batch in found
    )
