"""What keeps the tests quick that one runs all day."""

from __future__ import annotations

import gc

import pytest

from tests.support.one_duckdb import one_duckdb, shared_duckdb

__all__ = ["one_duckdb", "shared_duckdb"]


def pytest_collection_finish() -> None:
    """What is loaded stays: the garbage collector need not look at it again and again."""
    gc.collect()
    gc.freeze()


def pytest_sessionfinish() -> None:
    """At the end of the process it may go, or DuckDB reports its own types as leaked."""
    gc.unfreeze()


@pytest.fixture(autouse=True)
def in_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the process of a user's query does is done here: it has tests in tests/kernel."""
    from firnline.kernel.query import process as query_process
    from firnline.kernel.query import worker as query_child

    monkeypatch.setattr(query_process, "_ask", lambda request, *_: query_child.answer(request))
