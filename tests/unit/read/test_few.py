"""The number of rows, the first of them, and frames: what they are, and what they cost."""

from __future__ import annotations

import datetime
import random
from collections import Counter
from dataclasses import replace
from importlib.util import find_spec
from typing import Any

import msgspec
import pandas as pd  # type: ignore[import-untyped]
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import firnline
from firnline import extras
from firnline.appends.append import Appender
from firnline.errors import EnvironmentFaultError, PartGoneError, UsageError
from firnline.log.txn_file import RunIdentity
from firnline.operations.delete.run import run_delete
from firnline.operations.operation import Work
from firnline.operations.options import DeleteOptions
from firnline.read.files import WHOLE
from firnline.read.scan import Scan
from tests.support.effort import examples
from tests.support.world import World, make_world


def table_of(*appends: pa.Table, **declared: Any) -> World:
    world = make_world(**declared)
    for rows in appends:
        world.clock.advance(10)
        Appender(world.table).append(rows)
    return world


def hide(world: World, where: str) -> None:
    """A delete that waits for a merge."""
    world.clock.advance(10)
    options = DeleteOptions(where=where, mode="lazy")
    run_delete(Work(world.table, RunIdentity(), lambda: pytest.fail("no part is read")), options)


def untold(scan: Scan) -> Scan:
    """The same scan of parts whose writer did not state their rows."""
    task = scan.plan.task
    parts = tuple(msgspec.structs.replace(part, rows=-1) for part in task.parts)
    return replace(scan, plan=replace(scan.plan, task=msgspec.structs.replace(task, parts=parts)))


def gets(world: World) -> int:
    return world.store.counters.get


