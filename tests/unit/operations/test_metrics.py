"""What a run costs is what it cost, not what its process did before."""

from __future__ import annotations

import pytest

from firnline.errors import CommitConflictError
from firnline.operations.report import Effort
from tests.support.world import make_world


def test_only_the_requests_and_the_time_of_the_run_count() -> None:
    world = make_world()
    world.store.put_new("events/before", b"12")
    effort = Effort(world.table)
    world.store.put_new("events/within", b"123")
    world.clock.advance(1_500)
    assert (effort.requests["put"], effort.requests["bytes_out"]) == (1, 3)
    assert effort.requests["get"] == 0
    assert effort.seconds == 1.5


def test_a_run_plans_anew_as_often_as_the_settings_allow() -> None:
    world = make_world()
    effort = Effort(world.table)
    for _ in range(world.table.settings.merge.max_replans):
        effort.replan()
    with pytest.raises(CommitConflictError, match=r"rivals took parts of .* away 4 times"):
        effort.replan()
    met = CommitConflictError("the columns changed", next_step="run it again")
    with pytest.raises(CommitConflictError, match="the columns changed"):
        effort.replan(met)
