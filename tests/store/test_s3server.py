from __future__ import annotations

import os
from pathlib import Path

import obstore
import pytest
from obstore.exceptions import AlreadyExistsError, GenericError, PermissionDeniedError
from obstore.store import S3Store, from_url

from tools.s3server import S3Server, StoreRoot


def client(server: S3Server, secret_key: str | None = None) -> S3Store:
    return S3Store(
        server.bucket,
        endpoint=server.endpoint,
        region=server.region,
        access_key_id=server.access_key,
        secret_access_key=secret_key or server.secret_key,
        virtual_hosted_style_request=False,
        client_options={"allow_http": True},
    )


def test_the_server_refuses_to_create_an_object_twice(s3_server: S3Server) -> None:
    store = client(s3_server)
    obstore.put(store, "twice/key", b"first", mode="create")
    with pytest.raises(AlreadyExistsError):
        obstore.put(store, "twice/key", b"second", mode="create")
    assert bytes(obstore.get(store, "twice/key").bytes()) == b"first"


def test_the_server_refuses_a_wrong_secret(s3_server: S3Server) -> None:
    with pytest.raises((PermissionDeniedError, GenericError)):
        obstore.put(client(s3_server, secret_key="wrong"), "key", b"")


def test_clients_are_let_in_by_the_environment_alone(s3_environ: StoreRoot) -> None:
    store = S3Store.from_url(s3_environ.url)
    obstore.put(store, "key", b"value", mode="create")
    assert [meta["path"] for meta in obstore.list(store).collect()] == ["key"]


@pytest.mark.parametrize("time", ["first", "second"])
def test_every_store_root_begins_empty(
    time: str, store_root: StoreRoot, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in store_root.env.items():
        monkeypatch.setenv(name, value)
    store = from_url(store_root.url)
    assert obstore.list(store).collect() == []
    obstore.put(store, "key", b"value")


def test_a_stopped_server_is_gone_and_its_objects_stay(tmp_path: Path) -> None:
    with S3Server(tmp_path / "data") as server:
        obstore.put(client(server), "kept", b"value")
        pid = server.pid
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    with S3Server(tmp_path / "data") as server:
        assert bytes(obstore.get(client(server), "kept").bytes()) == b"value"


def test_two_servers_have_different_ports_and_keys(tmp_path: Path) -> None:
    with S3Server(tmp_path / "one") as one, S3Server(tmp_path / "two") as two:
        assert one.port != two.port
        assert one.secret_key != two.secret_key
