"""Rows merged through the task of a DAG on every platform, by the package that was published."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import firnline
from firnline.airflow.merge import MergeWork
from firnline.airflow.submit import SubmitJob
from firnline.airflow.tables import OneTable
from firnline.airflow.versions import AirflowException, AirflowFailException
from firnline.commit.base import take_base
from firnline.settings.load import TableSettings
from firnline.spark.publish import publish
from firnline.table import Table, open_table
from tests.support.airflow_context import run_context
from tests.support.platform_server import Jobs, platform_server
from tests.support.programs import HUNG_SECONDS
from tests.support.tables import loaded
from tools.airflow_api import wait_until
from tools.bootstrap import REPO

ROLE = "arn:aws:iam::123456789012:role/firnline"
SECTIONS = {
    "emr-serverless": f"emr_serverless: {{application: app, role: '{ROLE}'}}",
    "emr": "emr: {cluster: j-1}",
    "emr-on-eks": f"emr_on_eks: {{cluster: vc, role: '{ROLE}', release: emr-7.13.0-latest}}",
    "glue": "glue: {job: firnline}",
}


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> str:
    return publish(f"file://{tmp_path_factory.mktemp('published')}/firnline", None).url


@pytest.fixture
def jobs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Jobs]:
    (tmp_path / "jobs").mkdir()
    with platform_server(tmp_path / "jobs", {}) as (address, found):
        extra = {"endpoint_url": address, "region_name": "eu-central-1"}
        fields = {"conn_type": "aws", "login": "a", "password": "b", "extra": extra}
        monkeypatch.setenv("AIRFLOW_CONN_ACCOUNT", json.dumps(fields))
        yield found


def filled(folder: Path, package: str, section: str) -> TableSettings:
    """A table of two partitions with four small parts each, whose jobs run on a platform."""
    spark = f"{{conn_id: account, package: '{package}', {section}}}"
    more = f"partition_by: [d], spark: {spark}, merge: {{min_inputs: 2, commit_every: 1s}}"
    settings = loaded(folder, f"tables: {{t: {{root: 'file://{folder}/t', {more}}}}}").table("t")
    for number in range(8):
        firnline.append(open_table(settings), [{"x": number, "d": number % 2}])
    return settings


def task(settings: TableSettings) -> SubmitJob:
    return SubmitJob(
        task_id="merge", work=MergeWork(), table=OneTable(settings), jobs=REPO / "spark_jobs"
    )


def context(settings: TableSettings) -> Any:
    """A run of its own for each table: they share the package, and so the place of outcomes."""
    found = run_context(MergeWork())
    found["ti"].task_id, found["run_id"] = "merge", f"manual__{settings.root}"
    return found


def rows(table: Table) -> list[int]:
    found = firnline.scan(table).to_arrow().column("x").to_pylist()
    return sorted(found)


def live(table: Table) -> int:
    return len(take_base(table).snapshot.live)


@pytest.mark.turn("platform")
@pytest.mark.parametrize("name", SECTIONS)
def test_a_merge_on_every_platform_leaves_the_same_rows_in_one_part_a_partition(
    tmp_path: Path, package: str, jobs: Jobs, name: str
) -> None:
    settings = filled(tmp_path, package, SECTIONS[name])
    table = open_table(settings)
    task(settings).execute(context(settings))
    (job,) = jobs.started
    assert job.process.returncode == 0, jobs.log(job)
    assert live(table) == 2
    assert rows(table) == list(range(8))


def test_a_failure_there_reads_as_it_does_here_and_leaves_nothing_behind(
    tmp_path: Path, package: str, jobs: Jobs
) -> None:
    settings = filled(tmp_path, package, SECTIONS["emr-serverless"])
    part = next((tmp_path / "t" / "_data").rglob("*.parquet"))
    part.write_bytes(b"no parquet")
    with pytest.raises((AirflowFailException, AirflowException)) as raised:
        task(settings).execute(context(settings))
    assert part.name in str(raised.value)
    assert not list(Path(package.removeprefix("file://"), "jobs").rglob("*.json"))


@pytest.mark.turn("platform, ended")
@pytest.mark.parametrize("name", SECTIONS)
def test_a_task_that_is_ended_leaves_no_job_running(
    tmp_path: Path, package: str, jobs: Jobs, name: str
) -> None:
    """Also where a cancel of the platform does not reach the driver."""
    settings = filled(tmp_path, package, SECTIONS[name])
    submit = task(settings)
    thread = threading.Thread(target=_ends_somehow, args=(submit, settings))
    jobs.env.update(
        FIRNLINE_TEST_HELD=str(tmp_path),
        FIRNLINE_TEST_HOLD="commit",
        PYTHONPATH=str(REPO / "tests" / "support" / "held_hooks"),
    )
    thread.start()
    wait_until(lambda: (tmp_path / "held").exists() or not thread.is_alive(), HUNG_SECONDS, 0.2)
    assert (tmp_path / "held").exists(), jobs.log(jobs.started[0])
    submit.on_kill()
    wait_until(lambda: not jobs.left, HUNG_SECONDS, 0.2)
    thread.join(HUNG_SECONDS)
    assert not jobs.left
    assert rows(open_table(settings)) == list(range(8))


def _ends_somehow(submit: SubmitJob, settings: TableSettings) -> None:
    with pytest.raises(AirflowException):
        submit.execute(context(settings))
