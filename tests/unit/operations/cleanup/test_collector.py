"""The collector of cycles stands still in its context, and is afterwards as it was."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from firnline.operations.cleanup.collector import paused


@pytest.fixture(params=[True, False])
def enabled(request: pytest.FixtureRequest) -> Iterator[bool]:
    before, wanted = gc.isenabled(), bool(request.param)
    (gc.enable if wanted else gc.disable)()
    yield wanted
    (gc.enable if before else gc.disable)()


def fail_paused() -> None:
    with paused():
        raise ZeroDivisionError


def test_it_is_paused_and_then_as_before(enabled: bool) -> None:
    with paused():
        assert not gc.isenabled()
    assert gc.isenabled() is enabled


def test_it_is_as_before_after_an_error(enabled: bool) -> None:
    with pytest.raises(ZeroDivisionError):
        fail_paused()
    assert gc.isenabled() is enabled
