"""A worker keeps its database from one group to the next, and nothing else."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

from firnline.clock import SystemClock
from firnline.ids import SystemIds
from firnline.kernel import workplace
from firnline.kernel.duckdb import never, open_duckdb
from firnline.kernel.local import LocalEngine
from firnline.kernel.merge import merge_in
from firnline.kernel.task import Cluster
from firnline.kernel.workplace import Workplace
from tests.kernel.conftest import Group

MEMORY = 256 * 2**20


@pytest.fixture
def place(tmp_path: Path) -> Workplace:
    return Workplace(tmp_path / "scratch", SystemIds(), SystemClock())


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """The limits of the databases that are opened."""
    limits: list[tuple[int, int]] = []

    def counted(scratch: Path, memory: int, threads: int) -> object:
        limits.append((memory, threads))
        return open_duckdb(scratch, memory, threads)

    monkeypatch.setattr(workplace, "open_duckdb", counted)
    return limits


def use(place: Workplace, *statements: str, memory: int = MEMORY, threads: int = 1) -> list[object]:
    with place.folder(), place.database(memory, threads) as connection:
        return [connection.execute(each).fetchall() for each in statements]


def test_groups_with_the_same_limits_share_a_database(
    place: Workplace, opened: list[tuple[int, int]]
) -> None:
    for _ in range(3):
        use(place, "SELECT 1")
    use(place, "SELECT 1", threads=2)
    use(place, "SELECT 1", threads=2, memory=2 * MEMORY)
    place.close()
    assert opened == [(MEMORY, 1), (MEMORY, 2), (2 * MEMORY, 2)]


def test_tables_of_a_group_are_not_there_for_the_next_one(place: Workplace) -> None:
    use(place, "CREATE TEMP TABLE sample AS SELECT 1")
    with pytest.raises(duckdb.CatalogException):
        use(place, "FROM sample")


def test_the_next_group_has_all_threads_again(place: Workplace) -> None:
    use(place, "SET threads = 1", threads=2)
    assert use(place, "SELECT current_setting('threads')", threads=2) == [[(2,)]]


def test_times_of_every_group_are_those_of_utc(
    place: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TZ", "America/New_York")
    for _ in range(2):
        assert use(place, "SELECT current_setting('TimeZone')") == [[("UTC",)]]


def test_every_group_is_confined_to_the_folder(place: Workplace, tmp_path: Path) -> None:
    outside = tmp_path / "outside.parquet"
    for _ in range(2):
        with pytest.raises(duckdb.PermissionException):
            use(place, f"COPY (SELECT 1) TO '{outside}'")
        with pytest.raises(duckdb.InvalidInputException, match="locked"):
            use(place, "SET enable_external_access = true")


def test_after_an_error_the_next_group_begins_with_a_new_database(
    place: Workplace, opened: list[tuple[int, int]]
) -> None:
    with pytest.raises(duckdb.ParserException):
        use(place, "SELEC 1")
    assert use(place, "SELECT 1") == [[(1,)]]
    assert len(opened) == 2


def test_rows_of_two_groups_in_a_row_are_spread_by_hash(group: Group, place: Workplace) -> None:
    rows = pa.table({"a": list(range(50))}), pa.table({"a": list(range(50, 99))})
    cluster = Cluster(method="hash", columns=("a",), outputs=2)
    for number in range(2):
        task = group.task(group.put(*rows), {"a": "BIGINT"}, cluster=cluster, group=number)
        result = merge_in(place, task, group.store, never)
        assert result.error is None, result.error
        assert len(result.parts) == 2


def test_nothing_is_on_disk_between_groups(place: Workplace) -> None:
    for _ in range(2):
        with place.folder() as folder, place.database(MEMORY, 1) as connection:
            connection.execute(f"COPY (SELECT 1) TO '{folder}/rows.parquet'")
        assert not list(place.scratch.glob("*"))


def test_a_local_engine_opens_a_database_for_each_of_its_threads(
    group: Group, opened: list[tuple[int, int]]
) -> None:
    engine = LocalEngine(lambda: group.store, group.scratch, SystemIds(), SystemClock(), parallel=2)
    rows = pa.table({"a": [1]}), pa.table({"a": [2]})
    tasks = [group.task(group.put(*rows), {"a": "BIGINT"}, group=n) for n in range(8)]
    results = [each for each in engine.run(tasks) if each is not None]
    assert [each.error for each in results] == [None] * 8
    assert len(opened) <= 2
