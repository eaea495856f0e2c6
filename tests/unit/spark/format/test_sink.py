"""A batch of a stream is in the table once, however often Spark has it committed."""

from __future__ import annotations

from pathlib import Path

from firnline.operations.operation import Work
from firnline.spark.format.sink import StreamWriter
from firnline.spark.format.write import Written, withdraw
from tests.unit.spark.format.test_write import make, mirrored, parts, rows, seen, shown

QUERY = {"queryId": "q"}


def test_a_batch_that_is_there_is_not_appended_again_and_leaves_no_part(tmp_path: Path) -> None:
    """The driver died before Spark noted that the batch was done."""
    table, target = make(tmp_path)
    for number in (0, 1):
        sink = StreamWriter(target, QUERY)
        sink.commit([sink.write(rows(2 + number))], number)
    before = parts(table)
    again = StreamWriter(target, QUERY)
    again.commit([again.write(rows(3))], 1)
    assert (seen(table, "x"), parts(table)) == ([0, 1, 2, 3], before)


def test_a_batch_publishes_the_mirror_if_it_is_asked_to_and_its_repetition_does_too(
    tmp_path: Path,
) -> None:
    """The driver may have died between the two."""
    _, target = make(tmp_path)
    target = mirrored(target)
    sink = StreamWriter(target, QUERY)
    sink.commit([sink.write(rows(2))], 0)
    assert shown(tmp_path) == 0
    again = StreamWriter(target, {**QUERY, "mirror": "true"})
    again.commit([again.write(rows(2))], 0)
    assert shown(tmp_path) == 1
    again.commit([again.write(rows(3))], 1)
    assert shown(tmp_path) == 2


def test_parts_are_deleted_when_a_task_failed_and_stay_when_only_the_commit_did(
    tmp_path: Path,
) -> None:
    """Whether a commit without an answer had its effect, nobody knows here."""
    table, target = make(tmp_path)
    before = parts(table)
    written: Written = StreamWriter(target, QUERY).write(rows(2))
    withdraw(target, [written])
    assert len(parts(table)) == len(before) + 1
    withdraw(target, [written, None])
    assert parts(table) == before


def test_a_delete_that_one_task_did_not_know_hides_the_rows_of_all(tmp_path: Path) -> None:
    from firnline.operations.delete.run import run_delete
    from firnline.operations.options import DeleteOptions
    from tests.support.on_store import RUN, engine

    table, target = make(tmp_path)
    first = StreamWriter(target, QUERY).write(rows(7))
    options = DeleteOptions(where="x = 7", mode="lazy")
    run_delete(Work(table, RUN, lambda: engine(table, tmp_path / "scratch")), options)
    second = StreamWriter(target, QUERY).write(rows(8))
    assert [message.begun.q for message in (first, second)] == [0, 1]
    StreamWriter(target, QUERY).commit([first, second], 0)
    assert seen(table, "x") == [0, 1, 8]
