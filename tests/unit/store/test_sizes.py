"""Bodies that are shorter than the store said, where the store's client does not notice."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import obstore
import pytest

from firnline.clock import SystemClock
from firnline.errors import StoreUnavailableError
from firnline.store.client import ObjectClient, open_store
from firnline.store.requests import RetryPolicy


@pytest.fixture
def cut(monkeypatch: pytest.MonkeyPatch) -> ObjectClient:
    """A store that gives three of the four bytes of everything."""

    def get(*_: object, **__: object) -> Any:
        body = b"abc"
        return SimpleNamespace(
            meta={"size": 4},
            range=(0, 4),
            bytes=lambda: body,
            stream=lambda _chunk: iter([body]),
        )

    monkeypatch.setattr(obstore, "get", get)
    policy = RetryPolicy(attempts=2, first_wait=0.001)
    return open_store("memory://sizes/t", None, SystemClock(), policy)


def test_a_body_that_is_too_short_is_asked_for_again_and_never_given_out(
    cut: ObjectClient, tmp_path: Path
) -> None:
    for read in (
        lambda: cut.get("t/x"),
        lambda: cut.get_range("t/x", 0, 4),
        lambda: cut.get_file("t/x", tmp_path / "x"),
        lambda: _into(cut, tmp_path / "y"),
    ):
        with pytest.raises(StoreUnavailableError, match="3 bytes came instead of 4"):
            read()
    assert cut.counters.as_dict()["get"] == 8
    assert not (tmp_path / "x").exists()


def _into(store: ObjectClient, path: Path) -> None:
    with path.open("wb") as file:
        store.get_range_into("t/x", 0, 4, file)
