"""A Spark session on two cores, and groups of parts in stores of every kind."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from firnline.kernel.task import KernelInput, KernelResult, KernelTask
from firnline.paths import Root
from firnline.spark.engine import SparkEngine
from firnline.spark.session import open_session
from firnline.store.access import StoreAccess
from firnline.store.base import Store
from firnline.store.client import open_store
from firnline.types.order import SortKey
from tests.support.jobs import Jobs
from tests.support.spark_versions import pytest_pycollect_makemodule
from tools.s3server import StoreRoot
from tools.spark_cluster import SparkCluster

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["pytest_pycollect_makemodule"]


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    # As many tasks after a shuffle as there are slots, and not 200.
    conf = {"spark.log.level": "OFF", "spark.sql.shuffle.partitions": "2"}
    session = open_session("firnline tests", conf, "local[2]")
    yield session
    session.stop()


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkCluster]:
    """A master and two workers; a test that kills one of them repairs it."""
    with SparkCluster(tmp_path_factory.mktemp("cluster")) as found:
        yield found


@pytest.fixture
def jobs(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> Jobs:
    """Runs jobs in this process, on the session of all tests."""
    return Jobs(spark, monkeypatch)


@dataclass
class Parts:
    """Parts of one table, and tasks over them."""

    root: str
    access: StoreAccess | None
    scratch: Path
    store: Store = field(init=False)
    prefix: str = field(init=False)

    def __post_init__(self) -> None:
        self.store = open_store(self.root, self.access)
        self.prefix = f"{Root.parse(self.root).prefix}/_data/p/"

    def engine(self, spark: SparkSession) -> SparkEngine:
        return SparkEngine(spark, self.root, self.access, str(self.scratch))

    def put(self, *values: Sequence[int]) -> list[str]:
        """One part per sequence of values of column ``a``."""
        keys = []
        for one in values:
            sink = io.BytesIO()
            pq.write_table(pa.table({"a": pa.array(one, pa.int64())}), sink, compression="none")
            key = f"{self.prefix}in-{len(list(self.store.list(self.prefix)))}.parquet"
            self.store.put_new(key, sink.getvalue())
            keys.append(key)
        return keys

    def random(self, parts: int, rows: int) -> list[str]:
        """Parts of random numbers: work for a sort."""
        rng = np.random.default_rng(5)
        return self.put(*[rng.integers(0, 2**62, rows).tolist() for _ in range(parts)])

    def task(self, group: int, keys: Sequence[str], **changed: Any) -> KernelTask:
        values: dict[str, Any] = {
            "group": group,
            "partition": "p",
            # Large enough that every group is a job of its own.
            "inputs": tuple(KernelInput(key=key, bytes=2**30, rows=None) for key in keys),
            "columns": (("a", "BIGINT"),),
            "sort_by": (SortKey("a"),),
            "stats_columns": ("a",),
            "data_prefix": self.prefix,
            "memory": 256 * 2**20,
            "threads": 1,
            "row_group_rows": 100_000,
            "compression_level": 1,
        }
        return KernelTask(**{**values, **changed})

    def values(self, result: KernelResult) -> list[int]:
        """Column ``a`` of what a group became."""
        assert result.error is None, result.error
        (part,) = result.parts
        read = pq.read_table(io.BytesIO(self.store.get(part.key)))
        found: list[int] = read["a"].to_pylist()
        assert len(found) == part.rows
        return found

    def outputs(self) -> set[str]:
        """Keys of all objects that kernels wrote."""
        return {m.key for m in self.store.list(self.prefix) if "/in-" not in m.key}


@pytest.fixture
def parts(store_root: StoreRoot, tmp_path: Path) -> Parts:
    access = StoreAccess.from_env(store_root.env) if store_root.env else None
    return Parts(f"{store_root.url}/table", access, tmp_path / "scratch")


@pytest.fixture
def file_parts(tmp_path: Path) -> Parts:
    """The same, in a folder: where the kind of store does not matter."""
    (tmp_path / "store").mkdir()
    return Parts(f"file://{tmp_path}/store/table", None, tmp_path / "scratch")
