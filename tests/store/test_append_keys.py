"""Appends with a key on a real store: of tries at the same time one counts, and what that costs."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa

from firnline.appends.append import Appender, AppendResult
from firnline.table import Table
from tests.support.on_store import opened
from tests.support.reading import visible_ids
from tools.s3server import StoreRoot

ROWS = pa.table({"id": [1, 2, 3]})
TRIES = 6
COUNTED = ("get", "head", "put", "list", "delete")


def table_on(root: StoreRoot) -> Table:
    """The table, as a process of its own opens it."""
    return opened(root, partition_by=[])


def costs(result: AppendResult) -> dict[str, int]:
    """The requests of an append that are there at all."""
    return {kind: result.requests[kind] for kind in COUNTED if result.requests.get(kind)}


def test_of_tries_at_the_same_time_one_adds_its_rows(store_root: StoreRoot) -> None:
    for key in ("first", "second", "third"):
        together = threading.Barrier(TRIES)

        def attempt(_: int, key: str = key, together: threading.Barrier = together) -> AppendResult:
            appender = Appender(table_on(store_root))
            appender.knowing()
            together.wait(60)
            return appender.append(ROWS, key=key)

        with ThreadPoolExecutor(TRIES) as pool:
            found = [*pool.map(attempt, range(TRIES))]
        assert sorted(result.repeated for result in found) == [False, *[True] * (TRIES - 1)]
        assert sum(result.rows for result in found) == ROWS.num_rows
    assert visible_ids(table_on(store_root)) == {1: 3, 2: 3, 3: 3}


def test_what_a_key_costs(store_root: StoreRoot) -> None:
    appender = Appender(table_on(store_root))
    appender.append(ROWS)
    assert costs(appender.append(ROWS)) == {"list": 1, "put": 2}
    assert costs(appender.append(ROWS, key="k")) == {"list": 1, "put": 3}
    # The claim is there: one PUT is refused and the claim is read; the log has three files.
    again = Appender(table_on(store_root))
    again.knowing()
    assert costs(again.append(ROWS, key="k")) == {"get": 1 + 3, "put": 1, "list": 1 + 2}
