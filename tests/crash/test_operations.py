"""Every store call of every operation: die there, lose its answer, be interrupted.

The calls of a clean run are counted, then each of them is hit. What has to hold after it:
``tests/support/sweeping.py``. Who dies asks for nothing more. Who is interrupted (Ctrl-C, SIGTERM,
no memory, a cancelled thread or task) goes on with its ``except`` clauses, and these can delete.

In memory an operation dies at three calls of five, in the ways in turn, and in all of them where it
commits or publishes. Of interrupts, and through the product's own client on one of the real stores
in turn, it is a sample of every operation's points, among them always one that commits or
publishes. `make test-full` is exhaustive (on real stores with one kind of interrupt a point).
``python -m tests.crash`` prints figures.
"""

from __future__ import annotations

import functools
from pathlib import Path

import pytest

from firnline.store import multipart
from firnline.store.access import StoreAccess
from tests.support.effort import sample
from tests.support.operations import SCENARIOS
from tests.support.places import FolderPlace, MemoryPlace
from tests.support.scenarios import Scenario
from tests.support.sweeping import (
    each_interrupt,
    every_interrupt,
    every_point,
    lay_out,
    some_deaths,
    some_points,
    sweep,
)
from tools.s3server import S3Server, StoreRoot

SAMPLE = {"memory": 4, "file": 8, "s3": 4}
"""Points of each operation, beside one that commits. One on S3 takes three times as long. In memory
they are interrupts."""
ON_STORES = [
    pytest.param(scenario, kind, id=f"{kind}-{scenario}")
    for scenario in SCENARIOS
    for kind in sample(("file", "s3"), 1, "store", scenario.name)
]
"""Each operation on one of the real stores in turn."""


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
    monkeypatch.setattr(multipart, "s3_client", functools.cache(multipart.s3_client))
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
    points = some_deaths(start.calls, start.creates, scenario.name)
    figures = sweep(start, points)
    assert figures.points == len(points) >= 3 * len(start.calls) // 5 >= 3


@pytest.mark.parametrize("scenario", SCENARIOS, ids=str)
def test_an_operation_that_is_interrupted_at_any_store_call_deletes_nothing_that_is_committed(
    scenario: Scenario, scratch: Path
) -> None:
    start = lay_out(MemoryPlace(), scenario, scratch)
    count = SAMPLE["memory"]
    every = every_interrupt(start.calls)
    points = some_points(every, start.creates, count, scenario.name, "interrupts")
    figures = sweep(start, points)
    assert figures.points == figures.kinds["interrupted"] == len(points) >= count


@pytest.mark.parametrize(("scenario", "store_kind"), ON_STORES, indirect=["store_kind"])
def test_the_same_through_the_client_of_a_real_store(
    scenario: Scenario, place: FolderPlace, scratch: Path
) -> None:
    start = lay_out(place, scenario, scratch)
    count = SAMPLE[place.kind]
    every = [*every_point(start.calls), *each_interrupt(start.calls)]
    points = some_points(every, start.creates, count, scenario.name, place.kind)
    assert sweep(start, points).points == len(points) >= count
