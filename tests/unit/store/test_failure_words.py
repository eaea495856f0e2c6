"""Failures of a store in words: the cause first, and what to look at."""

from __future__ import annotations

import pytest

from firnline.store.failures import _PROXIES, Failure, classify, to_error


def test_a_disk_that_is_read_only_is_the_cause_and_no_library() -> None:
    text = (
        "Generic LocalFileSystem error: Unable to create dir /mnt/t/_data: "
        "Read-only file system (os error 30)"
    )
    error = to_error(classify(Exception(text)), "PUT of t/_data/x.parquet", "file:///mnt")
    assert error.message == "PUT of t/_data/x.parquet in file:///mnt failed: read-only file system"
    assert error.next_step == "choose a root on another disk, or mount that one for writing"


def test_nobody_who_answers_may_be_a_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in _PROXIES:
        monkeypatch.delenv(name, raising=False)
    silent = Failure("transient", "nothing answers at the endpoint", unsent=True)
    assert "proxy" not in to_error(silent, "GET of a", "s3://b").next_step
    monkeypatch.setenv("HTTPS_PROXY", "http://user:secret@127.0.0.1:9")
    step = to_error(silent, "GET of a", "s3://b").next_step
    assert "the proxy of the environment (HTTPS_PROXY=http://127.0.0.1:9)" in step
    assert "secret" not in step
    unknown = Failure("access", "the host name does not resolve", "dns", unsent=True)
    assert to_error(unknown, "LIST of a", "s3://b").next_step == (
        "correct the endpoint's host name, or the proxy of the environment "
        "(HTTPS_PROXY=http://127.0.0.1:9)"
    )
    refused = Failure("access", "403 AccessDenied", "AccessDenied")
    assert "proxy" not in to_error(refused, "GET of a", "s3://b").next_step
    late = Failure("transient", "no answer in time")
    assert "proxy" not in to_error(late, "GET of a", "s3://b").next_step
