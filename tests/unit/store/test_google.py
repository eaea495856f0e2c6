from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from firnline.errors import StoreAccessError
from firnline.store.access import StoreAccess
from firnline.store.client import open_store
from firnline.store.google import GoogleAccess

PEM = "-----BEGIN PRIVATE KEY-----\nhush-hush-1\nhush-hush-2\n-----END PRIVATE KEY-----\n"
KEY: dict[str, Any] = {
    "type": "service_account",
    "client_email": "a@p.iam.gserviceaccount.com",
    "private_key": PEM,
    "private_key_id": "number",
    "client_id": "1",
    "project_id": "p",
}


def connected(**extra: Any) -> GoogleAccess:
    return GoogleAccess.from_airflow_fields(extra)


def test_without_a_key_the_default_credentials_are_used() -> None:
    for extra in ({}, {"keyfile_dict": "", "key_path": None}, {"project": "p", "num_retries": 5}):
        access = connected(**extra)
        assert access == GoogleAccess()
        assert access.config({"GOOGLE_SERVICE_ACCOUNT": "/own"}) == {}


def test_only_what_signs_a_token_travels_with_the_key() -> None:
    access = connected(keyfile_dict=KEY)
    assert access.key is not None
    assert set(json.loads(access.key)) == {"client_email", "private_key", "private_key_id"}
    assert access.url is None
    assert access.config({}) == {"service_account_key": access.key, "skip_signature": False}


def test_the_forms_of_a_key_are_one_key(tmp_path: Path) -> None:
    (tmp_path / "key.json").write_text(json.dumps(KEY))
    escaped = {**KEY, "private_key": PEM.replace("\n", "\\n")}
    forms: list[dict[str, Any]] = [
        {"keyfile_dict": KEY},
        {"keyfile_dict": json.dumps(KEY)},
        {"keyfile_dict": json.dumps(escaped)},
        {"key_path": str(tmp_path / "key.json")},
        {"extra__google_cloud_platform__keyfile_dict": json.dumps(KEY)},
        {"keyfile_dict": KEY, "extra__google_cloud_platform__keyfile_dict": "{}"},
        {"keyfile_dict": KEY, "scope": "https://www.googleapis.com/auth/cloud-platform,other"},
    ]
    assert len({connected(**form) for form in forms}) == 1


def test_no_secret_is_shown_and_every_line_of_it_is_known() -> None:
    access = connected(keyfile_dict=KEY)
    assert "hush" not in repr(StoreAccess(google=access))
    assert {PEM, "hush-hush-1", "hush-hush-2", json.dumps(PEM)[1:-1]} == set(access.secrets)
    assert StoreAccess(google=access).secrets == access.secrets


def test_the_access_travels_as_json() -> None:
    access = StoreAccess(google=connected(keyfile_dict=KEY))
    assert StoreAccess.from_json(access.to_json()) == access
    assert StoreAccess.from_json(StoreAccess(google=GoogleAccess()).to_json()).google is not None


@pytest.mark.parametrize(
    ("extra", "says"),
    [
        ({"impersonation_chain": "b@p"}, "impersonation_chain cannot be honoured"),
        ({"key_secret_name": "s"}, "does not read the Secret Manager"),
        ({"credential_config_file": "/x.json"}, "service account keys and the default"),
        ({"idp_issuer_url": "https://x"}, "idp_issuer_url cannot be honoured"),
        ({"client_secret": "hush-hush"}, "client_secret cannot be honoured"),
        ({"is_anonymous": True}, "without an identity"),
        ({"quota_project_id": "p"}, "quota_project_id cannot be honoured"),
        ({"scope": "https://www.googleapis.com/auth/devstorage.read_write"}, "IAM roles"),
        ({"keyfile": "hush-hush"}, "its field keyfile is unknown; .* keyfile_dict"),
        ({"key_path": 3}, "key_path is not text"),
        ({"key_path": "/nowhere/key.json"}, "key file /nowhere/key.json .* No such file"),
        ({"key_path": "/x", "keyfile_dict": KEY}, "two keys"),
        ({"keyfile_dict": "hush-hush"}, "is not a JSON object"),
        ({"keyfile_dict": ["hush-hush"]}, "is not a JSON object"),
        (
            {"keyfile_dict": {"client_secret": "hush-hush"}},
            "has no client_email and no private_key",
        ),
        ({"keyfile_dict": {**KEY, "private_key_id": 7}}, "has no private_key_id"),
        ({"keyfile_dict": {**KEY, "disable_oauth": "hush-hush"}}, "disable_oauth"),
        ({"keyfile_dict": {**KEY, "gcs_base_url": "ftp://host"}}, "is not a URL of a host"),
    ],
)
def test_what_cannot_be_honoured_is_one_sentence_without_a_secret(
    extra: dict[str, Any], says: str
) -> None:
    with pytest.raises(StoreAccessError, match=says) as raised:
        connected(**extra)
    assert "hush" not in str(raised.value)


@pytest.mark.parametrize("name", ["GOOGLE_BEARER_TOKEN", "GOOGLE_SERVICE_ACCOUNT"])
def test_a_variable_that_would_replace_the_key_is_refused(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, "stray")
    with pytest.raises(StoreAccessError, match=f"{name} would take the place"):
        open_store("gs://bucket/t", StoreAccess(google=connected(keyfile_dict=KEY)))


def test_a_key_that_is_no_rsa_key_is_refused_without_it() -> None:
    with pytest.raises(StoreAccessError, match="gs://bucket cannot be opened") as raised:
        open_store("gs://bucket/t", StoreAccess(google=connected(keyfile_dict=KEY)))
    assert "hush" not in str(raised.value)
    assert "of the connection" in str(raised.value)
