"""Every operation on a real S3 server while its requests break.

What passes must not be noticed: the run comes to its end, with one transaction. What lasts ends the
run with one sentence, and the next run comes to the right end. ``FIRNLINE_SWEEP=all`` breaks each
request of each operation in each way by itself; ``python -m tests.store`` prints figures of it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from firnline.store.access import StoreAccess
from firnline_dev.s3server import S3Server, StoreRoot
from tests.store.faultproxy import FaultProxy
from tests.store.wire import LASTING, PASSING, SILENT, Line, make_impatient
from tests.support.operations import READS, SCENARIOS
from tests.support.places import FolderPlace
from tests.support.scenarios import Scenario
from tests.support.sweeping import lay_out

EVERYTHING = os.environ.get("FIRNLINE_SWEEP") == "all"
LINES = [*SCENARIOS, *READS]
Connect = Callable[[Scenario], Line]


@pytest.fixture
def connect(
    s3_server: S3Server, s3_root: StoreRoot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Connect]:
    make_impatient(monkeypatch)
    folder = s3_server.data_dir / s3_root.url.removeprefix("s3://")
    access = StoreAccess.from_env(s3_root.env)
    place = FolderPlace("s3", s3_root.url, folder, tmp_path / "copies", access)
    (tmp_path / "scratch").mkdir()
    with FaultProxy(s3_server.port) as proxy:
        yield lambda scenario: Line(lay_out(place, scenario, tmp_path / "scratch"), proxy)


@pytest.mark.parametrize("scenario", LINES, ids=str)
def test_what_passes_is_not_noticed_whichever_requests_it_hits(
    scenario: Scenario, connect: Connect
) -> None:
    line = connect(scenario)
    for kind in PASSING:
        assert line.every_request_once(kind) >= len(line.turns()), kind
    every = range(line.requests)
    if EVERYTHING:
        for kind in (*PASSING, SILENT):
            assert [line.one_request(kind, index) for index in every] == [1] * line.requests
    else:
        assert line.one_request(SILENT, LINES.index(scenario) % line.requests) == 1


@pytest.mark.parametrize("scenario", LINES, ids=str)
def test_what_lasts_ends_the_run_with_one_sentence_and_the_next_run_comes_right(
    scenario: Scenario, connect: Connect
) -> None:
    line = connect(scenario)
    failed = 0
    points = range(line.requests) if EVERYTHING else line.turns()
    for number, index in enumerate(points):
        first = number + LINES.index(scenario)
        kinds = LASTING if EVERYTHING else [LASTING[first % len(LASTING)]]
        failed += sum(line.from_request_on(kind, index) for kind in kinds)
    assert failed
