"""Every door to a check refuses what it would pass over: it would be green, and looked at less."""

from __future__ import annotations

import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import firnline
from firnline.airflow.footers import CheckTable
from firnline.airflow.tables import OneTable
from firnline.airflow.versions import AirflowFailException
from firnline.airflow.works import VerifyWork
from firnline.errors import UsageError
from firnline.operations.options import VerifyOptions
from firnline.settings.load import TableSettings
from firnline.table import open_table
from tests.dags.filled import fill
from tests.support.airflow_context import run_context
from tests.support.cli import inside
from tests.support.tables import loaded

JOB = Path(__file__).parents[3] / "spark_jobs" / "verify.py"
WRONG: dict[str, dict[str, Any]] = {
    "a witness that is none": {"witness": ["garbage"]},
    "a sample of rows that are not read": {"sample": 7},
    "a sample, and footers alone": {"sample": 7, "deep": True},
}


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> TableSettings:
    """A table of the settings, with an append."""
    table = loaded(tmp_path, f"tables: {{t: {{root: 'file://{tmp_path}/t'}}}}").table("t")
    monkeypatch.setenv("FIRNLINE_TABLES", str(tmp_path / "tables.yaml"))
    monkeypatch.setattr("firnline.airflow.witness.of_events", lambda *_: ())
    fill(open_table(table), 1)
    return table


def arguments(given: dict[str, Any]) -> list[str]:
    flags = ["--deep"] if given.get("deep") else []
    flags += [f"--sample={given['sample']}"] if "sample" in given else []
    return flags + [f"--witness={text}" for text in given.get("witness", ())]


def command(table: TableSettings, given: dict[str, Any], capsys: Any) -> str:
    shown = inside(capsys)("verify", "t", *arguments(given))
    assert shown.code == 2, "wrong usage"
    return shown.sentence


def python(table: TableSettings, given: dict[str, Any], _: Any) -> str:
    options = {**given, "witness": tuple(given.get("witness", ()))}
    with pytest.raises(UsageError) as refused:
        firnline.verify("t", VerifyOptions(**options))
    return str(refused.value)


def airflow(table: TableSettings, given: dict[str, Any], _: Any) -> str:
    work = VerifyWork()
    task = CheckTable(task_id="verify", work=work, table=OneTable(table))
    with pytest.raises(AirflowFailException) as refused:  # no retry helps
        task.execute(run_context(work, given))
    return str(refused.value)


def spark(table: TableSettings, given: dict[str, Any], capsys: Any) -> str:
    job = runpy.run_path(str(JOB))["JOB"]
    assert job.main(["t", *arguments(given)]) == 2
    return str(capsys.readouterr().err)


@pytest.mark.parametrize("door", [command, python, airflow, spark])
@pytest.mark.parametrize("wrong", WRONG)
def test_no_door_lets_it_pass(
    table: TableSettings,
    capsys: pytest.CaptureFixture[str],
    door: Callable[[TableSettings, dict[str, Any], Any], str],
    wrong: str,
) -> None:
    said = door(table, WRONG[wrong], capsys)
    # A command line takes anything but a line of a witness for the name of a file of them.
    witness = "garbage cannot be read" if door is command else "'garbage' is no witness"
    assert (witness if "witness" in WRONG[wrong] else "a sample is one of the rows") in said
