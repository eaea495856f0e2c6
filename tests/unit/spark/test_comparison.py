"""Comparisons in tasks: how partitions are put together, and what becomes of errors."""

from __future__ import annotations

import pytest

from firnline.errors import EnvironmentFaultError, FirnlineError, KernelError, StoreError
from firnline.operations.prepared.pieces import Piece, Wanted
from firnline.read.task import ReadPart, ReadTask
from firnline.spark import comparison
from firnline.spark.comparison import CompareFunction, comparison_by, groups, jobs
from tests.support.session import Classic

NO_ROWS = ReadTask(parts=(), columns=(), needed=())
WANTED = Wanted(keys=(), samples=0, memory=2**26, threads=1)


def piece(name: str, *sizes: int) -> Piece:
    parts = tuple(
        ReadPart(key=f"{name}-{n}", bytes=size, place=n, partition=0)
        for n, size in enumerate(sizes)
    )
    return Piece(name, ReadTask(parts=parts, columns=(), needed=()), NO_ROWS)


def names(found: list[Piece]) -> str:
    return "".join(each.partition for each in found)


def test_small_partitions_share_a_task_and_large_ones_are_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(comparison, "TASK_BYTES", 10)
    monkeypatch.setattr(comparison, "TASK_PIECES", 3)
    pieces = [piece("a", 4, 5), piece("b", 99), piece("c", 1), *(piece(x) for x in "defg")]
    assert list(map(names, groups(pieces))) == ["a", "b", "cde", "fg"]
    assert list(groups([])) == []


def test_a_job_has_so_many_tasks_and_parts_and_loses_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(comparison, "JOB_PARTS", 4)
    tasks = [[piece("a")], [piece("b")], [piece("c")], [piece("d", 1, 1), piece("e", 1, 1)]]
    tasks += [[piece("f")]]
    found = [[names(task) for task in job] for job in jobs(tasks, 2)]
    assert found == [["a", "b"], ["c", "de"], ["f"]]
    assert [len(job) for job in jobs(tasks, 9)] == [4, 1]


def test_credentials_are_not_in_the_text_of_the_function() -> None:
    function = CompareFunction((), b"", "s3://bucket/t", '{"secret_key":"hidden"}', None)
    assert "hidden" not in repr(function)


def compared(session: Classic, root: str, scratch: str) -> list[str]:
    compare = comparison_by(session, root, None, scratch, 1)  # type: ignore[arg-type]  # a stand-in
    kinds = (("n", "BIGINT"),)
    empty = ReadTask(parts=(), columns=kinds, needed=kinds)
    found = compare([Piece(name, empty, empty) for name in "abc"], WANTED)
    return [each.partition for one in found for each in one.evidence.partitions]


@pytest.mark.long
def test_results_come_in_the_order_of_the_pieces(
    tmp_path: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(comparison, "TASK_PIECES", 1)
    root = f"file://{tmp_path}"
    assert compared(Classic(backwards=True), root, str(tmp_path)) == ["a", "b", "c"]


def test_an_error_of_a_task_is_raised_by_its_own_name(
    tmp_path: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise StoreError("the store is away", next_step="look for it")

    monkeypatch.setattr(comparison, "compare_pieces", fail)
    with pytest.raises(StoreError, match=r"^the store is away; look for it$"):
        compared(Classic(), f"file://{tmp_path}", str(tmp_path))


@pytest.mark.parametrize(
    ("said", "kind", "told"),
    [
        ("ModuleNotFoundError: No module named 'fsspec'", EnvironmentFaultError, "fsspec"),
        (
            "x\nReason: Executor heartbeat timed out.\n",
            KernelError,
            "in 1 Spark task, died: Executor heartbeat timed out; read the executor's log",
        ),
    ],
)
def test_a_job_that_spark_gives_up_is_one_sentence(
    tmp_path: object, said: str, kind: type[FirnlineError], told: str
) -> None:
    with pytest.raises(kind, match=told):
        compared(Classic(RuntimeError(said)), f"file://{tmp_path}", str(tmp_path))
