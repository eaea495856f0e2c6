"""What keeps the tests quick that one runs all day."""

from __future__ import annotations

import pytest

from tests.support.one_duckdb import one_duckdb, shared_duckdb

__all__ = ["one_duckdb", "shared_duckdb"]


@pytest.fixture(autouse=True)
def in_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the process of a user's query does is done here: it has tests in tests/kernel."""
    from firnline.kernel.query import process as query_process
    from firnline.kernel.query import worker as query_child

    monkeypatch.setattr(query_process, "_ask", lambda request, *_: query_child.answer(request))
