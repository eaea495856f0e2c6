"""The driver of a job on a platform: what it is told, and what it tells."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

import firnline
from firnline.commit.base import take_base
from firnline.errors import UsageError
from firnline.launch.desk import Desk, Outcome
from firnline.log.txn_file import RunIdentity
from firnline.settings.load import TableSettings, settings_for_root
from firnline.spark import elsewhere
from firnline.spark.elsewhere import main
from firnline.state.history import history
from firnline.table import open_table
from tests.support.launching import published, request


class Asked:
    """A job of a table with two parts, and its desk."""

    def __init__(self, folder: Path) -> None:
        self.desk: Desk = published(folder)
        self.settings: TableSettings = settings_for_root(f"file://{folder}/t")
        for x in (1, 2):
            firnline.append(open_table(self.settings), [{"x": x}])

    def run(self, operation: str, options: str, **more: Any) -> tuple[int, Outcome | None]:
        told = msgspec.structs.replace(
            request(**more),
            operation=operation,
            settings=msgspec.Raw(self.settings.model_dump_json().encode()),
            options=msgspec.Raw(options.encode()),
            run=RunIdentity(dag_id="d", run_id="r", user="ana"),
        )
        self.desk.ask("n-1", told)
        url = self.desk.request_url("n-1")
        code = main(["--JOB_NAME", "glue's own", "--firnline-request", url, "--more"])
        return code, self.desk.outcome("n-1")


@pytest.fixture
def asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Asked:
    def no_session(name: str) -> None:
        raise AssertionError("no session is needed")

    monkeypatch.setattr("firnline.spark.session.given_session", no_session)
    return Asked(tmp_path)


def test_it_works_under_the_identity_of_the_run_and_tells_its_report(asked: Asked) -> None:
    code, outcome = asked.run("drop", '{"partitions": [""]}')
    assert code == 0, outcome
    assert outcome is not None
    assert outcome.error is None
    assert outcome.report is not None
    assert outcome.report["seconds"] >= 0
    (header,) = history(open_table(asked.settings), 5)
    assert (header.op, header.run.user, header.run.run_id) == ("drop", "ana", "r")
    assert header.run.host


def test_a_failure_is_told_as_it_is_anywhere(asked: Asked) -> None:
    code, outcome = asked.run("delete", '{"where": "nope = 1"}')
    assert code != 0
    assert outcome is not None
    assert outcome.error is not None
    assert "nope" in outcome.error.message
    assert not outcome.error.retryable
    assert take_base(open_table(asked.settings)).snapshot.seq == 0


def test_a_package_of_another_version_says_so(asked: Asked) -> None:
    code, outcome = asked.run("fold", "{}")
    assert code == 2
    assert outcome is not None
    assert outcome.error is not None
    assert "knows no operation 'fold'" in outcome.error.message


def test_one_that_was_given_up_before_it_began_does_nothing(
    asked: Asked, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--firnline-request", asked.desk.request_url("n-9")]) == 1
    assert "nobody waits for this job any more" in capsys.readouterr().err
    assert asked.desk.outcome("n-9") is None


@pytest.mark.parametrize(
    "arguments", [[], ["--firnline-request"], ["--firnline-request", "s3://b/x"]]
)
def test_without_a_request_it_says_how_it_is_started(arguments: list[str]) -> None:
    with pytest.raises(UsageError, match="the job has no request"):
        main(arguments)


def test_a_driver_whose_platform_cannot_end_it_looks_for_the_request_to_stop(
    asked: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[Callable[[], Any]] = []
    monkeypatch.setattr(elsewhere, "watch", lambda watch: looks.append(watch.reason))
    asked.run("drop", '{"partitions": [""], "dry_run": true}', looks_for_cancel=True)
    (look,) = looks
    assert look() is None
    asked.desk.stop("n-1")
    assert look().retryable
    assert threading.active_count() < 50


def test_a_job_that_was_asked_to_stop_takes_its_objects_away_as_nobody_will_hear_it(
    asked: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(elsewhere, "watch", lambda _: asked.desk.stop("n-1"))
    _, outcome = asked.run("drop", '{"partitions": [""], "dry_run": true}', looks_for_cancel=True)
    assert outcome is None
    assert asked.desk.names("n") == []
