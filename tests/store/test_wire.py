"""Every operation on a real S3 server while its requests break.

What passes must not be noticed: the run comes to its end, with one transaction. What lasts ends the
run with one sentence, and the next run comes to the right end. `make test` breaks a sample of the
requests of every other operation and always its commit; `make test-full` breaks each request of
each operation in each way by itself; ``python -m tests.store`` prints figures of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from firnline.store.access import StoreAccess
from tests.store.faultproxy import FaultProxy
from tests.store.wire import LASTING, PASSING, SILENT, Break, Line, make_impatient
from tests.support.effort import FULL, sample
from tests.support.operations import READS, SCENARIOS
from tests.support.places import FolderPlace
from tests.support.query_server import QueryServer, fork_queries
from tests.support.scenarios import Scenario
from tests.support.sweeping import lay_out
from tools.s3server import S3Server

KINDS = 3
"""Of those that pass, for each operation, in `make test`."""
TRIED = sample([*SCENARIOS, *READS], (len(SCENARIOS) + len(READS)) // 2, "wire")
SILENCED = sample([scenario.name for scenario in TRIED], 3, "silenced")
"""Operations that a silent connection holds up, each for `SILENCE`."""
POINTS = 2
"""At which something lasting begins, besides the first request and the commit."""


@pytest.fixture(scope="module", params=TRIED, ids=str)
def line(
    request: pytest.FixtureRequest,
    s3_server: S3Server,
    query_server: QueryServer,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Line]:
    """Each operation in turn, its table laid out once."""
    scenario: Scenario = request.param
    top: Path = tmp_path_factory.mktemp("wire")
    (top / "scratch").mkdir()
    url = s3_server.url(top.name)
    data = s3_server.data_dir / url.removeprefix("s3://")
    access = StoreAccess.from_env(s3_server.env())
    place = FolderPlace("s3", url, data, top / "copies", access)
    with pytest.MonkeyPatch.context() as patch, FaultProxy(s3_server.port) as proxy:
        make_impatient(patch)
        fork_queries(query_server, patch)
        yield Line(lay_out(place, scenario, top / "scratch"), proxy)


def test_what_passes_is_not_noticed_whichever_requests_it_hits(line: Line) -> None:
    for kind in sample(PASSING, KINDS, "passing", line.name):
        # A slow answer is no failure: the same request later counts as the repetition.
        least = min(len(line.turns()), len({(each.method, each.path) for each in line.clean}))
        assert line.every_request_once(kind) >= least, kind
    every = range(line.requests)
    silences = sample([(SILENT, index) for index in every], 1, "silent", line.name)
    if line.name not in SILENCED:
        silences = []
    single = [(kind, index) for kind in (*PASSING, SILENT) for index in every]
    for kind, index in single if FULL else silences:
        assert line.one_request(kind, index) == 1, (kind, index)


def test_what_lasts_ends_the_run_with_one_sentence_and_the_next_run_comes_right(line: Line) -> None:
    failed = 0
    for kind, index in lasting(line):
        failed += line.from_request_on(kind, index)
    assert failed


def lasting(line: Line) -> list[tuple[Break, int]]:
    """Faults with the request from which they last; in `make test` one kind at each point."""
    if FULL:
        return [(kind, index) for index in range(line.requests) for kind in LASTING]
    first, *later = line.turns()
    commit = sample(line.commits(), 1, "commit", line.name)
    chosen = {first, *commit, *sample(later, POINTS, "lasting", line.name)}
    kinds = sample(LASTING, len(chosen), "kinds", line.name)
    return list(zip(kinds, sorted(chosen), strict=True))
