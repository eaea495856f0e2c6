"""A machine that is suspended in the middle of a merge, on a real scheduler."""

from __future__ import annotations

import signal

import pytest

from firnline.state.history import history
from tests.dags.maintained import Maintained
from tests.dags.zombies import (
    PARTITIONS,
    Hold,
    check_nothing_is_left,
    check_rows,
    fates,
    filled,
    hold,
    outputs,
    send,
    supervisor,
    task_of,
)

ROWS = 2_000


@pytest.mark.turn("a driver that nobody supervises any more")
def test_a_machine_that_slept_past_the_time_to_live_commits_nothing(maintained: Maintained) -> None:
    table = filled(maintained.table("asleep"), 5, ROWS)
    inputs = outputs(table)
    run = maintained.merge("asleep")
    (driver,) = hold(maintained, Hold(table, "reads"))
    machine = [supervisor(driver), task_of(driver)]
    send(signal.SIGSTOP, machine)
    driver.sleeps_for_hours()
    # Nobody has taken its parts away: its own clock alone holds it back.
    driver.signal(signal.SIGCONT)
    error = driver.ended()["error"]
    assert (error["type"], error["retryable"]) == ("CommitExpiredError", True)
    assert "longer than commit_ttl" in error["message"]
    assert history(table) == []
    # What it had not heard of from its workers yet is left to the sweep.
    orphans = outputs(table) - inputs
    assert len(orphans) < len(PARTITIONS)
    send(signal.SIGCONT, machine)
    assert run.ended().state == "success", run.log("merge")
    assert run.task("merge")["try_number"] == 2
    assert error["message"] in run.log("merge")
    assert fates(table) == PARTITIONS
    check_rows(table, 5 * ROWS)
    check_nothing_is_left(table, len(orphans))
