"""Publications at once through a catalog in PostgreSQL, and what engines may do to files."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyiceberg.catalog
import pytest
from pyiceberg.utils.config import Config

from firnline.errors import SnapshotUnstableError
from firnline.operations.mirror.check import check_iceberg
from tests.mirrors.in_catalog import NAME, InCatalog, by_pyiceberg
from tools.postgres import Postgres, find_programs
from tools.s3server import StoreRoot


@pytest.fixture
def folder(tmp_path: Path) -> StoreRoot:
    (tmp_path / "store").mkdir()
    return StoreRoot("file", f"file://{tmp_path}/store")


def test_publishers_at_once_show_every_append_in_a_catalog_in_postgresql(
    folder: StoreRoot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if find_programs() is None:
        pytest.skip("there is no PostgreSQL: python -m tools.postgres install")
    server = Postgres().start()
    try:
        # With its password it has no place in the settings.
        monkeypatch.setenv("PYICEBERG_CATALOG__LAKE__URI", f"postgresql+psycopg://{server.address}")
        monkeypatch.setattr(pyiceberg.catalog, "_ENV_CONFIG", Config())
        mirrored = InCatalog(folder, tmp_path, configured=True)
        mirrored.catalog()  # two clients at once cannot make the tables of the catalog

        def work(number: int) -> int:
            mirrored.append(10 * number, 2)
            try:
                return mirrored.publish().lost_races
            except SnapshotUnstableError:
                return 1

        with ThreadPoolExecutor(3) as threads:
            list(threads.map(work, range(6)))
        mirrored.publish()
        assert check_iceberg(mirrored.table()).same
        assert len(by_pyiceberg(mirrored.shown(), {})) == 12
    finally:
        server.stop()


def test_a_purge_of_pyiceberg_deletes_parts_whatever_the_property_says(
    folder: StoreRoot, tmp_path: Path
) -> None:
    # What docs/mirrors.md warns of. Where this fails, the warning can go.
    mirrored = InCatalog(folder, tmp_path)
    mirrored.append(0)
    mirrored.publish()
    assert mirrored.shown().properties["gc.enabled"] == "false"
    table = mirrored.table()
    assert list(table.store.list(table.paths.data_dir))
    mirrored.catalog().purge_table(NAME)
    assert not list(table.store.list(table.paths.data_dir))
