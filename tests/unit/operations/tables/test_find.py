"""The walk that finds tables: which folders are tables, how deep it goes, what it asks."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firnline.errors import StoreAccessError
from firnline.operations.tables.find import find_tables
from firnline.paths import TablePaths
from tests.support.world import MemoryStore, SetClock


def store_of(*keys: str) -> MemoryStore:
    store = MemoryStore(SetClock())
    store.objects = dict.fromkeys(keys, (b"x", 1))
    return store


def found(store: MemoryStore, prefix: str = "", depth: int = 3) -> list[str]:
    return [each.prefix for each in find_tables(store, prefix, depth)]


def test_tables_are_found_below_plain_folders_and_at_the_place_itself() -> None:
    store = store_of("a/_log/x", "b/c/d/_log/x", "b/c/plain/x", "b/notes.txt")
    assert found(store) == ["a", "b/c/d"]
    assert found(store, "a") == ["a"]
    assert found(store, "b/c") == ["b/c/d"]
    assert found(store_of("_log/x", "a/_log/x")) == ["", "a"]


@pytest.mark.parametrize(("depth", "tables"), [(0, []), (1, ["a"]), (2, ["a", "b/c"])])
def test_it_goes_as_deep_as_is_asked_for(depth: int, tables: list[str]) -> None:
    assert found(store_of("a/_log/x", "b/c/_log/x", "b/d/e/_log/x"), depth=depth) == tables


def test_it_looks_into_no_folder_of_a_table_and_into_those_beside_them() -> None:
    store = store_of("t/_log/x", "t/_data/day=1/_log/x", "t/_erase/x/_log/x", "t/in/_log/x")
    assert found(store) == ["t", "t/in"]
    # the place, t, and in
    assert store.counters.list == 3


def test_a_plain_folder_may_have_the_name_of_a_tables_folder() -> None:
    assert found(store_of("_data/t/_log/x")) == ["_data/t"]


def test_a_birth_record_or_a_transaction_is_a_table_whose_log_is_lost() -> None:
    paths = TablePaths("t")
    for key in (paths.birth, paths.txn(7)):
        store = store_of(key)
        assert found(store) == ["t"]
        assert store.counters.list == 3
    assert found(store_of("t/_txn/of-another-kind")) == []
    assert found(store_of("t/_data/x.parquet")) == []


def test_each_folder_costs_one_listing() -> None:
    store = store_of(*(f"lake/t{n}/_log/x" for n in range(5)), "lake/plain/x")
    assert len(found(store, "lake")) == 5
    assert store.counters.list == 1 + 6
    assert store.counters.get == store.counters.head == 0


class Closed(MemoryStore):
    """One folder of it cannot be listed."""

    def list_folders(self, prefix: str) -> Iterator[str]:
        if prefix == "lake/closed/":
            raise StoreAccessError("no permission", next_step="ask for it")
        return super().list_folders(prefix)


def test_a_folder_that_cannot_be_listed_hides_no_other_and_a_place_is_an_error() -> None:
    store = Closed(SetClock())
    store.objects = dict.fromkeys(["lake/a/_log/x", "lake/closed/x", "lake/z/_log/x"], (b"", 1))
    tables = find_tables(store, "lake", 3)
    assert [(each.prefix, each.error is None) for each in tables] == [
        ("lake/a", True),
        ("lake/closed", False),
        ("lake/z", True),
    ]
    with pytest.raises(StoreAccessError, match="no permission"):
        find_tables(store, "lake/closed", 3)


NAMES = st.text("ab %é=.", min_size=1, max_size=4).filter(lambda name: set(name) != {"."})


@given(st.sets(st.lists(NAMES, min_size=1, max_size=3).map("/".join), max_size=6))
def test_whatever_folders_are_called_each_table_is_found_once(places: set[str]) -> None:
    store = store_of(*(f"{place}/_log/x" for place in places))
    assert sorted(found(store)) == sorted(places)
