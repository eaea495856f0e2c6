"""Who wrote the rows of a part: from the key of its log file, and through all that replaces it."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from firnline.appends.append import Appender
from firnline.clock import SystemClock
from firnline.errors import UsageError
from firnline.kernel.local import LocalEngine
from firnline.log import codec
from firnline.log.records import LogContent, Marker
from firnline.log.txn_file import RunIdentity
from firnline.log.union import combine
from firnline.log.writers import MOST, writers_of
from firnline.operations.merge.run import run_merge
from firnline.operations.operation import Work
from firnline.operations.options import MergeOptions
from firnline.paths import TablePaths, writer_in
from firnline.settings.load import settings_for_root
from firnline.table import open_table
from tests.support.cleanups import GRACE, clean_up
from tests.support.log_tables import snapshot
from tests.support.world import World, make_world

PATHS = TablePaths("t")
ID = "018bcfe5-6800-7000-8000-000000000001"


def log_file(name: str) -> str:
    return f"t/_log/1700000000000_{name}.jsonl"


def marker(name: str = "a", w: tuple[str, ...] | None = None) -> Marker:
    return Marker(p=f"t/_data/d=1/{name}.parquet", b=1, t=1, n=1, w=w)


def append(world: World, *writers: str) -> None:
    for writer in writers:
        world.clock.advance(10)
        Appender(world.table, writer=writer).append(pa.table({"d": [1], "n": [1]}))


def merge(world: World, scratch: Path) -> None:
    engine = LocalEngine(lambda: world.store, scratch, world.ids, SystemClock())
    run_merge(Work(world.table, RunIdentity(run_id="r"), lambda: engine), MergeOptions(full=True))


def live(world: World) -> list[tuple[str, ...] | None]:
    return [m.w for m in snapshot(world).live.values()]


@pytest.mark.parametrize(
    ("name", "writer"),
    [
        (f"billing-{ID}", "billing"),
        (f"billing-service.eu-1-{ID}", "billing-service.eu-1"),
        (
            f"host-7f1c2d3e-0000-4000-8000-000000000001-{ID}",
            "host-7f1c2d3e-0000-4000-8000-000000000001",
        ),
        (f"firnline-{ID}", None),
        (ID, None),
        ("worker.local", None),
        (f"m_billing-{ID}", None),
        (f"x_billing-{ID}", None),
        (f"m_{1:020d}-{ID}", None),
    ],
)
def test_the_writer_of_a_log_file_is_in_its_key(name: str, writer: str | None) -> None:
    assert writer_in(log_file(name)) == writer


def test_a_marker_says_what_the_key_of_its_log_file_says_and_not_what_it_says_itself() -> None:
    data = codec.encode(LogContent(t=1, schema={}, markers=[marker(w=("somebody",))]))
    (found,) = codec.decode(log_file(f"billing-{ID}"), data, PATHS).markers
    assert found.w == ("billing",)
    (folded,) = codec.decode(log_file(f"m_{1:020d}-{ID}"), data, PATHS).markers
    assert folded.w == ("somebody",)


@given(st.lists(st.lists(st.sampled_from("abcdefghijklmnopqrstuvwxyz"), max_size=12), max_size=4))
def test_what_replaces_parts_has_the_writers_of_all_of_them(names: list[list[str]]) -> None:
    found = writers_of([marker(w=tuple(each) or None) for each in names])
    every = {name for each in names for name in each}
    assert found == (tuple(sorted(every)) if 0 < len(every) <= MOST else None)


def test_of_two_markers_of_a_part_the_writer_that_one_states_stays() -> None:
    told, untold = marker(w=("billing",)), marker()
    assert combine(told, untold).w == combine(untold, told).w == ("billing",)


def test_the_writers_stay_with_the_rows_through_merges_and_folds(tmp_path: Path) -> None:
    world = make_world(partition_by=["d"], sort_by=["n"], merge={"min_inputs": 2})
    append(world, "billing", "web", "firnline")
    assert sorted(live(world), key=str) == [("billing",), ("web",), None]
    merge(world, tmp_path)
    assert live(world) == [("billing", "web")]
    world.clock.advance(GRACE + world.settings.append.ttl + 1_000)
    clean_up(world)
    append(world, "late")
    merge(world, tmp_path)
    clean_up(world)
    assert live(world) == [("billing", "late", "web")]


def test_nobody_may_write_under_a_name_that_a_key_cannot_hold() -> None:
    world = make_world(partition=".*")
    for name in ("a_b", "a/b", "", "ä"):
        with pytest.raises(
            UsageError, match="has characters that a log file's name cannot hold"
        ) as raised:
            append(world, name)
        assert raised.value.next_step == "use the letters a-z and A-Z, digits, '.' and '-'"
    with pytest.raises(UsageError, match="writer name bbbbbbbbbbbbbbbbbbbb… has 129 characters"):
        append(world, "b" * 129)


def test_the_longest_name_of_a_writer_fits_into_a_file_s_name(tmp_path: Path) -> None:
    table = open_table(settings_for_root(f"file://{tmp_path}/t"))
    name = "b" * 128
    Appender(table, writer=name).append(pa.table({"n": [1]}))
    (log_file,) = (tmp_path / "t" / "_log").iterdir()
    assert writer_in(str(log_file)) == name
    assert len(log_file.name) == 185
