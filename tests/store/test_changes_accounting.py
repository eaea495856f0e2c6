"""What a feed of changes costs on a real store: requests by appends, transactions and parts."""

from __future__ import annotations

from pathlib import Path

import firnline
from firnline.operations.delete.run import run_delete
from firnline.operations.operation import Work
from firnline.operations.options import DeleteOptions
from firnline.read.changes import Changes
from firnline.table import Table
from tests.support.on_store import RUN, engine, filled, merge, opened
from tools.s3server import StoreRoot


def spent(table: Table, since: int | str) -> tuple[Changes, tuple[int, int], int]:
    """The changes, LIST and GET of their plan, and GET of reading them."""
    before = table.store.counters.as_dict()
    found = firnline.changes(table, since)
    planned = table.store.counters.as_dict()
    list(found)
    after = table.store.counters.as_dict()
    assert [after[k] - before[k] for k in ("put", "head", "delete", "retries")] == [0, 0, 0, 0]
    assert after["list"] == planned["list"]
    lists, gets = (planned[k] - before[k] for k in ("list", "get"))
    return found, (lists, gets), after["get"] - planned["get"]


def test_a_feed_reads_appended_parts_both_sides_of_a_delete_and_nothing_of_a_merge(
    s3_root: StoreRoot, tmp_path: Path
) -> None:
    table = filled(opened(s3_root), 3)
    found, log, parts = spent(table, 0)
    assert (log, parts) == ((2, 3), 6), "each log file, and each of two parts of an append"
    position = found.position
    assert spent(table, position)[1:] == ((2, 3), 0), "a look at a log that has not changed"
    options = DeleteOptions(where="id in (1, 2)", mode="eager")
    run_delete(Work(table, RUN, lambda: engine(table, tmp_path)), options)
    _, log, parts = spent(table, position)
    # The record may hide rows of every part that stays: which ones there were, the appends say.
    assert (log, parts) == ((2, 1 + 3), 4), "two parts, before and after"
    position = firnline.changes(table, position).position
    filled(table, 1, first=20)
    merge(table, tmp_path)
    found, log, parts = spent(table, position)
    # And the header of the position's own transaction, which the merge has folded.
    assert (log, parts) == ((2, 1 + 1 + 1), 2), "the merge, the append, and its two parts"
    assert {row["_reason"] for row in found} == {"append"}
    run_delete(Work(table, RUN, lambda: engine(table, tmp_path)), options)
    merge(table, tmp_path)
    position = found.position
    found, log, parts = spent(table, position)
    assert parts == 0, "nothing was deleted and a merge is silent"
