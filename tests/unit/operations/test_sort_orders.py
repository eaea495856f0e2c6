"""What a marker states that rows are sorted by is what the footer states, whoever wrote the part.

And the rows are sorted that way: they are read here.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from firnline.appends.append import Appender
from firnline.log.records import Marker
from firnline.log.txn_file import RunIdentity
from firnline.operations.merge.run import preview, run_merge
from firnline.operations.operation import Work
from firnline.operations.options import MergeOptions
from firnline.operations.properties.run import run_apply
from firnline.parquet.footers import FooterTask, FooterWanted, facts_of
from firnline.parquet.write import sort_rows
from firnline.properties.in_force import differences
from firnline.settings.load import TableSettings
from firnline.state.snapshot import read_snapshot
from firnline.table import Table
from firnline.types.order import Order, SortKey
from tests.support.histories import rows_from
from tests.support.operations import SCENARIOS
from tests.support.places import MemoryPlace
from tests.support.scenarios import Call, Scenario

TS = SortKey("day", descending=True)


def parts(table: Table) -> Iterator[tuple[Marker, Order, pa.Table]]:
    """Yield each live part with the order of its footer, and its rows."""
    for marker in read_snapshot(table.store, table.paths).live.values():
        data = io.BytesIO(table.store.get(marker.p))
        facts = facts_of(FooterTask(marker.p, marker.b), pq.read_metadata(data), FooterWanted())
        yield marker, facts.sorted_by, pq.read_table(data, partitioning=None)


def stated(table: Table) -> set[Order]:
    """Return the orders that markers state; each has to be the footer's, and that of the rows."""
    found: set[Order] = set()
    for marker, order, rows in parts(table):
        assert marker.sorted_by() == order, marker.p
        assert sort_rows(rows, order).equals(rows), marker.p
        found.add(order)
    return found


def opened(**settings: object) -> Table:
    return MemoryPlace().new(settings)


def append(table: Table, *firsts: int) -> None:
    for first in firsts:
        Appender(table).append(rows_from(first), "p")


def merge(table: Table, scratch: Path) -> None:
    call = Call(table, scratch)
    run_merge(Work(table, call.run, call.engine), MergeOptions(full=True))


@pytest.mark.long
@pytest.mark.usefixtures("forked_queries")
@pytest.mark.parametrize(
    "scenario", [s for s in SCENARIOS if not s.name.startswith("downgrade")], ids=str
)
def test_every_operation_states_in_the_log_what_the_footers_of_its_parts_state(
    scenario: Scenario, tmp_path: Path
) -> None:
    table = MemoryPlace().new(dict(scenario.settings))
    known = scenario.prepare(Call(table, tmp_path))
    scenario.run(Call(table, tmp_path, known))
    assert stated(table) <= {(), (SortKey("id"),), (SortKey("k"),)}


@pytest.mark.parametrize("more", [{}, {"cluster_by": ["id"]}, {"primary_key": ["id"]}], ids=str)
def test_appends_and_merges_of_a_sorted_table_state_its_order(
    more: dict[str, object], tmp_path: Path
) -> None:
    table = opened(partition=".*", sort_by=["day desc", "id"], **more)
    append(table, 0, 3)
    assert stated(table) == {(TS, SortKey("id"))}
    merge(table, tmp_path)
    assert stated(table) == {(TS, SortKey("id"))}


def test_a_table_with_a_key_and_no_order_is_sorted_by_its_key(tmp_path: Path) -> None:
    table = opened(partition=".*", primary_key=["day", "id"])
    append(table, 3, 0)
    merge(table, tmp_path)
    assert stated(table) == {(SortKey("day"), SortKey("id"))}


def test_no_order_can_be_asked_for(tmp_path: Path) -> None:
    table = opened(partition=".*", primary_key=["id"], sort_by=[])
    append(table, 3, 0)
    merge(table, tmp_path)
    assert stated(table) == {()}


