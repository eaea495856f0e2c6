"""``gs://`` on a small server of the XML API, with the credentials of an Airflow connection."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from firnline.errors import StoreAccessError
from firnline.store.access import StoreAccess
from firnline.store.client import ObjectClient, open_store
from firnline.store.google import GoogleAccess
from tests.store.conftest import QUICK
from tests.support.google_store import BUCKET, GoogleStore, as_text, google_store
from tests.support.store_contract import StoreContract


@pytest.fixture
def server() -> Iterator[GoogleStore]:
    with google_store() as running:
        yield running


@pytest.fixture
def prefix() -> str:
    return "t"


def opened(extra: dict[str, Any], bucket: str = BUCKET) -> ObjectClient:
    """Open a store as a task does with a connection of this extra."""
    google = GoogleAccess.from_airflow_fields(extra)
    access = StoreAccess.from_json(StoreAccess(google=google).to_json())  # as it travels
    return open_store(f"gs://{bucket}/t", access, retry=QUICK)


@pytest.fixture
def store(server: GoogleStore) -> ObjectClient:
    return opened({"keyfile_dict": server.keyfile()})


class TestGoogle(StoreContract):
    """The fixtures are those above."""


@pytest.mark.parametrize("form", ["mapping", "text", "escaped", "path", "old name"])
def test_each_form_of_a_key_opens_the_store(
    server: GoogleStore, tmp_path: Path, form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # What is left in the environment must not take the place of the connection's key.
    monkeypatch.setenv("GOOGLE_SERVICE_ACCOUNT_KEY", "{}")
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "none"))
    monkeypatch.setenv("GOOGLE_SKIP_SIGNATURE", "true")
    key = server.keyfile()
    escaped = {**key, "private_key": str(key["private_key"]).replace("\n", "\\n")}
    (tmp_path / "key.json").write_text(as_text(key))
    forms: dict[str, dict[str, Any]] = {
        "mapping": {"keyfile_dict": key, "project": "p", "num_retries": 5},
        "text": {"keyfile_dict": json.dumps(key)},
        "escaped": {"keyfile_dict": json.dumps(escaped)},
        "path": {"key_path": str(tmp_path / "key.json")},
        "old name": {"extra__google_cloud_platform__keyfile_dict": json.dumps(key)},
    }
    store = opened(forms[form])
    (tmp_path / "key.json").unlink()  # it was read where the task runs
    store.put_new("t/a", b"one")
    assert store.get("t/a") == b"one"
    assert [meta.key for meta in store.list("t/")] == ["t/a"]
    assert store.where == f"gs://{BUCKET} at {server.url}"
    assert all(token.startswith("Bearer ey") for token in server.tokens)


def test_another_account_s_key_is_refused_by_the_store_in_one_sentence(server: GoogleStore) -> None:
    with google_store() as other:
        wrong = other.keyfile(gcs_base_url=server.url)
        with pytest.raises(StoreAccessError, match="401 AuthenticationRequired") as raised:
            opened({"keyfile_dict": wrong}).get("t/a")
    assert str(wrong["private_key"])[40:80] not in str(raised.value)


def test_a_missing_bucket_is_said_so(server: GoogleStore) -> None:
    with pytest.raises(StoreAccessError, match="create the bucket"):
        opened({"keyfile_dict": server.keyfile()}, bucket="nowhere").put_new("t/a", b"")
