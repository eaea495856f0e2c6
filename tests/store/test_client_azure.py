"""``az://`` on Azurite, Microsoft's emulator, with the credentials of an Airflow connection."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from firnline.errors import ObjectExistsError, StoreAccessError
from firnline.store.access import StoreAccess
from firnline.store.azure import AzureAccess
from firnline.store.client import ObjectClient, open_store
from firnline.store.requests import RetryPolicy
from tests.store.conftest import QUICK
from tests.support.store_contract import StoreContract, fill
from tools.azureserver import AzureServer


@pytest.fixture
def prefix(request: pytest.FixtureRequest) -> str:
    """This test's own."""
    return base64.b16encode(request.node.name.encode()).decode()[-60:]


def wasb(azure_server: AzureServer, retry: RetryPolicy = QUICK, **fields: Any) -> ObjectClient:
    """Open a store as a task does with a connection of these fields."""
    given: dict[str, Any] = {"host": azure_server.endpoint, "login": azure_server.account}
    azure = AzureAccess.from_airflow_fields(
        "wasb", **({"password": None, "extra": {}} | given | fields)
    )
    access = StoreAccess.from_json(StoreAccess(azure=azure).to_json())  # as it travels
    return open_store(f"az://{azure_server.container}/t", access, retry=retry)


@pytest.fixture
def store(azure_server: AzureServer) -> ObjectClient:
    return wasb(azure_server, password=azure_server.key)


@pytest.mark.full("Azurite takes minutes for thousands of objects")
class TestAzure(StoreContract):
    """The fixtures are those above."""


def forms(azure_server: AzureServer) -> dict[str, dict[str, Any]]:
    place = f"BlobEndpoint={azure_server.endpoint};"
    string = f"AccountName={azure_server.account};AccountKey={azure_server.key};{place}"
    signed = f"{place}SharedAccessSignature={azure_server.sas()}"
    return {
        "shared_access_key": {"extra": {"shared_access_key": azure_server.key}},
        "account_key": {"extra": {"account_key": azure_server.key}},
        "sas_token": {"extra": {"sas_token": azure_server.sas()}},
        "sas url": {
            "extra": {"sas_token": f"{azure_server.endpoint}?{azure_server.sas()}"},
            "host": None,
        },
        "connection string": {"extra": {"connection_string": string}, "host": None, "login": None},
        "signed string": {"extra": {"connection_string": signed}, "host": None, "login": None},
    }


@pytest.mark.parametrize(
    "form",
    [
        "shared_access_key",
        "account_key",
        "sas_token",
        "sas url",
        "connection string",
        "signed string",
    ],
)
def test_each_form_of_a_connection_opens_the_store(
    azure_server: AzureServer, prefix: str, form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # What is left in the environment must not take the place of the connection's credential.
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", "other")
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", base64.b64encode(b"other").decode())
    monkeypatch.setenv("AZURE_STORAGE_TOKEN", "other")
    monkeypatch.setenv("AZURE_STORAGE_ENDPOINT", "https://other.example")
    monkeypatch.setenv("AZURE_STORAGE_USE_EMULATOR", "true")
    store = wasb(azure_server, **forms(azure_server)[form])
    store.put_new(f"{prefix}/a", b"one")
    assert store.get(f"{prefix}/a") == b"one"
    assert [meta.key for meta in store.list(f"{prefix}/")] == [f"{prefix}/a"]
    assert azure_server.endpoint in store.where


def test_an_object_is_created_once_and_a_listing_begins_after_a_key(
    store: ObjectClient, prefix: str
) -> None:
    keys = [f"{prefix}/{number}" for number in range(5)]
    fill(store, keys)
    with pytest.raises(ObjectExistsError):
        store.put_new(keys[0], b"again")
    # Azurite ignores where the listing is to begin, as Azure did before 2025.
    assert [meta.key for meta in store.list(f"{prefix}/", start_after=keys[2])] == keys[3:]
    assert all(answer.error is None for answer in store.delete_many([*keys, f"{prefix}/none"]))
    assert list(store.list(f"{prefix}/")) == []


@pytest.mark.parametrize("form", ["key", "signature"])
def test_a_wrong_credential_is_one_sentence_without_it(
    azure_server: AzureServer, form: str
) -> None:
    wrong = base64.b64encode(b"hush-hush" * 4).decode()
    fields: dict[str, Any] = {"password": wrong}
    if form == "signature":
        fields = {"extra": {"sas_token": azure_server.sas().partition("sig=")[0] + f"sig={wrong}"}}
    with pytest.raises(StoreAccessError, match="failed: 403 Auth") as raised:
        wasb(azure_server, **fields).get("t/a")
    assert wrong not in str(raised.value)


def test_a_signature_that_only_reads_writes_nothing(azure_server: AzureServer, prefix: str) -> None:
    store = wasb(azure_server, extra={"sas_token": azure_server.sas(permissions="rl")})
    with pytest.raises(StoreAccessError, match="403"):
        store.put_new(f"{prefix}/a", b"one")


def test_a_missing_container_is_said_so(azure_server: AzureServer) -> None:
    azure = AzureAccess(azure_server.account, azure_server.endpoint, key=azure_server.key)
    store = open_store("az://nowhere/t", StoreAccess(azure=azure), retry=QUICK)
    with pytest.raises(StoreAccessError, match="create the container"):
        store.put_new("t/a", b"")
