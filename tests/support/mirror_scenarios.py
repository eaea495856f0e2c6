"""The scenario of a publication: a mirror shows a state that the table had, whatever dies."""

from __future__ import annotations

from unittest.mock import patch

from firnline.appends.append import Appender
from firnline.mirror.delta import checkpoint
from firnline.mirror.delta.head import read_head
from firnline.mirror.delta.replay import Shown, replay
from firnline.operations.delete.run import run_delete
from firnline.operations.mirror.check import run_check
from firnline.operations.mirror.run import run_mirror
from firnline.operations.operation import Work
from firnline.operations.options import DeleteOptions, MirrorOptions
from firnline.state.snapshot import read_snapshot
from firnline.table import Table
from tests.support.histories import rows_from
from tests.support.reading import part_rows
from tests.support.scenarios import Call, Scenario, advance, ids, tidy

State = dict[str, int]
"""Key of each part that a mirror shows -> number of its rows that are hidden."""
SETTINGS = {
    "partition": ".*",
    "sort_by": ["id"],
    "mirror": [{"delta": {"deletes": "vectors"}}],
}


def publish(call: Call) -> None:
    """Each version gets a checkpoint, and versions behind an old one expire."""
    with patch.object(checkpoint, "EVERY", 1):
        run_mirror(Work(call.table, call.run), MirrorOptions())


def shown(table: Table) -> State:
    """What readers of the newest version see."""
    head = read_head(table.store, table.paths)
    found = Shown(-1)
    if head is not None:
        found = replay(table.store, table.paths, head.version, head.listing)
    hidden = {path: vector.rows for path, vector in found.vectors.items()}
    return {table.paths.delta_key(path): hidden.get(path, 0) for path in found.files}


def appended(call: Call, first: int) -> None:
    advance(call.table, 10)
    Appender(call.table).append(rows_from(first), "p")


def published_and_changed(call: Call) -> object:
    """Returns what the version before shows, and what the next one has to show.

    A part comes, and one is hidden by a delete: wholly by its statistics, so that none is read.
    """
    appended(call, 0)
    publish(call)
    appended(call, 6)
    before = shown(call.table)
    run_delete(Work(call.table, call.run, call.engine), DeleteOptions(where="id < 6", mode="lazy"))
    live = read_snapshot(call.table.store, call.table.paths).live
    return before, {key: 6 * is_hidden(call.table, key) for key in live}


def is_hidden(table: Table, key: str) -> bool:
    return all(row["id"] < 6 for row in part_rows(table, key))


def shows_one_of_both(call: Call) -> None:
    assert shown(call.table) in call.known


def shows_the_newest(call: Call) -> None:
    assert shown(call.table) == call.known[1]
    assert run_check(call.table).same


def tidy_and_publish(call: Call) -> None:
    """A clean-up is a transaction, which the mirror shows."""
    tidy(call)
    run_mirror(Work(call.table, call.run), MirrorOptions())


MIRRORS = [
    Scenario(
        "mirror",
        published_and_changed,
        publish,
        ids(range(6, 12)),
        ids(range(6, 12)),
        settings=SETTINGS,
        hides=True,
        idle=True,
        sound=shows_one_of_both,
        settled=shows_the_newest,
        later=tidy_and_publish,
    ),
]
