"""The line that says how far a job is."""

from __future__ import annotations

import pytest

from firnline.operations.runner import Progress
from firnline.operations.verify.run import VerifyProgress
from firnline.spark.heartbeat import Heartbeat, text_of
from tests.support.programs import HUNG_SECONDS
from tools.airflow_api import wait_until

BASIC = Progress(
    groups=3, groups_done=1, parts_in=1_000, parts_merged=400, parts_done=300, transactions=1
)


@pytest.mark.long
def test_lines_are_written_while_nothing_completes_and_none_afterwards(
    capfd: pytest.CaptureFixture[str],
) -> None:
    said: list[str] = []

    def lines() -> list[str]:
        said.extend(capfd.readouterr().err.splitlines())
        return said

    with Heartbeat("merge of t", every_s=0.01) as beat:
        assert wait_until(lambda: bool(lines()), HUNG_SECONDS, 0.02)
        beat(BASIC)
        wanted = ": 400 of 1,000 parts, 1 of 3 groups done"
        assert wait_until(lambda: lines()[-1].endswith(wanted), HUNG_SECONDS, 0.02)
    assert said[0] == "merge of t, 0 s: planning"
    capfd.readouterr()
    assert not wait_until(lambda: bool(capfd.readouterr().err), 0.1, 0.02)


def test_a_job_that_is_over_at_once_says_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    with Heartbeat("merge of t") as beat:
        beat(BASIC)
    assert capfd.readouterr().err == ""


def test_the_words_are_those_of_the_operation_s_progress() -> None:
    assert text_of(BASIC) == "400 of 1,000 parts, 1 of 3 groups done"
    assert text_of(VerifyProgress(footers=10, footers_done=3)) == "3 of 10 footers read"
    rows = VerifyProgress(footers=10, footers_done=10, parts=2, parts_done=1)
    assert text_of(rows) == "10 of 10 footers read, rows of 1 of 2 parts"
    assert text_of(object()) == "at work"
