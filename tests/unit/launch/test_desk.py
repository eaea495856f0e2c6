from __future__ import annotations

from pathlib import Path

import pytest

from firnline.errors import EnvironmentFaultError, ObjectNotFoundError, UsageError
from firnline.launch.desk import Desk, Failure, Outcome, open_access
from firnline.launch.package import MANIFEST
from firnline.store.access import StoreAccess
from firnline.store.client import open_store
from tests.support.launching import MANIFEST_OF_ONE, published, request


def test_what_is_asked_and_told_is_heard_on_the_other_side(tmp_path: Path) -> None:
    desk = published(tmp_path)
    assert desk.package().manifest == MANIFEST_OF_ONE
    assert desk.outcome("n-1") is None
    desk.ask("n-1", request(looks_for_cancel=True))
    assert Desk.open(desk.url, None).request("n-1").looks_for_cancel
    assert desk.name_at(desk.request_url("n-1")) == "n-1"
    told = Outcome(error=Failure(message="it broke", next_step="mend it", retryable=True))
    desk.tell("n-1", told)
    desk.tell("n-1", Outcome())
    assert desk.outcome("n-1") == told, "the first telling stands"


def test_only_the_objects_of_one_job_are_cleared(tmp_path: Path) -> None:
    desk = published(tmp_path)
    for name in ("a-1", "a-2", "b-1"):
        desk.ask(name, request())
        desk.tell(name, Outcome())
        desk.stop(name)
    assert desk.names("a") == ["a-1", "a-2"]
    desk.clear("a-1")
    assert (desk.names("a"), desk.names("b")) == (["a-2"], ["b-1"])
    assert not desk.stopped("a-1")
    assert desk.stopped("a-2")
    with pytest.raises(ObjectNotFoundError):
        desk.request("a-1")


def test_a_folder_that_is_no_package_is_refused_before_any_request() -> None:
    with pytest.raises(UsageError, match=r"s3://b/firnline names no published package"):
        Desk.open("s3://b/firnline", None)


def test_a_manifest_that_does_not_read_is_named(tmp_path: Path) -> None:
    url = f"file://{tmp_path}/1.2-0123456789ab"
    desk = Desk.open(url, None)
    open_store(url).put_new(desk.paths.file(MANIFEST), b"{")
    with pytest.raises(EnvironmentFaultError, match=r"1\.2-0123456789ab/manifest\.json"):
        desk.package()


def test_no_credentials_are_told_to_a_job() -> None:
    access = StoreAccess(
        endpoint="http://s3:9000", region="r", access_key="A", secret_key="S", session_token="T"
    )
    assert open_access(access) == {
        "endpoint": "http://s3:9000", "region": "r", "addressing": "auto",
    }  # fmt: skip
    assert open_access(None) == {}
