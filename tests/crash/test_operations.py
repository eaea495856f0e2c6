"""Every store call of every operation: die before it, die after it, lose its answer.

The calls of a clean run are counted, then each of them is hit. What has to hold after it:
``tests/support/sweeping.py``. Exhaustive in memory. On real stores, through the product's own
client, every call is hit in one of the ways, in a folder those that commit or publish in all;
``FIRNLINE_SWEEP=all`` makes it exhaustive there, too. ``python -m tests.crash`` prints figures.
"""

from __future__ import annotations

import functools
import os
from pathlib import Path

import pytest

from firnline.store import multipart
from firnline.store.access import StoreAccess
from firnline_dev.s3server import S3Server, StoreRoot
from tests.support.operations import SCENARIOS
from tests.support.places import FolderPlace, MemoryPlace
from tests.support.scenarios import Scenario
from tests.support.sweeping import KINDS, commits, exhaustive, lay_out, once, sweep

EVERYTHING = os.environ.get("FIRNLINE_SWEEP") == "all"


@pytest.fixture
def scratch(tmp_path: Path) -> Path:
    """For kernels; a sweep asserts that they leave it empty."""
    folder = tmp_path / "scratch"
    folder.mkdir()
    return folder


@pytest.fixture
def place(
    store_root: StoreRoot,
    request: pytest.FixtureRequest,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> FolderPlace:
    # boto3 takes a quarter of a second for a client, and every sweep of orphans makes one.
    monkeypatch.setattr(multipart, "_client", functools.cache(multipart._client))
    if store_root.kind == "file":
        folder = Path(store_root.url.removeprefix("file://"))
        return FolderPlace("file", store_root.url, folder, tmp_path / "copies")
    server: S3Server = request.getfixturevalue("s3_server")
    folder = server.data_dir / store_root.url.removeprefix("s3://")
    access = StoreAccess.from_env(store_root.env)
    return FolderPlace("s3", store_root.url, folder, tmp_path / "copies", access)


@pytest.mark.parametrize("scenario", SCENARIOS, ids=str)
def test_an_operation_that_dies_at_any_store_call_comes_right_when_it_is_run_again(
    scenario: Scenario, scratch: Path
) -> None:
    start = lay_out(MemoryPlace(), scenario, scratch)
    figures = sweep(start, exhaustive)
    assert figures.points == len(KINDS) * len(start.calls) >= 18


@pytest.mark.parametrize("scenario", SCENARIOS, ids=str)
def test_the_same_through_the_client_of_a_real_store(
    scenario: Scenario, place: FolderPlace, scratch: Path
) -> None:
    start = lay_out(place, scenario, scratch)
    sparing = once if place.kind == "s3" else commits
    figures = sweep(start, exhaustive if EVERYTHING else sparing)
    assert figures.points >= len(start.calls)
