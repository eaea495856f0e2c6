from __future__ import annotations

import json
from pathlib import Path

import pytest

from firnline.airflow.access import (
    driver_environment,
    open_in_task,
    spark_connection,
    store_access,
)
from firnline.errors import EnvironmentFaultError, StoreAccessError
from firnline.settings.load import TableSettings
from firnline.store.access import StoreAccess
from firnline.store.azure import AzureAccess
from firnline.store.google import GoogleAccess
from tests.support.google_store import BUCKET, as_text, google_store
from tests.support.tables import loaded, one


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


SERVICE_ACCOUNT = {
    "client_email": "a@p.iam.gserviceaccount.com",
    "private_key": "-----BEGIN PRIVATE KEY-----\nhush-hush\n-----END PRIVATE KEY-----\n",
    "private_key_id": "number",
}


def on(tmp_path: Path, root: str) -> TableSettings:
    """A table at ``root`` with the connection ``store``."""
    text = f"tables:\n  t: {{root: '{root}', connection_id: store}}\n"
    return loaded(tmp_path, text).table("t")


def test_a_table_on_google_takes_the_key_of_its_connection(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    extra = {"keyfile_dict": json.dumps(SERVICE_ACCOUNT), "project": "p", "num_retries": 5}
    connect(monkeypatch, "store", conn_type="google_cloud_platform", extra=extra)
    access = store_access(on(tmp_path, "gs://b/t"))
    assert access is not None
    assert access.google == GoogleAccess(json.dumps(SERVICE_ACCOUNT))
    assert "hush" not in repr(access)
    # The driver gets it by this variable only, and nothing of it in one that AWS clients read.
    env = driver_environment(access)
    assert set(env) == {"FIRNLINE_STORE_ACCESS"}
    assert StoreAccess.from_json(env["FIRNLINE_STORE_ACCESS"]) == access


@pytest.mark.long
def test_a_task_writes_and_reads_with_the_key_of_a_connection(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with google_store() as server:
        (tmp_path / "key.json").write_text(as_text(server.keyfile()))
        extra = {"key_path": str(tmp_path / "key.json")}
        connect(monkeypatch, "store", conn_type="google_cloud_platform", extra=extra)
        store = open_in_task(on(tmp_path, f"gs://{BUCKET}/t")).store
        store.put_new("t/a", b"one")
        assert store.get("t/a") == b"one"


@pytest.mark.parametrize("conn_type", ["wasb", "adls"])
def test_a_table_on_azure_takes_account_and_key_of_its_connection(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, conn_type: str
) -> None:
    connect(monkeypatch, "store", conn_type=conn_type, host="acct", login="acct", password="hush")
    access = store_access(on(tmp_path, "az://c/t"))
    assert access is not None
    assert access.azure == AzureAccess("acct", key="hush")
    assert "hush" not in repr(access)
    env = driver_environment(access)
    assert set(env) == {"FIRNLINE_STORE_ACCESS"}
    assert StoreAccess.from_json(env["FIRNLINE_STORE_ACCESS"]) == access


@pytest.mark.parametrize(
    ("root", "conn_type", "needed"),
    [
        ("s3://b/t", "wasb", "on s3:// needs one of type aws"),
        ("gs://b/t", "aws", "on gs:// needs one of type google_cloud_platform"),
        ("gs://b/t", "wasb", "on gs:// needs one of type google_cloud_platform"),
        ("az://b/t", "aws", "on az:// needs one of type wasb or adls"),
        ("az://b/t", "azure_data_lake", "on az:// needs one of type wasb or adls"),
    ],
)
def test_a_connection_for_another_cloud_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, root: str, conn_type: str, needed: str
) -> None:
    connect(monkeypatch, "store", conn_type=conn_type, login="a", password="hush")
    with pytest.raises(EnvironmentFaultError, match=f"is of type '{conn_type}'") as raised:
        store_access(on(tmp_path, root))
    assert f"table t {needed};" in str(raised.value)
    assert "hush" not in str(raised.value)


@pytest.mark.parametrize(
    ("root", "command"),
    [
        ("s3://b/t", "aws --conn-login ACCESS_KEY --conn-password SECRET`"),
        (
            "gs://b/t",
            """google_cloud_platform --conn-extra '{"key_path": "/path/key.json"}'`""",
        ),
        ("az://c/t", "wasb --conn-login ACCOUNT --conn-password KEY`"),
    ],
)
def test_the_command_that_creates_a_missing_connection_is_that_of_the_cloud(
    tmp_path: Path, root: str, command: str
) -> None:
    with pytest.raises(EnvironmentFaultError, match="no Airflow connection 'store'") as raised:
        store_access(on(tmp_path, root))
    assert f"`airflow connections add store --conn-type {command}" in str(raised.value)


@pytest.mark.parametrize(
    ("root", "fields"),
    [
        ("gs://b/t", {"conn_type": "google_cloud_platform", "extra": {"keyfile_dict": "hush"}}),
        ("az://c/t", {"conn_type": "wasb", "password": "hush"}),
    ],
)
def test_what_is_wrong_in_a_connection_names_it_and_the_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, root: str, fields: dict[str, object]
) -> None:
    connect(monkeypatch, "store", **fields)
    with pytest.raises(StoreAccessError, match="'store' of table t cannot be used: ") as raised:
        store_access(on(tmp_path, root))
    assert "hush" not in str(raised.value)


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
