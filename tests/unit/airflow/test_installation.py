"""What `firnline doctor` asks an Airflow for."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

import pytest

from firnline.airflow import installation
from firnline.airflow.installation import look, why_silent
from firnline.airflow.versions import AirflowNotFoundException
from firnline.errors import PlatformError
from firnline.settings.launchers import SparkSettings
from tests.support.launching import DIGEST, Platform

GIVEN = {
    "package": f"s3://b/firnline/1.2-{DIGEST}",
    "conn_id": "account",
    "glue": {"job": "firnline"},
}


class Kept:
    """A connection of Airflow's database."""

    def as_json(self) -> str:
        return '{"conn_type": "aws"}'


@pytest.fixture
def database(monkeypatch: pytest.MonkeyPatch) -> None:
    def find(name: str) -> Kept:
        if name == "gone":
            raise AirflowNotFoundException(name)
        return Kept()

    monkeypatch.setattr("airflow.models.Connection.get_connection_from_secrets", find)
    monkeypatch.setattr("firnline.airflow.pool_guard.read_slots", dict)
    # Set for its own process only, which ends; here the test takes it back.
    monkeypatch.setenv("AIRFLOW_CONN_ACCOUNT", "")


def answers(
    monkeypatch: pytest.MonkeyPatch, find: Callable[[str], list[Any]], **given: Any
) -> dict[str, Any]:
    platform = Platform()
    monkeypatch.setattr(platform, "find", find)

    def opened(spark: SparkSettings, _: str) -> Platform:
        assert os.environ["AIRFLOW_CONN_ACCOUNT"] == Kept().as_json()
        assert spark.account == "account"
        return platform

    monkeypatch.setattr("firnline.airflow.platforms.open_platform", opened)
    return look([], [], {"glue of t": {**GIVEN, **given}})


def test_connections_that_are_missing_are_named(database: None) -> None:
    assert look(["gone", "there"])["missing"] == ["gone"]


def test_a_platform_is_asked_once_with_the_account_of_the_database(
    database: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def find(name: str) -> list[Any]:
        asked.append(name)
        return []

    assert answers(monkeypatch, find)["deaf"] == {}
    assert asked == ["firnline-doctor-"]


def test_a_platform_that_does_not_answer_is_told_with_the_next_step(
    database: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: str) -> list[Any]:
        raise PlatformError("Glue does not answer: no", next_step="run it again")

    found = answers(monkeypatch, refuse)["deaf"]
    assert found == {"glue of t": ("Glue does not answer: no", "run it again")}

    def fail(_: str) -> list[Any]:
        raise KeyError("JobRuns")

    (said, _step) = answers(monkeypatch, fail)["deaf"]["glue of t"]
    assert said == "KeyError: 'JobRuns'"


@pytest.mark.long
def test_one_that_hangs_holds_nobody_up(database: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(installation, "_ANSWER_S", 0.1)

    def hang(_: str) -> list[Any]:
        time.sleep(1)
        return []

    (said, _step) = answers(monkeypatch, hang)["deaf"]["glue of t"]
    assert "did not answer within" in said


def test_a_notifier_that_cannot_be_imported_is_told_with_the_reason() -> None:
    assert why_silent("tests.support.notifier.Told") is None
    assert why_silent("no_such.Told") == "ModuleNotFoundError: No module named 'no_such'"
    assert why_silent("tests.support.notifier.Other") == (
        "AttributeError: module 'tests.support.notifier' has no attribute 'Other'"
    )
