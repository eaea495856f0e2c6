"""A mirrored table with real rows, and engines that are not ours to read it with."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import KW_ONLY, dataclass, field, replace
from decimal import Decimal
from pathlib import Path
from typing import Any, Self

import pyarrow as pa
import pytest

import firnline
from firnline.appends.append import Appender
from firnline.errors import EnvironmentFaultError
from firnline.kernel.local import LocalEngine
from firnline.mirror.delta.publish import publish
from firnline.mirror.published import Published
from firnline.settings.load import TableSettings
from firnline.store.access import StoreAccess
from firnline.table import Table, open_table
from tests.mirrors import in_duckdb
from tests.store.faultproxy import FaultProxy
from tools.restcatalog import RestCatalog
from tools.s3server import StoreRoot

Rows = list[dict[str, Any]]


def by_deltalake(url: str, options: dict[str, str]) -> Rows:
    from deltalake import DeltaTable

    found: Rows = DeltaTable(url, storage_options=options).to_pyarrow_table().to_pylist()
    return found


def by_datafusion(url: str, options: dict[str, str]) -> Rows:
    from deltalake import DeltaTable, QueryBuilder

    table = DeltaTable(url, storage_options=options)
    rows = QueryBuilder().register("t", table).execute("select * from t").read_all()
    found: Rows = pa.table(rows).to_pylist()
    return found


def by_polars(url: str, options: dict[str, str]) -> Rows:
    import polars

    found: Rows = polars.scan_delta(url, storage_options=options).collect().to_dicts()
    return found


def by_duckdb(url: str, options: dict[str, str]) -> Rows:
    return in_duckdb.ask(f"select * from delta_scan('{url}')", options)


READERS = (by_deltalake, by_datafusion, by_polars)
NAMED: dict[str, Callable[[str, dict[str, str]], Rows]] = {
    "deltalake": by_deltalake,
    "DataFusion": by_datafusion,
    "Polars": by_polars,
    "DuckDB, Delta": by_duckdb,
}


@dataclass(frozen=True)
class Mirrored:
    """A table with a mirror in a real store."""

    root: StoreRoot
    scratch: Path
    _: KW_ONLY
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Those that differ from the ones below."""
    folder: str = "t"
    """Of the table, in that store."""

    def with_settings(self, **settings: Any) -> Self:
        return replace(self, settings={**self.settings, **settings})

    def at(self, folder: str) -> Self:
        """The place of another table of the same settings in the same store."""
        return replace(self, folder=folder)

    @property
    def url(self) -> str:
        return f"{self.root.url}/{self.folder}"

    @property
    def options(self) -> dict[str, str]:
        """What engines need to get into the store."""
        return {**self.root.env, "AWS_ALLOW_HTTP": "true"} if self.root.kind == "s3" else {}

    def table(self, **settings: Any) -> Table:
        access = StoreAccess.from_env(self.root.env) if self.root.kind == "s3" else None
        given: dict[str, Any] = {
            "mirror": ["delta"],
            "partition_by": ["day(ts)", "p"],
            "sort_by": ["k"],
            "statistics": ["price", "at", "s"],
            **self.settings,
            **settings,
        }
        declared = TableSettings.model_validate({"name": "t", "root": self.url, **given})
        return open_table(declared, access)

    def engine(self) -> LocalEngine:
        table = self.table()
        return LocalEngine(lambda: self.table().store, self.scratch, table.ids, table.clock)

    def made(self, first: int, count: int = 6, **more: Any) -> pa.Table:
        """Rows of all types that the mirror takes."""
        return rows(first, count, **more)

    def append(self, first: int, count: int = 6, **more: Any) -> None:
        Appender(self.table()).append(self.made(first, count, **more))

    def publish(self) -> Published:
        return publish(self.table())

    def ours(self) -> Rows:
        """The rows that ``firnline read`` shows."""
        return in_order(firnline.scan(self.table()).to_arrow().to_pylist())

    def seen(self, readers: AbstractSet[str]) -> dict[str, Rows]:
        """The rows that some engines see, by the names that docs/testing.md gives them."""
        here = readers - in_duckdb.absent()
        found = {name: read for name, read in NAMED.items() if name in here}
        return {name: in_order(read(self.url, self.options)) for name, read in found.items()}

    def same(self) -> Rows:
        """Every engine sees the rows that ``firnline read`` shows; returns them."""
        ours = in_order(firnline.scan(self.table()).to_arrow().to_pylist())
        for read in READERS:
            assert in_order(read(self.url, self.options)) == ours, read.__name__
        return ours


def in_order(found: Rows) -> Rows:
    return sorted(found, key=lambda row: row["k"])


def rows(first: int, count: int, **more: Any) -> pa.Table:
    ids = range(first, first + count)
    start = dt.datetime(2024, 3, 5, 1, 2, 3, 456_789, dt.UTC)
    zoned = [start + dt.timedelta(hours=5 * i) for i in ids]
    times = [time.replace(tzinfo=None) for time in zoned]
    columns = {
        "k": pa.array(ids, pa.int32()),
        "p": [("a b/é", "x=%20", None)[i % 3] for i in ids],
        "ts": pa.array(times, pa.timestamp("us")),
        "at": pa.array(zoned, pa.timestamp("us", "UTC")),
        "price": pa.array([Decimal(i) / 4 for i in ids], pa.decimal128(12, 2)),
        "ratio": pa.array([None if i % 4 == 0 else i / 8 for i in ids], pa.float64()),
        "s": [f"text {i}" for i in ids],
        "flag": [i % 2 == 0 for i in ids],
        "d": pa.array([t.date() for t in times], pa.date32()),
        "raw": pa.array([bytes([i % 256]) for i in ids], pa.binary()),
        "small": pa.array([i % 200 for i in ids], pa.uint8()),
        "tags": pa.array([[str(i), None] for i in ids], pa.list_(pa.string())),
        "who": pa.array(
            [{"id": i, "name": "n"} for i in ids],
            pa.struct([("id", pa.int64()), ("name", pa.string())]),
        ),
    }
    return pa.table({**columns, **{name: [value] * count for name, value in more.items()}})


@pytest.fixture
def mirrored(store_root: StoreRoot, tmp_path: Path) -> Mirrored:
    return Mirrored(store_root, tmp_path)


@pytest.fixture(scope="session")
def rest_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RestCatalog]:
    """One REST catalog for the whole run."""
    server = RestCatalog(tmp_path_factory.mktemp("warehouse"))
    try:
        server.start()
    except EnvironmentFaultError as error:
        pytest.skip(str(error))
    yield server
    server.stop()


@pytest.fixture
def rest_proxy(rest_server: RestCatalog) -> Iterator[FaultProxy]:
    """In front of it."""
    with FaultProxy(rest_server.port) as proxy:
        yield proxy
