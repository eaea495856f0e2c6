"""Every store call of a repair of the schema: die there, lose its answer, be interrupted.

A table in conflict cannot be looked at as the other operations' tables are (``test_operations``):
until the repair is published, readers refuse it. So what has to hold is said here: the table is in
conflict with exactly the parts it had, or it reads, with every value.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from hashlib import sha256
from pathlib import Path

import pyarrow as pa
import pytest

from firnline.appends.append import Appender
from firnline.errors import FirnlineError, SchemaConflictError
from firnline.log.txn_file import RunIdentity
from firnline.operations.merge.run import run_merge
from firnline.operations.operation import Work
from firnline.operations.options import ColumnFix, MergeOptions, SchemaFixOptions, VerifyOptions
from firnline.operations.schema.run import run_schema_fix
from firnline.operations.verify.run import run_verify
from firnline.state.history import history
from firnline.state.snapshot import read_snapshot
from firnline.store.access import StoreAccess
from firnline.table import Table
from tests.support.conflicts import foreign_append, values
from tests.support.log_tables import v1_state
from tests.support.places import FolderPlace, MemoryPlace, Place, Saved, keys_in, next_second
from tests.support.scenarios import DAY, PARTITIONED, Call, advance, tidy
from tests.support.sweeping import (
    each_interrupt,
    every_interrupt,
    every_point,
    some_deaths,
    some_points,
    through,
    unpublished,
)
from tests.support.world import INTERRUPTED, Crashed, Fault, FaultyStore, SetClock
from tools.s3server import S3Server, StoreRoot

RUN = RunIdentity(run_id="r")
INTERRUPTS = 8
"""Of a sweep in memory, beside one that commits; all in `make test-full`."""
NUMBERS = [1, 2, 3, 4, 7, 5, 8]
Fix = Callable[[Call], object]


def to_one_type(call: Call) -> None:
    _repair(call, ColumnFix(column="v", type="BIGINT"))


def to_two_names(call: Call) -> None:
    _repair(call, ColumnFix(column="v", rename="v_text"))


def _repair(call: Call, fix: ColumnFix) -> None:
    run_schema_fix(Work(call.table, call.run, call.engine), SchemaFixOptions(fixes=(fix,)))


def contested(place: Place) -> Saved:
    """Two parts of ours, one with texts, and one that only its log file takes for texts.

    Ours have the most bytes, whose type counts.
    """
    table = place.new(PARTITIONED)
    assert isinstance(table.clock, SetClock)
    table.clock.advance(10)
    notes = [sha256(bytes([n])).hexdigest() for n in range(4)]
    Appender(table).append(
        pa.table({"id": range(4), "day": [0, 1, 0, 1], "v": [1, 2, 3, 4], "note": notes})
    )
    foreign_append(table, ("7", "05"))
    foreign_append(table, (8,))
    return place.save(table)


def check(table: Table, fix: Fix, parts: set[str]) -> bool:
    """In conflict with the parts it had, or repaired as a whole; True when it is repaired."""
    state = read_snapshot(table.store, table.paths, tolerant=True)
    logs = {k: data for k, data in table.store.get_many(sorted(keys_in(table, "_log"))) if data}
    assert v1_state(logs | unpublished(table, state)) == state.live.keys()
    assert state.live.keys() <= keys_in(table, "_data")
    if state.conflict is not None:
        assert state.live.keys() == parts
        with pytest.raises(SchemaConflictError):
            read_snapshot(table.store, table.paths)
        return False
    if fix is to_one_type:
        assert values(table) == NUMBERS
    else:
        assert values(table) == [1, 2, 3, 4, None, None, 8]
        assert values(table, "v_text") == [None] * 4 + ["7", "05", None]
    return True


def sweep(place: Place, fix: Fix, scratch: Path, count: int | None = None) -> int:
    """Break the repair at ``count`` points, or at all; how many those were."""
    saved = contested(place)
    clean = Call(place.restored(saved), scratch)
    parts = set(read_snapshot(clean.table.store, clean.table.paths, tolerant=True).live)
    store = FaultyStore(clean.table.store)
    fix(through(clean, store))
    assert check(clean.table, fix, parts)
    committing = partial(commits, store.calls)
    if count is None:
        points = some_deaths(store.calls, committing, fix.__name__)
        interrupts = every_interrupt(store.calls)
        points += some_points(interrupts, committing, INTERRUPTS, fix.__name__)
    else:
        every = [*every_point(store.calls), *each_interrupt(store.calls)]
        points = some_points(every, committing, count, place.kind)
    for fault in points:
        call = Call(place.restored(saved), scratch)
        try:
            _one(call, fix, fault, parts)
        except Exception as error:
            error.add_note(f"{place.kind}: {fault}, call {store.calls[fault.at]}")
            raise
    return len(points)


def commits(calls: list[str], index: int) -> bool:
    return calls[index].startswith("put") and bool({"_txn", "_log"} & set(calls[index].split("/")))


def _one(call: Call, fix: Fix, fault: Fault, parts: set[str]) -> None:
    table = call.table
    try:
        fix(through(call, FaultyStore(table.store, fault)))
    except (Crashed, FirnlineError, *INTERRUPTED):
        check(table, fix, parts)
    else:
        assert check(table, fix, parts)
    advance(table, 1000)
    if history(table):
        # Committed: whoever comes next publishes it, also one that never tolerates a conflict.
        run_merge(Work(table, call.run, call.engine), MergeOptions(partitions=("day=1",)))
        assert check(table, fix, parts)
    fix(call)
    assert check(table, fix, parts)
    assert [header.op for header in history(table)].count("schema-fix") == 1
    idle = FaultyStore(table.store)
    fix(through(call, idle))
    assert not [made for made in idle.calls if made.startswith(("put", "delete"))]
    for _ in range(2):  # of an idle table the first sweep only marks what the second deletes
        advance(table, 4 * DAY)
        next_second(table)
        tidy(call)
        assert check(table, fix, parts)
    assert keys_in(table, "_data") == read_snapshot(table.store, table.paths).live.keys()
    assert run_verify(Work(table), VerifyOptions(deep=True)).healthy
    assert list(call.scratch.iterdir()) == [], "scratch is cleaned"


@pytest.mark.parametrize("fix", [to_one_type, to_two_names])
def test_a_repair_that_dies_at_any_store_call_has_mended_everything_or_nothing(
    fix: Fix, tmp_path: Path
) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    assert sweep(MemoryPlace(), fix, scratch) >= 12


def test_the_same_through_the_client_of_a_real_store(
    store_root: StoreRoot, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    if store_root.kind == "file":
        folder = Path(store_root.url.removeprefix("file://"))
        place = FolderPlace("file", store_root.url, folder, tmp_path / "copies")
    else:
        server: S3Server = request.getfixturevalue("s3_server")
        folder = server.data_dir / store_root.url.removeprefix("s3://")
        access = StoreAccess.from_env(store_root.env)
        place = FolderPlace("s3", store_root.url, folder, tmp_path / "copies", access)
    count = 6 if place.kind == "file" else 3
    assert sweep(place, to_one_type, scratch, count) >= count
