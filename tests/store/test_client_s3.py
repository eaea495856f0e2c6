from __future__ import annotations

import logging
import os
import traceback
from pathlib import Path

import pytest

from firnline.errors import StoreAccessError, StoreError, StoreUnavailableError
from firnline.store.access import StoreAccess
from firnline.store.client import ObjectClient, open_store
from firnline.store.requests import RetryPolicy
from firnline.store.sizes import PART_BYTES
from tests.store.conftest import QUICK, Faulty, access
from tests.support.store_contract import StoreContract, fill
from tools.s3server import S3Server, StoreRoot, free_port


class TestS3(StoreContract):
    """The fixtures are those of conftest.py."""


def test_every_request_on_the_wire_is_counted(faulty: Faulty, tmp_path: Path) -> None:
    store, prefix = faulty.store, faulty.prefix
    new = [f"{prefix}/new/{number}" for number in range(40)]
    fill(store, new)
    assert len(list(store.get_many(new))) == 40
    assert len(list(store.get_heads(new[:30], 2))) == 30
    keys = [f"{prefix}/n/{number:04d}" for number in range(1_200)]
    faulty.lay(keys)
    assert len(list(store.list(f"{prefix}/n/"))) == 1_200
    store.head(keys[0])
    (tmp_path / "big").write_bytes(os.urandom(2 * PART_BYTES + 1))
    store.put_file(f"{prefix}/big", tmp_path / "big")
    store.get_file(f"{prefix}/big", tmp_path / "down")
    assert all(answer.error is None for answer in store.delete_many([*keys, f"{prefix}/big"]))

    seen, counted = faulty.proxy.seen, store.counters
    listings = [request for request in seen if "list-type=2" in request.path]
    batches = [request for request in seen if request.path.endswith("?delete")]
    uploads = [r for r in seen if r.method == "POST" and "upload" in r.path]
    assert (counted.list, counted.delete, counted.head) == (len(listings), len(batches), 1)
    assert (counted.list, counted.delete, len(uploads)) == (2, 2, 2)
    assert counted.get == faulty.proxy.count("GET") - len(listings) == 40 + 30 + 1
    assert counted.put == faulty.proxy.count("PUT") + len(uploads) == 40 + 5
    assert counted.retries == 0


