from __future__ import annotations

import json
from pathlib import Path

import pytest

from firnline.airflow.access import driver_environment, spark_connection, store_access
from firnline.errors import EnvironmentFaultError, StoreAccessError
from firnline.store.access import StoreAccess
from tests.support.tables import one


def connect(monkeypatch: pytest.MonkeyPatch, conn_id: str, **fields: object) -> None:
    monkeypatch.setenv(f"AIRFLOW_CONN_{conn_id.upper()}", json.dumps(fields))


def test_a_table_without_a_connection_uses_the_environment_s_own_chain(tmp_path: Path) -> None:
    assert store_access(one(tmp_path, "connection_id: null")) is None
    assert driver_environment(None) == {}


def test_endpoint_and_keys_come_from_the_connection(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    extra = {"endpoint_url": "http://host:9000", "region_name": "eu-1"}
    connect(monkeypatch, "store", conn_type="aws", login="key", password="hush", extra=extra)
    access = store_access(one(tmp_path, "connection_id: store"))
    assert access is not None
    assert (access.endpoint, access.region) == ("http://host:9000", "eu-1")
    assert (access.access_key, access.secret_key) == ("key", "hush")
    assert "hush" not in repr(access)


def test_a_driver_s_environment_says_all_of_it() -> None:
    access = StoreAccess(
        endpoint="https://host",
        region="eu-1",
        access_key="key",
        secret_key="hush",
        session_token="token",
        role_arn="arn:aws:iam::1:role/r",
    )
    env = driver_environment(access)
    assert StoreAccess.from_json(env["FIRNLINE_STORE_ACCESS"]) == access
    # And for whatever else the job's process starts.
    assert env["AWS_ENDPOINT_URL_S3"] == "https://host"
    assert env["AWS_SECRET_ACCESS_KEY"] == "hush"
    assert "AWS_PROFILE" not in env


def test_a_missing_connection_is_named_with_the_command_that_creates_it(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentFaultError) as store:
        store_access(one(tmp_path, "connection_id: nowhere"))
    assert "no Airflow connection 'nowhere', which table t names for its store" in str(store.value)
    assert "`airflow connections add nowhere --conn-type aws" in str(store.value)
    with pytest.raises(EnvironmentFaultError) as spark:
        spark_connection(one(tmp_path, "spark: {conn_id: no_spark}"))
    assert "`airflow connections add no_spark --conn-type spark" in str(spark.value)


def test_a_connection_of_another_kind_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    connect(monkeypatch, "store", conn_type="postgres", password="hush")
    with pytest.raises(EnvironmentFaultError, match="is of type 'postgres'") as raised:
        store_access(one(tmp_path, "connection_id: store"))
    assert "hush" not in str(raised.value)


def test_half_a_key_pair_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    connect(monkeypatch, "store", conn_type="aws", password="hush")
    with pytest.raises(StoreAccessError) as raised:
        store_access(one(tmp_path, "connection_id: store"))
    assert "hush" not in str(raised.value)