def test_a_table_that_says_it_has_no_order_keeps_to_that(tmp_path: Path) -> None:
    """Such as one with a key from before its order was that of the key."""
    table = opened(partition=".*", primary_key=["id"], sort_by=[])
    append(table, 3)
    silent = {"name": "t", "root": table.settings.root, "partition": ".*", "primary_key": ["id"]}
    later = replace(table, settings=TableSettings.model_validate(silent), wanted=None)
    append(later, 0)
    merge(later, tmp_path)
    assert stated(later) == {()}
    (said,) = read_snapshot(table.store, table.paths).properties
    assert not differences(later.settings, said.values)


def test_parts_of_a_table_without_an_order_state_none(tmp_path: Path) -> None:
    table = opened(partition=".*")
    append(table, 0, 3)
    merge(table, tmp_path)
    assert stated(table) == {()}


def test_an_order_by_a_column_that_rows_lack_is_not_stated() -> None:
    table = opened(partition=".*", sort_by=["id", "name"])
    append(table, 0)
    Appender(table).append(rows_from(6).drop_columns(["name"]), "p")
    assert stated(table) == {(SortKey("id"), SortKey("name")), ()}


def test_an_order_is_stated_by_the_number_of_its_column_among_those_of_nested_ones() -> None:
    rows = {
        "s": [{"x": 1, "y": {"z": [1, 2]}}, None],
        "m": pa.array([[("k", 1)], []], pa.map_(pa.string(), pa.int8())),
        "l": [[[1]], [[2]]],
        "id": [2, 1],
        "n": ["b", "a"],
    }
    table = opened(partition=".*", sort_by=["id", "n desc"])
    Appender(table).append(pa.table(rows), "p")
    assert stated(table) == {(SortKey("id"), SortKey("n", descending=True))}


LATER = ["day desc", "id"]


def with_order(table: Table, sort_by: list[str]) -> Table:
    """Return the table after its ``sort_by`` was changed."""
    plain = {"name": table.settings.name, "root": table.settings.root, "partition": ".*"}
    more = {"cluster_by": table.settings.cluster_by, "primary_key": table.settings.primary_key}
    settings = TableSettings.model_validate({**plain, **more, "sort_by": sort_by})
    changed = replace(table, settings=settings)
    run_apply(changed, RunIdentity(run_id="r"))
    return changed


def groups(table: Table, *, full: bool = True) -> int:
    """Return the number of groups that a merge would have."""
    return len(preview(table, MergeOptions(full=full)).groups)


@pytest.mark.parametrize("more", [{}, {"cluster_by": ["id"]}, {"primary_key": ["id"]}], ids=str)
def test_a_full_merge_sorts_parts_again_that_state_another_order_and_does_so_once(
    more: dict[str, object], tmp_path: Path
) -> None:
    table = opened(partition=".*", sort_by=["id"], **more)
    append(table, 0, 6)
    merge(table, tmp_path)
    assert (stated(table), groups(table)) == ({(SortKey("id"),)}, 0)
    table = with_order(table, LATER)
    assert (groups(table, full=False), groups(table)) == (0, 1), "only if somebody asks for it"
    merge(table, tmp_path)
    assert (stated(table), groups(table)) == ({(TS, SortKey("id"))}, 0)
    # Rows that are sorted by more columns are sorted by the first of them.
    assert groups(with_order(table, LATER[:1])) == 0
    assert groups(with_order(table, [])) == 0


def test_a_part_that_does_not_say_its_order_is_not_written_again_for_it(tmp_path: Path) -> None:
    table = opened(partition=".*")
    append(table, 0)
    table = with_order(table, ["id"])
    assert (stated(table), groups(table)) == ({()}, 0)


def test_an_order_that_a_footer_cannot_state_is_not_sought_for_ever(tmp_path: Path) -> None:
    table = opened(partition=".*", sort_by=["id"])
    append(table, 0)
    Appender(table).append(pa.table({"id": [99], "s": [{"x": 1}]}), "p")
    merge(table, tmp_path)
    table = with_order(table, ["s"])
    assert groups(table) == 1
    merge(table, tmp_path)
    assert (stated(table), groups(table)) == ({()}, 0)