@pytest.mark.parametrize("count", [1_000, 1_001, 2_000])
def test_pages_are_counted_where_they_end_exactly(faulty: Faulty, count: int) -> None:
    faulty.lay([f"{faulty.prefix}/n/{number:04d}" for number in range(count)])
    assert len(list(faulty.store.list(f"{faulty.prefix}/n/"))) == count
    assert faulty.store.counters.list == len(faulty.proxy.seen) == -(-count // 1_000)


def test_a_listing_that_is_not_read_to_its_end_asks_for_no_more_pages(faulty: Faulty) -> None:
    faulty.lay([f"{faulty.prefix}/n/{number:04d}" for number in range(1_500)])
    next(faulty.store.list(f"{faulty.prefix}/n/"))
    assert faulty.store.counters.list == len(faulty.proxy.seen) == 1


WRONG: list[tuple[dict[str, str | None], str, str]] = [
    ({"secret_key": "wrong-secret"}, "403 SignatureDoesNotMatch", "correct the secret key"),
    ({"access_key": "WRONGKEY"}, "", "correct the access key"),
    (
        {"endpoint": "http://no-such-host.invalid"},
        "does not resolve",
        "correct the endpoint's host",
    ),
    ({"region": "mars-1"}, "400 AuthorizationHeaderMalformed", "set the bucket's region"),
]


@pytest.mark.parametrize(("changes", "reason", "step"), WRONG)
def test_wrong_access_is_one_sentence_with_the_next_step_and_no_secret(
    s3_server: S3Server,
    s3_root: StoreRoot,
    prefix: str,
    changes: dict[str, str | None],
    reason: str,
    step: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    wrong = access(s3_server, **changes)
    store = open_store(s3_root.url, wrong, retry=QUICK)
    for ask in (
        lambda: list(store.list(f"{prefix}/_log/")),
        lambda: store.get(f"{prefix}/a"),
        lambda: store.put_new(f"{prefix}/a", b""),
        lambda: list(store.get_many([f"{prefix}/a", f"{prefix}/b"])),
    ):
        with pytest.raises(StoreAccessError) as raised:
            ask()
        said = str(raised.value)
        assert reason in said
        assert step in said
        assert f"s3://{s3_server.bucket} at {wrong.endpoint}" in said
        assert "\n" not in said
        shown = "".join(traceback.format_exception(raised.value)) + caplog.text + repr(store)
        for secret in (s3_server.secret_key, s3_server.access_key, wrong.secret_key):
            assert str(secret) not in shown
    answers = list(store.delete_many([f"{prefix}/a", f"{prefix}/b"]))
    assert [type(answer.error) for answer in answers] == [StoreAccessError] * 2
    assert store.counters.retries == 0


def test_a_bucket_that_is_not_there_is_named_by_every_request(s3_server: S3Server) -> None:
    store = open_store("s3://no-such-bucket/t", access(s3_server), retry=QUICK)
    for ask in (
        lambda: list(store.list("t/_log/")),
        lambda: store.get("t/a"),
        lambda: store.put_new("t/a", b""),
    ):
        with pytest.raises(StoreAccessError, match=r"no-such-bucket.*create the bucket"):
            ask()


def test_an_endpoint_where_nobody_listens_is_unavailable_and_bounded(
    s3_server: S3Server, s3_root: StoreRoot, prefix: str
) -> None:
    dead = access(s3_server, endpoint=f"http://127.0.0.1:{free_port()}")
    store = open_store(s3_root.url, dead, retry=RetryPolicy(attempts=3, first_wait=0.01))
    # Nothing was sent, so even of a create-only put the outcome is known.
    for ask in (lambda: store.get(f"{prefix}/a"), lambda: store.put_new(f"{prefix}/a", b"")):
        with pytest.raises(StoreUnavailableError, match=f"{dead.endpoint}.*nothing answers at"):
            ask()
    assert (store.counters.get, store.counters.put, store.counters.retries) == (3, 3, 4)


def test_tls_against_a_plain_endpoint_says_so(
    s3_server: S3Server, s3_root: StoreRoot, prefix: str
) -> None:
    tls = access(s3_server, endpoint=s3_server.endpoint.replace("http:", "https:"))
    with pytest.raises(StoreAccessError, match=r"does not speak TLS.*with http://"):
        open_store(s3_root.url, tls, retry=QUICK).get(f"{prefix}/a")


def test_plain_http_can_be_forbidden(s3_server: S3Server, s3_root: StoreRoot, prefix: str) -> None:
    strict = StoreAccess(
        endpoint=s3_server.endpoint,
        access_key=s3_server.access_key,
        secret_key=s3_server.secret_key,
        allow_http=False,
    )
    with pytest.raises(StoreAccessError, match="allow_http"):
        open_store(s3_root.url, strict, retry=QUICK).get(f"{prefix}/a")


@pytest.mark.parametrize("bucket", ["Bad_Bucket!", "a b", "x"])
def test_a_name_that_no_bucket_has_is_refused_before_a_request(
    s3_server: S3Server, bucket: str
) -> None:
    with pytest.raises(StoreError, match="is not a bucket name"):
        open_store(f"s3://{bucket}/t", access(s3_server))


def test_the_environment_alone_lets_a_store_in(s3_environ: StoreRoot, prefix: str) -> None:
    store = open_store(s3_environ.url)
    store.put_new(f"{prefix}/a", b"1")
    assert store.get(f"{prefix}/a") == b"1"


def test_a_profile_of_the_aws_chain_lets_a_store_in(
    s3_server: S3Server,
    s3_root: StoreRoot,
    prefix: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shared = tmp_path / "credentials"
    shared.write_text(
        f"[lake]\naws_access_key_id = {s3_server.access_key}\n"
        f"aws_secret_access_key = {s3_server.secret_key}\n"
    )
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(shared))
    by_name = StoreAccess(endpoint=s3_server.endpoint, profile="lake")
    store = open_store(s3_root.url, by_name)
    store.put_new(f"{prefix}/a", b"1")
    assert store.get(f"{prefix}/a") == b"1"


def test_an_airflow_connection_lets_a_store_in(
    s3_server: S3Server, s3_root: StoreRoot, prefix: str
) -> None:
    extra = {"endpoint_url": s3_server.endpoint, "region_name": s3_server.region}
    connection = StoreAccess.from_airflow_fields(
        s3_server.access_key, s3_server.secret_key, extra, {}
    )
    travelled = StoreAccess.from_json(connection.to_json())
    open_store(s3_root.url, travelled).put_new(f"{prefix}/a", b"1")


def test_stray_variables_do_not_reach_a_store_with_access_of_its_own(
    store: ObjectClient,
    s3_server: S3Server,
    s3_root: StoreRoot,
    prefix: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in {
        "AWS_ENDPOINT_URL": "http://127.0.0.1:9",
        "AWS_ENDPOINT_URL_S3": "http://127.0.0.1:9",
        "AWS_ACCESS_KEY_ID": "other",
        "AWS_SECRET_ACCESS_KEY": "other",
        "AWS_SESSION_TOKEN": "other",
        "AWS_SKIP_SIGNATURE": "true",
        "AWS_CONDITIONAL_PUT": "disabled",
        "AWS_VIRTUAL_HOSTED_STYLE_REQUEST": "true",
    }.items():
        monkeypatch.setenv(name, value)
    own = open_store(s3_root.url, access(s3_server), retry=QUICK)
    own.put_new(f"{prefix}/a", b"1")
    with pytest.raises(StoreError, match="exists"):
        own.put_new(f"{prefix}/a", b"2")
    assert store.get(f"{prefix}/a") == b"1"
