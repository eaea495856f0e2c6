from __future__ import annotations

import base64
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from firnline.errors import StoreAccessError, StoreError
from firnline.store.access import StoreAccess
from firnline.store.azure import AzureAccess
from firnline.store.client import open_store
from firnline.store.requests import RetryPolicy

KEY = base64.b64encode(b"hush-hush").decode()
SAS = "sv=2019-12-12&sp=rwdl&sig=hush%2Bhush%3D"


def wasb(
    host: str | None = None,
    login: str | None = None,
    password: str | None = None,
    conn_type: str = "wasb",
    **extra: Any,
) -> AzureAccess:
    return AzureAccess.from_airflow_fields(conn_type, host, login, password, extra)


def test_the_login_is_the_account_and_the_password_its_key() -> None:
    access = wasb(login="acct", password=KEY)
    assert access == AzureAccess("acct", key=KEY)
    assert access.url == "https://acct.blob.core.windows.net"
    assert access.config({}) == {
        "account_name": "acct",
        "endpoint": "https://acct.blob.core.windows.net",
        "use_emulator": False,
        "skip_signature": False,
        "credential_type": "access_key",
        "account_key": KEY,
    }


@pytest.mark.parametrize(
    ("host", "login", "account", "url"),
    [
        ("acct.blob.core.windows.net", None, "acct", "https://acct.blob.core.windows.net"),
        ("https://acct.blob.core.windows.net/", None, "acct", "https://acct.blob.core.windows.net"),
        ("https://acct.dfs.core.windows.net", "x", "acct", "https://acct.blob.core.windows.net"),
        ("https://acct.blob.core.chinacloudapi.cn", None, "acct", None),
        ("acct", None, "acct", "https://acct.blob.core.windows.net"),
        ("directory-id", "acct", "acct", "https://acct.blob.core.windows.net"),
        ("https://lake.example", "acct", "acct", "https://lake.example"),
        ("http://127.0.0.1:10000/acct", None, "acct", "http://127.0.0.1:10000/acct"),
    ],
)
def test_the_host_is_a_url_a_host_or_an_account(
    host: str, login: str | None, account: str, url: str | None
) -> None:
    access = wasb(host, login, shared_access_key=KEY)
    assert (access.account, access.url) == (account, url or host)


def test_the_credential_is_chosen_as_by_airflow_s_hook() -> None:
    host = "https://acct.blob.core.windows.net"
    application = {"tenant_id": "ten", "client_id": "app", "client_secret": "hush"}
    cases: list[tuple[dict[str, Any], dict[str, Any]]] = [
        ({"login": "app", "password": "hush", "tenant_id": "ten"}, application),
        ({"password": KEY, "shared_access_key": "other"}, {"key": "other"}),
        ({"password": KEY, "sas_token": SAS}, {"sas_token": SAS}),
        ({"password": KEY, "account_key": "other"}, {"key": KEY}),
        ({"account_key": KEY}, {"key": KEY}),
        ({"extra__wasb__sas_token": SAS}, {"sas_token": SAS}),
        ({"managed_identity_client_id": "id"}, {"client_id": "id"}),
        ({}, {}),
    ]
    for given, expected in cases:
        assert wasb(host, **given) == AzureAccess("acct", host, **expected)


def test_a_sas_url_names_the_account() -> None:
    access = wasb(sas_token=f"https://acct.blob.core.windows.net/?{SAS}")
    assert (access.account, access.sas_token) == ("acct", SAS)
    assert access.url == "https://acct.blob.core.windows.net"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            f"AccountName=acct;AccountKey={KEY};EndpointSuffix=core.windows.net",
            AzureAccess("acct", "https://acct.blob.core.windows.net", key=KEY),
        ),
        (
            f"AccountName=acct;AccountKey={KEY};BlobEndpoint=http://127.0.0.1:10000/acct;",
            AzureAccess("acct", "http://127.0.0.1:10000/acct", key=KEY),
        ),
        (
            f"BlobEndpoint=https://a.blob.example;QueueEndpoint=x;SharedAccessSignature={SAS}",
            AzureAccess("a", "https://a.blob.example", sas_token=SAS),
        ),
    ],
)
def test_a_connection_string_says_all(text: str, expected: AzureAccess) -> None:
    assert wasb("ignored.example", "ignored", "ignored", connection_string=text) == expected
    assert wasb(conn_type="adls", connection_string=text) == expected


