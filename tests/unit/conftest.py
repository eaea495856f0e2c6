"""What keeps the tests quick that one runs all day."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def in_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the process of a user's query does is done here: it has tests in tests/kernel."""
    from firnline.kernel import query_child, query_process

    monkeypatch.setattr(query_process, "_ask", lambda request, *_: query_child.answer(request))
