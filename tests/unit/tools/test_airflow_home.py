"""Settings of a local Airflow by the database that it has."""

from __future__ import annotations

import configparser
from pathlib import Path

import pytest

from tools.airflow_home import StackOptions, base_config, component_env, write_config

SERVER = StackOptions(database="firn:secret@127.0.0.1:5433/postgres")
CONNECTION = "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"


def test_everything_talks_to_the_server_that_the_stack_is_given() -> None:
    found = base_config(Path("/home"), SERVER, 8080)["database"]
    url = "postgresql+psycopg://firn:secret@127.0.0.1:5433/postgres"
    assert (found["sql_alchemy_conn"], found["sql_alchemy_conn_async"]) == (url, url)
    assert component_env(Path("/home"), SERVER, "api-server") == {}


def test_without_a_server_the_database_is_a_file_of_the_home() -> None:
    found = base_config(Path("/home"), StackOptions(), 8080)["database"]
    assert found["sql_alchemy_conn"] == "sqlite:////home/airflow.db?timeout=60"
    assert "sql_alchemy_conn_async" not in found


@pytest.mark.parametrize("component", ["scheduler", "dag-processor", "triggerer"])
def test_of_those_on_sqlite_only_the_api_server_gives_up_soon(component: str) -> None:
    url = "sqlite:////home/airflow.db?timeout=1"
    assert component_env(Path("/home"), StackOptions(), "api-server") == {CONNECTION: url}
    assert component_env(Path("/home"), StackOptions(), component) == {}


def test_a_home_keeps_its_keys_and_takes_the_new_address(tmp_path: Path) -> None:
    found = []
    for address in ("a:b@127.0.0.1:1/postgres", "a:c@127.0.0.1:2/postgres"):
        write_config(tmp_path, StackOptions(database=address), 8080)
        config = configparser.RawConfigParser()
        config.read(tmp_path / "airflow.cfg")
        assert config["database"]["sql_alchemy_conn"] == f"postgresql+psycopg://{address}"
        found.append(config["core"]["fernet_key"])
    assert found[0] == found[1]
    assert (tmp_path / "airflow.cfg").stat().st_mode & 0o077 == 0
