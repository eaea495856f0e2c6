"""A table that is mirrored in an Iceberg catalog, and engines that are not ours to read it with."""

from __future__ import annotations

import re
from collections.abc import Callable
from collections.abc import Set as AbstractSet
from dataclasses import KW_ONLY, dataclass, replace
from pathlib import Path
from typing import Any, Self

import pyarrow as pa
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.table import Table as IcebergTable

import firnline
from firnline.mirror.iceberg.publish import publish
from firnline.mirror.published import Published
from firnline.table import Table
from tests.mirrors import conftest, in_duckdb
from tests.mirrors.conftest import Mirrored, Rows, in_order
from tools.s3server import StoreRoot

CATALOG, NAME = "lake", "flights.t"


def by_pyiceberg(table: IcebergTable, options: dict[str, str]) -> Rows:
    found: Rows = table.scan().to_arrow().to_pylist()
    return found


def by_polars(table: IcebergTable, options: dict[str, str]) -> Rows:
    import polars

    frame = polars.scan_iceberg(table, reader_override="native", storage_options=options)
    found: Rows = frame.collect().to_dicts()
    return found


def by_polars_and_pyiceberg(table: IcebergTable, options: dict[str, str]) -> Rows:
    import polars

    found: Rows = polars.scan_iceberg(table, reader_override="pyiceberg").collect().to_dicts()
    return found


def by_duckdb(table: IcebergTable, options: dict[str, str]) -> Rows:
    return in_duckdb.ask(f"select * from iceberg_scan('{table.metadata_location}')", options)


READERS: tuple[Callable[[IcebergTable, dict[str, str]], Rows], ...] = (
    by_pyiceberg,
    by_polars,
    by_polars_and_pyiceberg,
)
NAMED: dict[str, tuple[Callable[[IcebergTable, dict[str, str]], Rows], ...]] = {
    "pyiceberg": (by_pyiceberg,),
    "Polars, Iceberg": (by_polars, by_polars_and_pyiceberg),
    "DuckDB, Iceberg": (by_duckdb,),
}


def rows(first: int, count: int, **more: Any) -> pa.Table:
    """Rows of all types that an Iceberg mirror takes."""
    found = conftest.rows(first, count, **more)
    small = found.column("small")
    found = found.set_column(found.column_names.index("small"), "small", small.cast(pa.int16()))
    tiny = pa.array([i % 100 - 50 for i in range(first, first + count)], pa.int8())
    return found.append_column("tiny", tiny)


@dataclass(frozen=True)
class InCatalog(Mirrored):
    """A table with a mirror in a catalog, in a real store."""

    _: KW_ONLY
    configured: bool = False
    """pyiceberg's configuration says where the catalog is; else it is a file of the test."""
    rest: str = ""
    """URI of a REST catalog, if that is the kind."""
    name: str = NAME

    def at(self, folder: str) -> Self:
        """Under another name in the catalog, too."""
        return replace(super().at(folder), name=f"{self.name}_{folder}")

    @property
    def properties(self) -> dict[str, str]:
        if self.rest:
            return {"type": "rest", "uri": self.rest}
        uri = {} if self.configured else {"uri": f"sqlite:///{self.scratch}/catalog.db"}
        return {"type": "sql", **uri}

    def table(self, **settings: Any) -> Table:
        where = {"catalog": CATALOG, "name": self.name, "properties": self.properties}
        return super().table(**{"mirror": [{"iceberg": where}], **settings})

    def made(self, first: int, count: int = 6, **more: Any) -> pa.Table:
        return rows(first, count, **more)

    def seen(self, readers: AbstractSet[str]) -> dict[str, Rows]:
        return {
            f"{name}, {read.__name__}": in_order(read(self.shown(), self.options))
            for name, reads in NAMED.items()
            if name in readers - in_duckdb.absent()
            for read in reads
        }

    def catalog(self) -> Catalog:
        """As another engine opens it, with access of its own to the files."""
        return load_catalog(CATALOG, **{**self.properties, **self.access})

    @property
    def access(self) -> dict[str, str]:
        env = self.root.env
        if self.root.kind != "s3":
            return {}
        return {
            "s3.endpoint": env["AWS_ENDPOINT_URL"],
            "s3.access-key-id": env["AWS_ACCESS_KEY_ID"],
            "s3.secret-access-key": env["AWS_SECRET_ACCESS_KEY"],
            "s3.region": env["AWS_REGION"],
        }

    def publish(self) -> Published:
        return publish(self.table())

    def shown(self) -> IcebergTable:
        """The mirror as other engines load it."""
        return self.catalog().load_table(self.name)

    def read_all(self) -> list[Rows]:
        """The rows that each engine sees."""
        return [in_order(read(self.shown(), self.options)) for read in READERS]

    def same(self) -> Rows:
        ours = in_order(firnline.scan(self.table()).to_arrow().to_pylist())
        for read in READERS:
            assert in_order(read(self.shown(), self.options)) == ours, read.__name__
        return ours


def in_rest_catalog(uri: str, folder: Path) -> InCatalog:
    """A table on disk, with a namespace of its own in a REST catalog."""
    (folder / "store").mkdir()
    namespace = re.sub(r"\W", "_", folder.name)
    place = StoreRoot("file", f"file://{folder}/store")
    return InCatalog(place, folder, rest=uri, name=f"{namespace}.t")
