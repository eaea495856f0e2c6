"""The folder of the demo, ignored by git, and its table on one of two stores."""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import yaml

from demo.left_overs import end_left_overs
from firnline.clock import SystemClock
from firnline.errors import UsageError
from firnline.settings.load import load_settings
from firnline.store.access import StoreAccess
from firnline.table import Table, open_table
from tools.bootstrap import REPO
from tools.s3server import S3Server
from tools.spark_cluster import SparkCluster

FOLDER = REPO / ".firnline" / "demo"
TABLE = "flights"
STORES = ("file", "s3")
SPARKS = ("local", "cluster")
"""Where Spark jobs run: in the Airflow task, or on a master with two workers."""
CONNECTION = "aws_default"
_BUCKET = "firnline"
_SETTINGS = REPO / "include" / "tables.yaml"
GRACE_SECONDS = 20
"""Time for which the demo's readers may use a replaced part; the default of a day is too long."""
KEPT_SINCE = datetime(2013, 4, 1, tzinfo=UTC)
"""Partitions whose rows are all older are what the demo's TTL drops: January to March."""


@dataclass(frozen=True)
class Place:
    """The folder of one demo and the store of its table.

    Args:
        folder: holds everything.
        store: ``file`` or ``s3``.
        server: the running S3 server; None for ``file``.
        cluster: the running Spark cluster; None for local Spark.
    """

    folder: Path
    store: str
    server: S3Server | None = field(default=None, repr=False)
    cluster: SparkCluster | None = field(default=None, repr=False)

    @property
    def root(self) -> str:
        """Root URL of the table."""
        return self.server.url(TABLE) if self.server else f"file://{self.folder / TABLE}"

    @property
    def settings(self) -> Path:
        """The repository's tables.yaml with a TTL and a short grace."""
        return self.folder / "tables.yaml"

    def write_settings(self) -> None:
        """Write ``settings``: the age of the flights grows from day to day."""
        text = yaml.safe_load(_SETTINGS.read_text(encoding="utf-8"))
        age_ms = SystemClock().now_ms() - int(KEPT_SINCE.timestamp() * 1000)
        text["tables"][TABLE] |= {
            "ttl": {"keep": f"{age_ms // 86_400_000}d", "schedule": None},
            "cleanup": {"grace": f"{GRACE_SECONDS}s", "schedule": None},
        }
        if self.cluster is not None:
            text["tables"][TABLE]["spark"] = {"conf": self.cluster.conf()}
        self.settings.write_text(yaml.safe_dump(text, sort_keys=False), encoding="utf-8")

    @property
    def airflow_home(self) -> Path:
        """Home folder of Airflow."""
        return self.folder / "airflow"

    @property
    def logs(self) -> Path:
        """Folder for the output of everything but Airflow."""
        return self.folder / "logs"

    @property
    def env_file(self) -> Path:
        """A shell file that makes `firnline ... flights` mean this table."""
        return self.folder / "env"

    def table_env(self) -> dict[str, str]:
        """Environment with which ``settings`` names this table; no secrets."""
        return {
            "FIRNLINE_TABLES": str(self.settings),
            "FIRNLINE_FLIGHTS_ROOT": self.root,
            "FIRNLINE_FLIGHTS_CONNECTION": CONNECTION if self.server else "",
        }

    def env(self) -> dict[str, str]:
        """The same, and the keys of the store, for processes that have no Airflow to ask."""
        keys = self.server.env() if self.server else {}
        return {**self.table_env(), "FIRNLINE_FLIGHTS_CONNECTION": "", **keys}

    def write_env_file(self) -> None:
        """Write ``env_file``, for its owner only: it may hold keys."""
        self.env_file.touch(mode=0o600)
        lines = [f"export {name}='{value}'\n" for name, value in self.env().items()]
        self.env_file.write_text("".join(lines), encoding="utf-8")

    def open(self) -> Table:
        """The table, with request counters that begin at 0."""
        named = load_settings(self.settings).table(TABLE)
        settings = named.model_copy(update={"root": self.root, "connection_id": None})
        access = StoreAccess.from_env(self.server.env()) if self.server else None
        return open_table(settings, access)


def made_store(folder: Path) -> str | None:
    """The store of the demo that is there; None without one."""
    if (folder / "s3" / _BUCKET / TABLE).is_dir():
        return "s3"
    return "file" if (folder / TABLE).is_dir() else None


@contextmanager
def prepared(folder: Path, store: str, *, fresh: bool, spark: str = SPARKS[0]) -> Iterator[Place]:
    """The folder for this process alone, its store and its Spark cluster running.

    Args:
        folder: holds everything.
        store: one of ``STORES``.
        fresh: remove what an earlier demo has left.
        spark: one of ``SPARKS``.

    Raises:
        UsageError: another process works in the folder; names it.
        EnvironmentFaultError: the S3 server, or the cluster, does not come up.
    """
    with _alone(folder), ExitStack() as running:
        end_left_overs(folder)
        if fresh:
            shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True, exist_ok=True)
        server = S3Server(folder / "s3", _BUCKET) if store == "s3" else None
        cluster = SparkCluster(folder / "spark") if spark == "cluster" else None
        for each in (server, cluster):
            if each is not None:
                running.enter_context(each)
        yield _ready(Place(folder, store, server, cluster))


def _ready(place: Place) -> Place:
    place.write_settings()
    return place


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    folder.parent.mkdir(parents=True, exist_ok=True)
    # Beside the folder, which is removed and made again under the lock.
    with folder.with_name(folder.name + ".lock").open("a+") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.seek(0)
            raise UsageError(
                f"another demo works in {folder} (process {lock.read().strip() or 'unknown'})",
                next_step="end that `make demo` or `make up` first",
            ) from None
        lock.truncate(0)
        lock.write(str(os.getpid()))
        lock.flush()
        yield
