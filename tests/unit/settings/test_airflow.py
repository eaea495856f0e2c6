"""The section ``airflow``, at the top of the file and of a table."""

from __future__ import annotations

from pathlib import Path

import pytest

from firnline.settings.airflow import AirflowSettings
from firnline.settings.load import load_settings
from tests.support.tables import loaded, mistakes

TABLE = "tables: {t: {root: 's3://b/t'}}"


def test_it_is_of_all_dags_and_of_those_of_a_table(tmp_path: Path) -> None:
    settings = loaded(
        tmp_path,
        "airflow: {queue: q, operations: {merge: {retries: 2}}}\n"
        "tables: {t: {root: 's3://b/t', airflow: {owner: bo}}}",
    )
    assert list(settings.airflow.levels("merge")) == [{"queue": "q"}, {"retries": 2}]
    assert list(settings.airflow.levels("ttl")) == [{"queue": "q"}]
    assert settings.table("t").airflow.said == {"owner": "bo"}
    assert AirflowSettings().said == {}


@pytest.mark.parametrize(
    ("section", "said"),
    [
        ("schedule: '@daily'", "a schedule has one place"),
        ("operations: {merge: {schedule: '@daily'}}", "a schedule has one place"),
        ("operations: {merges: {queue: x}}", "merges"),
        ("on_failure_callback: 'no function'", "write package.module:name"),
        ("start_date: soon", "'soon' is not a date"),
        ("queues: x", "queues"),
        ("weight_rule: mine", "weight_rule"),
        ("retries: -1", "retries"),
    ],
)
def test_a_mistake_is_named(tmp_path: Path, section: str, said: str) -> None:
    text = mistakes(tmp_path, f"airflow: {{{section}}}\n{TABLE}")
    assert "airflow" in text
    assert said in text


def test_it_is_no_default_of_tables(tmp_path: Path) -> None:
    text = mistakes(tmp_path, f"defaults: {{airflow: {{queue: x}}}}\n{TABLE}")
    assert "defaults.airflow: what holds for all tables is in the section `airflow`" in text


def test_of_a_folder_it_is_in_the_file_of_all(tmp_path: Path) -> None:
    (tmp_path / "defaults.yaml").write_text("airflow: {queue: x}")
    (tmp_path / "t.yaml").write_text(TABLE)
    folder = load_settings(tmp_path)
    assert folder.airflow.queue in ("x", None)
    (tmp_path / "t.yaml").write_text(f"airflow: {{queue: y}}\n{TABLE}")
    (unread,) = load_settings(tmp_path).unread
    assert "airflow: holds for the tables of all files; move it to" in str(unread.error)
