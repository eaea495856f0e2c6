"""Rows merged through the task of a DAG on every platform, by the package that was published."""

from __future__ import annotations

import json
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
from tests.support.tables import loaded

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
    """A table of eight small parts whose jobs run on a platform."""
    spark = f"{{conn_id: account, package: '{package}', {section}}}"
    text = f"tables: {{t: {{root: 'file://{folder}/t', spark: {spark}, merge: {{min_inputs: 2}}}}}}"
    settings = loaded(folder, text).table("t")
    for number in range(8):
        firnline.append(open_table(settings), [{"x": number}])
    return settings


def task(settings: TableSettings) -> SubmitJob:
    return SubmitJob(
        task_id="merge", work=MergeWork(), table=OneTable(settings), jobs=Path("spark_jobs")
    )


def context(number: int = 1, **conf: Any) -> Any:
    found = run_context(MergeWork(), conf or None)
    found["ti"].task_id, found["ti"].try_number = "merge", number
    return found


def rows(table: Table) -> list[int]:
    found = firnline.scan(table).to_arrow().column("x").to_pylist()
    return sorted(found)


def live(table: Table) -> int:
    return len(take_base(table).snapshot.live)


@pytest.mark.turn("platform")
@pytest.mark.parametrize("name", SECTIONS)
def test_a_merge_on_every_platform_leaves_the_same_rows_in_one_part(
    tmp_path: Path, package: str, jobs: Jobs, name: str
) -> None:
    settings = filled(tmp_path, package, SECTIONS[name])
    table = open_table(settings)
    task(settings).execute(context())
    (job,) = jobs.started
    assert job.process.returncode == 0, jobs.log(job)
    assert live(table) == 1
    assert rows(table) == list(range(8))


def test_a_failure_there_reads_as_it_does_here_and_leaves_nothing_behind(
    tmp_path: Path, package: str, jobs: Jobs
) -> None:
    settings = filled(tmp_path, package, SECTIONS["emr-serverless"])
    part = next((tmp_path / "t" / "_data").rglob("*.parquet"))
    part.write_bytes(b"no parquet")
    with pytest.raises((AirflowFailException, AirflowException)) as raised:
        task(settings).execute(context())
    assert part.name in str(raised.value)
    assert not list(Path(package.removeprefix("file://"), "jobs").rglob("*.json"))
