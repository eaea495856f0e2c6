"""Stores on the real S3 server, straight and through the fault proxy."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pytest

from firnline.paths import Root
from firnline.store.access import StoreAccess
from firnline.store.client import ObjectClient, open_store
from firnline.store.requests import RetryPolicy
from tests.store.faultproxy import FaultProxy
from tests.support.one_duckdb import one_duckdb, shared_duckdb
from tools.s3server import S3Server, StoreRoot

__all__ = ["one_duckdb", "shared_duckdb"]

QUICK = RetryPolicy(attempts=5, deadline_ms=600_000, first_wait=0.01)


@dataclass
class Faulty:
    """A store behind a fault proxy, and the same objects seen directly."""

    proxy: FaultProxy
    store: ObjectClient
    direct: ObjectClient
    prefix: str
    server: S3Server

    def lay(self, keys: Sequence[str]) -> None:
        """Make objects that hold their own keys, without a request."""
        lay(self.server, keys)


def lay(server: S3Server, keys: Sequence[str]) -> None:
    """Make objects that hold their own keys, as files in the folder of the server."""
    paths = {key: server.data_dir / server.bucket / key for key in keys}
    for folder in {path.parent for path in paths.values()}:
        folder.mkdir(parents=True, exist_ok=True)
    for key, path in paths.items():
        path.write_text(key)


def access(server: S3Server, **changes: str | None) -> StoreAccess:
    """Access to the test server; ``changes`` make it wrong."""
    fields: dict[str, str | None] = {
        "endpoint": server.endpoint,
        "region": server.region,
        "access_key": server.access_key,
        "secret_key": server.secret_key,
    }
    return StoreAccess(**(fields | changes))  # type: ignore[arg-type]  # all of these are text


@pytest.fixture
def prefix(s3_root: StoreRoot) -> str:
    return Root.parse(s3_root.url).prefix


@pytest.fixture
def store(s3_server: S3Server, s3_root: StoreRoot) -> ObjectClient:
    return open_store(s3_root.url, access(s3_server), retry=QUICK)


@pytest.fixture
def faulty(s3_server: S3Server, s3_root: StoreRoot, prefix: str) -> Iterator[Faulty]:
    with FaultProxy(s3_server.port) as proxy:
        through = access(s3_server, endpoint=proxy.endpoint)
        yield Faulty(
            proxy,
            open_store(s3_root.url, through, retry=QUICK),
            open_store(s3_root.url, access(s3_server), retry=QUICK),
            prefix,
            s3_server,
        )