def test_a_data_lake_connection_names_the_account_as_its_host() -> None:
    assert wasb("acct", "app", KEY, "adls") == AzureAccess("acct", key=KEY)
    application = wasb("acct", "app", "hush", "adls", tenant_id="ten")
    assert (application.account, application.client_id) == ("acct", "app")
    url = "https://acct.dfs.core.windows.net"
    assert wasb(None, None, KEY, "adls", account_url=url).url == url.replace("dfs", "blob")


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"password": KEY}, "no storage account is named"),
        ({"login": "a", "api_version": "2021"}, "its field api_version is unknown"),
        ({"login": "a", "sas_token": ["hush"]}, "sas_token is not text"),
        ({"host": "acct", "tenant_id": "t", "login": "app"}, "no secret in its password"),
        ({"login": "a", "workload_identity_tenant_id": "t"}, "no managed_identity_client_id"),
        ({"connection_string": "hush-hush"}, "not a list of NAME=VALUE"),
        ({"connection_string": "UseDevelopmentStorage=true"}, "emulator without an address"),
        ({"host": "https://user:hush@host", "login": "a"}, "is not a URL of a host"),
        (
            {
                "host": "acct",
                "login": "app",
                "password": "hush",
                "tenant_id": "t",
                "client_secret_auth_config": {"proxies": {}},
            },
            "client_secret_auth_config cannot be honoured",
        ),
    ],
)
def test_what_cannot_be_honoured_is_one_sentence_without_a_secret(
    fields: dict[str, Any], says: str
) -> None:
    with pytest.raises(StoreAccessError, match=says) as raised:
        wasb(**fields)
    assert "hush" not in str(raised.value)


@pytest.mark.parametrize(
    "fields", [{"key": KEY, "sas_token": SAS}, {"client_secret": "hush", "client_id": "app"}]
)
def test_an_access_has_one_whole_credential(fields: dict[str, Any]) -> None:
    with pytest.raises(StoreAccessError):
        AzureAccess("acct", **fields)


def test_no_secret_is_shown_and_all_are_known() -> None:
    for access, secrets in (
        (AzureAccess("a", key=KEY), {KEY}),
        (AzureAccess("a", sas_token=SAS), {SAS, "hush+hush="}),
        (AzureAccess("a", tenant_id="t", client_id="c", client_secret="hush"), {"hush"}),
        (AzureAccess("a"), set()),
    ):
        whole = StoreAccess(azure=access)
        assert set(whole.secrets) == secrets
        assert "hush" not in repr(whole)
        assert KEY not in repr(whole)
        assert StoreAccess.from_json(whole.to_json()) == whole


@pytest.mark.parametrize("bad", [{"key": "hush-hush!"}, {"sas_token": "hush-hush"}])
def test_a_credential_that_cannot_be_one_is_refused_without_it(bad: dict[str, str]) -> None:
    with pytest.raises(StoreAccessError, match=r"az://c at https://a\.blob") as raised:
        open_store("az://c/t", StoreAccess(azure=AzureAccess("a", **bad)))
    assert "hush" not in str(raised.value)


class _Recorder(BaseHTTPRequestHandler):
    seen: list[tuple[str, str]]

    def _record(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()
        text = "\n".join((self.path, self.headers.get("Authorization", ""), body))
        self.seen.append((self.command, text))
        asked = "/token" in self.path or "/identity" in self.path
        answer = b'{"access_token": "the-token", "expires_in": 3600, "expires_on": "4070908800"}'
        self.send_response(200 if asked else 403)
        self.send_header("Content-Length", str(len(answer) if asked else 0))
        self.end_headers()
        self.wfile.write(answer if asked else b"")

    do_GET = do_POST = _record  # noqa: N815 -- their names

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextmanager
def recorder() -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """A server that issues tokens and refuses everything else; its URL, and what was asked."""
    seen: list[tuple[str, str]] = []
    handler = type("Recorder", (_Recorder,), {"seen": seen})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}", seen
        server.shutdown()
        thread.join()


@pytest.mark.parametrize("identity", ["application", "managed", "workload"])
def test_an_identity_s_token_is_fetched_and_sent(
    identity: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", KEY)  # must not take its place
    (tmp_path / "federated").write_text("of-the-pod")
    with recorder() as (url, seen):
        host, authority = f"{url}/acct", {"authority": url}
        if identity == "application":
            access = wasb(host, "app", "hush", tenant_id="ten", client_secret_auth_config=authority)
        else:
            ids = {"managed_identity_client_id": "app", "workload_identity_tenant_id": "ten"}
            access = wasb(host, **ids)
        monkeypatch.setenv("AZURE_MSI_ENDPOINT", f"{url}/identity")
        if identity == "workload":
            monkeypatch.setenv("AZURE_FEDERATED_TOKEN_FILE", str(tmp_path / "federated"))
            monkeypatch.setenv("AZURE_AUTHORITY_HOST", url)
        retry = RetryPolicy(attempts=1)
        with pytest.raises(StoreError, match="403"):
            open_store("az://c/t", StoreAccess(azure=access), retry=retry).get("t/a")
    (_, token), (_, request) = seen
    expected = {
        "application": ("/ten/oauth2/v2.0/token", "client_secret=hush"),
        "managed": ("/identity", "client_id=app"),
        "workload": ("/ten/oauth2/v2.0/token", "client_assertion=of-the-pod"),
    }[identity]
    assert all(part in token for part in expected)
    assert request.startswith("/acct/c/t/a\nBearer the-token")