def fetched(world: World, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Bytes of each range that is read from now on."""
    found: list[int] = []
    get_range = world.store.get_range

    def noted(key: str, start: int, length: int) -> bytes:
        found.append(length)
        return get_range(key, start, length)

    monkeypatch.setattr(world.store, "get_range", noted)
    return found


def numbers(*values: int) -> pa.Table:
    return pa.table({"a": pa.array(values, pa.int64())})


# --- count ----------------------------------------------------------------------------------------


def test_rows_that_the_log_states_are_counted_without_a_request() -> None:
    world = table_of(numbers(1, 2), numbers(3))
    scan = firnline.scan(world.table)
    before = world.store.counters.as_dict()
    assert scan.count() == 3
    assert world.store.counters.as_dict() == before


@pytest.mark.long
def test_of_parts_whose_rows_nobody_states_the_footers_are_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    noise = random.Random(3)
    rows = pa.table({"a": [noise.randbytes(16) for _ in range(30_000)]})
    world = table_of(rows, rows, merge={"row_group_rows": 10_000})
    scan = untold(firnline.scan(world.table))
    assert all(part.bytes > WHOLE for part in scan.plan.task.parts)
    ranges = fetched(world, monkeypatch)
    assert scan.count() == 60_000
    assert ranges == [2**14, 2**14]


def test_only_the_parts_in_which_a_delete_may_hide_rows_are_read() -> None:
    world = table_of(numbers(1, 2), numbers(3), numbers(4), sort_by=["a"])
    hide(world, "a = 2")
    scan = firnline.scan(world.table)
    before = gets(world)
    assert scan.count() == 3
    assert gets(world) - before == 1


@pytest.mark.long
@pytest.mark.parametrize("declared", [{}, {"primary_key": ["a"]}], ids=["plain", "a key"])
def test_only_the_columns_that_decide_are_read(
    declared: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    noise = random.Random(3)
    wide = [noise.randbytes(64) for _ in range(30_000)]
    world = table_of(pa.table({"a": list(range(30_000)), "wide": wide}), **declared)
    scan = firnline.scan(world.table, where="a >= 10")
    ranges = fetched(world, monkeypatch)
    assert scan.count() == 29_990
    assert sum(ranges) < 30_000 * 64 // 4 < scan.plan.task.bytes


def test_parts_that_are_not_selected_are_not_counted() -> None:
    world = table_of(numbers(1, 2), numbers(3), sort_by=["a"])
    scan = firnline.scan(world.table, where="a > 2")
    before = gets(world)
    assert scan.count() == 1
    assert gets(world) - before == 1


@pytest.mark.long
def test_a_count_that_has_to_read_names_a_part_that_is_gone() -> None:
    world = table_of(numbers(1, 2))
    scan = firnline.scan(world.table, where="a = 1")
    del world.store.objects[scan.plan.task.parts[0].key]
    with pytest.raises(PartGoneError, match="has no object any more"):
        scan.count()


def test_an_earlier_state_has_the_rows_of_then() -> None:
    world = table_of(numbers(1, 2))
    hide(world, "a = 1")
    Appender(world.table).append(numbers(3, 4, 5))
    assert firnline.scan(world.table).count() == 4
    assert firnline.scan(world.table, at=0).count() == 2
    assert firnline.scan(world.table, at=0).head().num_rows == 2


APPENDS = st.lists(st.lists(st.integers(0, 5), min_size=1, max_size=4), min_size=1, max_size=5)
HIDDEN = st.sampled_from(["a > 2", "a = 9", "a < 4 and a <> 1"])
CONDITIONS = st.sampled_from([None, "a > 2", "a = 9", "b = 'x'", "a < 4 or b is null"])


@pytest.mark.long
@examples(40, 1_000)
@given(
    APPENDS,
    HIDDEN,
    st.integers(0, 5),
    CONDITIONS,
    st.booleans(),
    st.booleans(),
    st.integers(0, 12),
)
def test_count_and_head_agree_with_all_rows(
    appends: list[list[int]],
    hidden: str,
    after: int,
    where: str | None,
    keyed: bool,
    told: bool,
    wanted: int,
) -> None:
    declared: dict[str, Any] = {"primary_key" if keyed else "sort_by": ["a"]}
    world = make_world(**declared)
    for number, values in enumerate(appends):
        world.clock.advance(10)
        texts = ["x" if value % 2 else None for value in values]
        Appender(world.table).append(numbers(*values).append_column("b", pa.array(texts, "string")))
        if number == after:
            hide(world, hidden)
    scan = firnline.scan(world.table, where=where)
    scan = scan if told else untold(scan)
    every = Counter(map(str, scan.to_arrow().to_pylist()))
    assert scan.count() == every.total()
    first = scan.head(wanted)
    assert first.num_rows == min(wanted, every.total())
    assert first.schema == scan.to_arrow().schema
    assert Counter(map(str, first.to_pylist())) <= every


# --- head -----------------------------------------------------------------------------------------


def test_no_part_is_read_beyond_those_that_hold_the_rows_wanted() -> None:
    world = table_of(*(numbers(n, n + 1) for n in range(0, 20, 2)))
    scan = firnline.scan(world.table)
    for wanted, parts in ((1, 1), (2, 1), (5, 3), (20, 10), (0, 0), (99, 10)):
        before = gets(world)
        assert scan.head(wanted).num_rows == min(wanted, 20)
        assert gets(world) - before == parts, wanted


def test_a_part_without_hidden_rows_is_read_before_one_with_some() -> None:
    world = table_of(numbers(1, 2), numbers(3, 4), sort_by=["a"])
    hide(world, "a = 1")
    scan = firnline.scan(world.table)
    before = gets(world)
    assert scan.head(2)["a"].to_pylist() == [3, 4]
    assert gets(world) - before == 1


@pytest.mark.long
def test_rare_rows_are_looked_for_in_twice_as_many_parts_each_time() -> None:
    world = table_of(*(numbers(n, n + 100) for n in range(16)), sort_by=["a"])
    scan = firnline.scan(world.table, where="a between 4 and 90")
    before = gets(world)
    (found,) = scan.head(1)["a"].to_pylist()
    assert found in range(4, 7)  # one of the third piece, whose parts are read at once
    assert gets(world) - before == 1 + 2 + 4  # the fifth part is the first that has one
    before = gets(world)
    assert scan.head(4).num_rows == 4
    assert gets(world) - before == 1 + 2 + 4 + 8


def test_a_few_rows_do_not_keep_their_batch_in_memory() -> None:
    world = table_of(numbers(*range(10_000)))
    found = firnline.scan(world.table).head()
    assert found.num_rows == 5
    assert sum(b.size for c in found.columns for k in c.chunks for b in k.buffers() if b) < 1_000


def test_a_number_below_zero_is_refused() -> None:
    scan = firnline.scan(table_of(numbers(1)).table)
    with pytest.raises(UsageError, match="the number of rows is -1"):
        scan.head(-1)


def test_a_table_without_a_live_part_has_no_rows_and_its_columns() -> None:
    world = table_of(numbers(1))
    scan = firnline.scan(world.table, partitions=(), where="a = 7")
    assert scan.count() == 0
    assert scan.head().schema == pa.schema({"a": pa.int64()})
    assert (len(scan.to_polars()), list(scan.to_pandas().columns)) == (0, ["a"])


# --- frames ---------------------------------------------------------------------------------------

ROWS = pa.table(
    {
        "n": [1, 2],
        "text": ["a", None],
        "day": [datetime.date(2013, 1, 5), datetime.date(2013, 1, 6)],
        "ts": pa.array([0, None], pa.timestamp("us", "UTC")),
        "list": [[1, 2], None],
    }
)


@pytest.mark.long
def test_frames_of_polars_have_the_types_of_the_lazy_one() -> None:
    scan = firnline.scan(table_of(ROWS).table, columns=["ts", "n", "text", "list"])
    found = scan.to_polars()
    lazy = scan.polars().collect()
    assert isinstance(found, pl.DataFrame)
    assert found.schema == lazy.schema
    assert found.equals(lazy)
    assert found.columns == ["ts", "n", "text", "list"]


def test_frames_of_pandas_have_the_rows_that_arrow_has() -> None:
    scan = firnline.scan(table_of(ROWS).table, where="n = 1")
    found = scan.to_pandas()
    pd.testing.assert_frame_equal(found, scan.to_arrow().to_pandas())
    assert found["day"].tolist() == [datetime.date(2013, 1, 5)]


@pytest.mark.parametrize("package", ["pandas", "polars"])
def test_a_library_that_is_missing_is_named_with_its_command(
    package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    scan = firnline.scan(table_of(ROWS).table)
    gone = {package}
    monkeypatch.setattr(extras, "find_spec", lambda n: None if n in gone else find_spec(n))
    with pytest.raises(EnvironmentFaultError, match=f"{package} is not installed") as caught:
        getattr(scan, f"to_{package}")()
    assert caught.value.next_step == f"install it with {extras.to_install(package)}"


def test_rows_without_a_column_are_refused_before_anything_is_read() -> None:
    world = table_of(pa.table({"id": [1, 2]}))
    for read in (
        lambda: firnline.scan(world.table, columns=[]),
        lambda: firnline.changes(world.table, None, columns=()),
    ):
        with pytest.raises(UsageError, match="columns names no column") as caught:
            read()
        assert caught.value.next_step == "name one, or leave columns out for all"
