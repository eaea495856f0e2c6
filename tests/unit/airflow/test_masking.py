from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from firnline.airflow import access
from tests.support.tables import loaded, one


def test_every_secret_of_a_connection_is_masked_in_logs(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    extra = {
        "aws_session_token": "TOKEN",
        "role_arn": "arn:aws:iam::1:role/r",
        "assume_role_kwargs": {"ExternalId": "EXTERNAL"},
    }
    connection = SimpleNamespace(
        conn_type="aws", login="KEY", password="SECRET", extra_dejson=extra
    )
    masked: list[str] = []
    monkeypatch.setattr(access, "connection", lambda *_: connection)
    monkeypatch.setattr(access, "mask_secret", masked.append)
    found = access.store_access(one(tmp_path, "connection_id: lake"))
    assert found is not None
    assert set(masked) == {"SECRET", "TOKEN", "EXTERNAL"}


def masked_of(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, root: str, **fields: object
) -> list[str]:
    given: dict[str, object] = {"host": None, "login": None, "password": None, "extra_dejson": {}}
    masked: list[str] = []
    monkeypatch.setattr(access, "connection", lambda *_: SimpleNamespace(**(given | fields)))
    monkeypatch.setattr(access, "mask_secret", masked.append)
    text = f"tables:\n  t: {{root: '{root}', connection_id: lake}}\n"
    assert access.store_access(loaded(tmp_path, text).table("t")) is not None
    return masked


def test_a_service_account_s_key_is_masked_whole_and_by_line(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    private = "-----BEGIN PRIVATE KEY-----\nONE\nTWO\n-----END PRIVATE KEY-----\n"
    key = {"client_email": "a", "private_key": private, "private_key_id": "i"}
    kind = "google_cloud_platform"
    extra = {"keyfile_dict": key}
    masked = masked_of(monkeypatch, tmp_path, "gs://b/t", conn_type=kind, extra_dejson=extra)
    assert {private, private.replace("\n", "\\n"), "ONE", "TWO"} == set(masked)


def test_keys_signatures_and_secrets_of_azure_are_masked(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for extra, secrets in (
        ({"connection_string": "AccountName=a;AccountKey=KEY"}, {"KEY"}),
        ({"sas_token": "sv=1&sig=A%2BB"}, {"sv=1&sig=A%2BB", "A+B"}),
        ({"tenant_id": "t"}, {"PASSWORD"}),
        ({}, {"PASSWORD"}),
    ):
        fields: dict[str, object] = {
            "host": "a",
            "login": "a",
            "password": "PASSWORD",
            "extra_dejson": extra,
        }
        found = masked_of(monkeypatch, tmp_path, "az://c/t", conn_type="wasb", **fields)
        assert set(found) == secrets
