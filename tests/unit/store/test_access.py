from __future__ import annotations

import json
import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firnline.errors import StoreAccessError
from firnline.store.access import StoreAccess

SECRETS: Any = {"access_key": "AKIAXYZ", "secret_key": "hush-hush", "session_token": "tok-tok"}


def test_no_secret_is_shown() -> None:
    access = StoreAccess(endpoint="https://s3.example", external_id="ext-ext", **SECRETS)
    for text in (repr(access), str(access), f"{access}"):
        assert "s3.example" in text
        assert not any(secret in text for secret in (*SECRETS.values(), "ext-ext"))


@pytest.mark.long
@given(
    st.fixed_dictionaries(
        {},
        optional={
            "region": st.text(max_size=9),
            "session_token": st.text(max_size=9),
            "profile": st.text(max_size=9),
            "role_arn": st.text(max_size=9),
            "allow_http": st.booleans(),
            "addressing": st.sampled_from(["auto", "path", "virtual"]),
            "endpoint": st.sampled_from(["https://s3.example", "http://store.local:9000/"]),
        },
    )
)
def test_access_travels_as_json_and_as_pickle(fields: dict[str, Any]) -> None:
    access = StoreAccess(access_key="k", secret_key="s", **fields)
    assert StoreAccess.from_json(access.to_json()) == access
    assert pickle.loads(pickle.dumps(access)) == access


@pytest.mark.parametrize(
    "text",
    [
        *("", "[]", "3", "{", '{"nope": 1}', '{"access_key": "hush-hush"', '{"google": 3}'),
        *('{"google": {"key": "hush-hush"}}', '{"azure": {"key": "hush-hush"}}'),
    ],
)
def test_a_damaged_description_is_one_error_without_its_content(text: str) -> None:
    with pytest.raises(StoreAccessError) as raised:
        StoreAccess.from_json(text)
    assert "hush-hush" not in str(raised.value)


@pytest.mark.parametrize("half", [{"access_key": "hush-hush"}, {"secret_key": "hush-hush"}])
def test_half_a_key_pair_is_refused(half: dict[str, str]) -> None:
    with pytest.raises(StoreAccessError, match="give both") as raised:
        StoreAccess(**half)  # type: ignore[arg-type]  # not every field is text
    assert "hush-hush" not in str(raised.value)


@pytest.mark.parametrize(
    "endpoint",
    [
        "s3.example",
        "ftp://s3.example",
        "http://",
        "http://a b",
        "http://999.1.1.1",
        "http://bucket.127.0.0.1:9000",
        "http://host:port",
        "http://host/?x=1",
        "http://host#x",
        "https://user:hush-hush@host",
    ],
)
def test_an_endpoint_that_would_break_the_client_is_refused(endpoint: str) -> None:
    with pytest.raises(StoreAccessError, match="https://host") as raised:
        StoreAccess(endpoint=endpoint)
    assert "hush-hush" not in str(raised.value)


@pytest.mark.parametrize(
    "endpoint",
    [
        "https://s3.eu-west-1.amazonaws.com",
        "http://localhost:9000",
        "http://minio_1.lake:9000/",
        "http://127.0.0.1:7070",
        "https://[::1]:7070",
        "https://host/with/path",
    ],
)
def test_endpoints_as_people_have_them_are_accepted(endpoint: str) -> None:
    assert StoreAccess(endpoint=endpoint).path_style


def test_a_bucket_cannot_be_part_of_an_address() -> None:
    with pytest.raises(StoreAccessError, match="path-style"):
        StoreAccess(endpoint="http://127.0.0.1:9000", addressing="virtual")


def test_plain_http_needs_an_endpoint_that_says_so() -> None:
    assert StoreAccess(endpoint="http://host").http_allowed
    assert not StoreAccess(endpoint="http://host", allow_http=False).http_allowed
    assert not StoreAccess(endpoint="https://host").http_allowed
    assert not StoreAccess().http_allowed


def test_the_environment_is_read_as_the_aws_tools_do() -> None:
    env = {
        "AWS_ACCESS_KEY_ID": "k",
        "AWS_SECRET_ACCESS_KEY": "s",
        "AWS_SESSION_TOKEN": "t",
        "AWS_ENDPOINT_URL": "https://any.example",
        "AWS_ENDPOINT_URL_S3": "https://s3.example",
        "AWS_DEFAULT_REGION": "eu-west-1",
    }
    access = StoreAccess.from_env(env)
    assert access == StoreAccess(
        endpoint="https://s3.example",
        region="eu-west-1",
        access_key="k",
        secret_key="s",
        session_token="t",
    )
    assert StoreAccess.from_env({"AWS_ENDPOINT_URL": "https://a.example"}).endpoint is not None
    assert StoreAccess.from_env({}) == StoreAccess()


def test_a_token_without_keys_is_left_to_the_chain() -> None:
    assert (
        StoreAccess.from_env({"AWS_SESSION_TOKEN": "t", "AWS_ACCESS_KEY_ID": "k"}) == StoreAccess()
    )


def test_an_airflow_connection_is_read_as_airflow_does() -> None:
    extra = {
        "endpoint_url": "https://s3.example",
        "region_name": "eu-west-1",
        "aws_session_token": "t",
        "role_arn": "arn:aws:iam::1:role/firnline",
        "assume_role_kwargs": {"ExternalId": "ext"},
        "config_kwargs": {"s3": {"addressing_style": "path"}},
    }
    assert StoreAccess.from_airflow_fields("k", "s", extra, {}) == StoreAccess(
        endpoint="https://s3.example",
        region="eu-west-1",
        access_key="k",
        secret_key="s",
        session_token="t",
        addressing="path",
        role_arn="arn:aws:iam::1:role/firnline",
        external_id="ext",
    )


def test_the_keys_may_stand_in_the_extra_of_the_connection() -> None:
    extra = json.loads('{"aws_access_key_id": "k", "aws_secret_access_key": "s"}')
    access = StoreAccess.from_airflow_fields(None, "", extra, {})
    assert (access.access_key, access.secret_key) == ("k", "s")


def test_a_connection_without_an_endpoint_takes_that_of_the_environment() -> None:
    env = {"AWS_ENDPOINT_URL": "https://s3.example", "AWS_REGION": "eu-west-1"}
    service = {"service_config": {"s3": {"endpoint_url": "https://own.example"}}}
    assert StoreAccess.from_airflow_fields("k", "s", None, env).endpoint == "https://s3.example"
    assert StoreAccess.from_airflow_fields("k", "s", {}, env).region == "eu-west-1"
    assert StoreAccess.from_airflow_fields("k", "s", service, env).endpoint == "https://own.example"
