from __future__ import annotations

import os
import re
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

from firnline.errors import (
    ObjectExistsError,
    OutcomeUnknownError,
    StoreAccessError,
    StoreError,
    StoreUnavailableError,
)
from firnline.ids import SystemIds
from firnline.operations.deletion import DeleteProgress, Deleter
from firnline.paths import TablePaths
from firnline.settings.load import TableSettings
from firnline.store import connect as backend
from firnline.store.client import open_store
from firnline.store.create import create
from firnline.table import Table
from tests.store.conftest import QUICK, Faulty, access
from tests.store.faultproxy import Fault, Request, whole_answer, xml_answer
from tests.support.world import SetClock
from tools.s3server import S3Server, StoreRoot

BREAKS: list[Fault] = ["reset", "lose-answer", "fail-after", "cut-head", "cut-body"]


def is_put(request: Request) -> bool:
    return request.method == "PUT"


@pytest.mark.parametrize("status", [429, 500, 502, 503, 504])
def test_a_busy_store_is_asked_again(faulty: Faulty, status: int) -> None:
    faulty.direct.put_new(f"{faulty.prefix}/a", b"1")
    faulty.proxy.add("answer", times=2, answer=xml_answer(status, "Busy"))
    assert faulty.store.get(f"{faulty.prefix}/a") == b"1"
    assert (faulty.store.counters.get, faulty.store.counters.retries) == (3, 2)
    assert len(faulty.proxy.seen) == 3


@pytest.mark.parametrize("status", [400, 401, 403, 404, 405, 409, 411, 412, 501])
def test_what_the_store_refuses_is_not_asked_again(faulty: Faulty, status: int) -> None:
    faulty.proxy.add("answer", times=9, answer=xml_answer(status, "Whatever"))
    with pytest.raises(StoreError, match=f"{status} Whatever|with a conflict"):
        faulty.store.get(f"{faulty.prefix}/a")
    assert (len(faulty.proxy.seen), faulty.store.counters.retries) == (1, 0)


@pytest.mark.parametrize("fault", BREAKS)
def test_a_read_survives_a_broken_connection(faulty: Faulty, fault: Fault, tmp_path: Path) -> None:
    key, body = f"{faulty.prefix}/a", os.urandom(300_000)
    faulty.direct.put_new(key, body)
    faulty.proxy.add(fault)
    assert faulty.store.get(key) == body
    faulty.proxy.add(fault)
    assert faulty.store.get_range(key, 1_000, 200_000) == body[1_000:201_000]
    faulty.proxy.add(fault)
    assert faulty.store.get_file(key, tmp_path / "f") == len(body)
    assert (tmp_path / "f").read_bytes() == body
    assert (faulty.store.counters.get, faulty.store.counters.retries) == (6, 3)
    assert len(faulty.proxy.seen) == 6


def test_a_body_that_is_always_cut_is_noticed_and_never_given_out(
    faulty: Faulty, tmp_path: Path
) -> None:
    faulty.direct.put_new(f"{faulty.prefix}/a", b"x" * 100_000)
    faulty.proxy.add("cut-body", times=99)
    with pytest.raises(StoreUnavailableError, match="the connection broke off"):
        faulty.store.get(f"{faulty.prefix}/a")
    with pytest.raises(StoreUnavailableError):
        faulty.store.get_file(f"{faulty.prefix}/a", tmp_path / "f")
    assert not (tmp_path / "f").exists()


@pytest.mark.parametrize("fault", BREAKS)
def test_one_of_many_reads_breaks_and_all_are_right(faulty: Faulty, fault: Fault) -> None:
    keys = [f"{faulty.prefix}/m/{number}" for number in range(200)]
    faulty.lay(keys)
    faulty.proxy.add(fault, times=5)
    assert dict(faulty.store.get_many(keys)) == {key: key.encode() for key in keys}
    assert faulty.store.counters.retries == 5


@pytest.mark.parametrize("fault", ["reset", "cut-body"])
def test_a_listing_goes_on_where_it_broke(faulty: Faulty, fault: Fault) -> None:
    keys = [f"{faulty.prefix}/l/{number:04d}" for number in range(2_100)]
    faulty.lay(keys)
    faulty.proxy.add(fault, lambda request: "start-after" in request.path)
    second = re.compile("continuation-token|start-after")
    faulty.proxy.add(fault, lambda request: second.search(request.path) is not None, times=2)
    assert [meta.key for meta in faulty.store.list(f"{faulty.prefix}/l/")] == keys
    counted = faulty.store.counters
    assert counted.retries == 3
    assert counted.list == len(faulty.proxy.seen) == 3 + 3


def test_a_create_that_never_arrived_is_sent_again(faulty: Faulty) -> None:
    faulty.proxy.add("reset")
    faulty.store.put_new(f"{faulty.prefix}/a", b"1")
    assert faulty.direct.get(f"{faulty.prefix}/a") == b"1"


@pytest.mark.parametrize("fault", ["lose-answer", "fail-after", "cut-head"])
def test_our_own_create_whose_answer_was_lost_is_recognised(faulty: Faulty, fault: Fault) -> None:
    key = f"{faulty.prefix}/a"
    faulty.proxy.add(fault)
    with pytest.raises(ObjectExistsError):  # the repeated put finds the first one's object
        faulty.store.put_new(key, b"raw")
    key = f"{faulty.prefix}/b"
    faulty.proxy.add(fault)
    assert create(faulty.store, key, b"ours") is None
    assert faulty.direct.get(key) == b"ours"


@pytest.mark.parametrize("fault", ["lose-answer", "fail-after"])
def test_a_rivals_object_is_not_taken_for_ours_after_a_lost_answer(
    faulty: Faulty, fault: Fault
) -> None:
    key = f"{faulty.prefix}/a"
    faulty.direct.put_new(key, b"rival")
    faulty.proxy.add(fault)
    assert create(faulty.store, key, b"ours") == b"rival"


def test_a_conflict_of_puts_in_flight_is_sent_again(faulty: Faulty) -> None:
    conflict = xml_answer(409, "ConditionalRequestConflict")
    faulty.proxy.add("answer", is_put, times=2, answer=conflict)
    assert create(faulty.store, f"{faulty.prefix}/a", b"ours") is None
    assert faulty.direct.get(f"{faulty.prefix}/a") == b"ours"


@pytest.mark.parametrize("fault", ["reset", "lose-answer", "fail-after"])
def test_a_create_without_any_answer_says_that_nobody_knows(faulty: Faulty, fault: Fault) -> None:
    # The repeated put would say 'exists': every one of them loses its answer.
    faulty.proxy.add(fault, is_put, times=99)
    with pytest.raises(OutcomeUnknownError, match="read the key back"):
        faulty.store.put_new(f"{faulty.prefix}/a", b"1")
    assert faulty.store.counters.put == len(faulty.proxy.seen) == QUICK.attempts


def test_a_refusal_after_a_lost_answer_does_not_hide_the_doubt(faulty: Faulty) -> None:
    faulty.proxy.add("lose-answer")
    faulty.proxy.add("answer", answer=xml_answer(403, "ExpiredToken"))
    with pytest.raises(OutcomeUnknownError, match="403 ExpiredToken"):
        faulty.store.put_new(f"{faulty.prefix}/a", b"1")
    assert create(faulty.store, f"{faulty.prefix}/a", b"1") is None


def test_silence_ends_with_the_time_out(
    faulty: Faulty, s3_server: S3Server, s3_root: StoreRoot, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backend, "READ_TIMEOUT", timedelta(milliseconds=200))
    impatient = open_store(
        s3_root.url, access(s3_server, endpoint=faulty.proxy.endpoint), retry=QUICK
    )
    faulty.direct.put_new(f"{faulty.prefix}/a", b"1")
    faulty.proxy.add("stall")
    assert impatient.get(f"{faulty.prefix}/a") == b"1"
    faulty.proxy.add("stall", times=99)
    with pytest.raises(StoreUnavailableError, match="no answer in time"):
        impatient.get(f"{faulty.prefix}/a")


@pytest.mark.parametrize("fault", ["reset", "lose-answer", "fail-after"])
@pytest.mark.parametrize("step", ["uploads=", "partNumber=2", "POST uploadId="])
def test_a_large_upload_survives_one_broken_request(
    faulty: Faulty, fault: Fault, step: str, tmp_path: Path
) -> None:
    body = os.urandom(17 * 2**20)
    (tmp_path / "f").write_bytes(body)
    key = f"{faulty.prefix}/big"
    faulty.proxy.add(fault, lambda r: all(text in f"{r.method} {r.path}" for text in step.split()))
    faulty.store.put_file(key, tmp_path / "f")
    assert faulty.direct.get(key) == body


def test_an_upload_whose_completion_was_done_unheard_is_ours(
    faulty: Faulty, tmp_path: Path
) -> None:
    (tmp_path / "f").write_bytes(os.urandom(17 * 2**20))

    def completes(request: Request) -> bool:
        return request.method == "POST" and "uploadId=" in request.path

    faulty.proxy.add("lose-answer", completes)
    faulty.proxy.add("answer", completes, answer=xml_answer(404, "NoSuchUpload"))
    faulty.store.put_file(f"{faulty.prefix}/big", tmp_path / "f")
    assert faulty.direct.head(f"{faulty.prefix}/big").size == 17 * 2**20


def test_an_upload_that_is_refused_says_so(faulty: Faulty, tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(os.urandom(17 * 2**20))
    faulty.proxy.add(
        "answer", lambda r: "partNumber" in r.path, times=99, answer=xml_answer(403, "AccessDenied")
    )
    with pytest.raises(StoreAccessError, match="403 AccessDenied"):
        faulty.store.put_file(f"{faulty.prefix}/big", tmp_path / "f")


def protecting(*names: str) -> object:
    """Answers a batch delete like a store that denies these keys; deletes nothing."""

    def answer(request: Request) -> bytes:
        keys = re.findall(r"<Key>([^<]*)</Key>", request.body.decode())
        rows = [
            f"<Error><Key>{key}</Key><Code>AccessDenied</Code><Message>no</Message></Error>"
            if key.rpartition("/")[2] in names
            else f"<Deleted><Key>{key}</Key></Deleted>"
            for key in keys
        ]
        return whole_answer(200, f"<DeleteResult>{''.join(rows)}</DeleteResult>".encode())

    return answer


def test_of_a_batch_with_protected_objects_every_key_has_its_own_answer(faulty: Faulty) -> None:
    keys = [f"{faulty.prefix}/d/{number:04d}" for number in range(1_000)]
    faulty.proxy.add(
        "answer",
        lambda r: r.path.endswith("?delete"),
        times=999,
        answer=protecting("0007", "0700"),  # type: ignore[arg-type]  # a callable, kept short
    )
    answers = list(faulty.store.delete_many(keys))
    assert [answer.key for answer in answers] == keys
    failed = {answer.key[-4:]: answer.error for answer in answers if answer.error is not None}
    assert sorted(failed) == ["0007", "0700"]
    assert all("AccessDenied" in str(error) for error in failed.values())
    assert faulty.store.counters.delete == len(faulty.proxy.seen) < 50


def is_batch(request: Request) -> bool:
    return request.method == "POST" and "delete" in request.path.partition("?")[2]


def busy_for(code: str, late: Callable[[str], bool]) -> Callable[[Request], bytes]:
    """Answers a batch delete like a store that had no time for some keys; deletes nothing."""

    def answer(request: Request) -> bytes:
        keys = re.findall(r"<Key>([^<]*)</Key>", request.body.decode())
        rows = [
            f"<Error><Key>{key}</Key><Code>{code}</Code><Message>later</Message></Error>"
            if late(key)
            else f"<Deleted><Key>{key}</Key></Deleted>"
            for key in keys
        ]
        return whole_answer(200, f"<DeleteResult>{''.join(rows)}</DeleteResult>".encode())

    return answer


@pytest.mark.parametrize("status", [429, 503])
def test_a_batch_that_the_store_has_no_time_for_is_left_to_the_caller(
    faulty: Faulty, status: int
) -> None:
    keys = [f"{faulty.prefix}/{number}" for number in range(100)]
    faulty.proxy.add("answer", is_batch, times=9, answer=xml_answer(status, "SlowDown"))
    answers = faulty.store.delete_batch(keys)
    assert [(answer.key, answer.slow) for answer in answers] == [(key, True) for key in keys]
    assert all("SlowDown" in str(answer.error) for answer in answers)
    assert (len(faulty.proxy.seen), faulty.store.counters.retries) == (1, 0)


@pytest.mark.parametrize("code", ["SlowDown", "InternalError"])
def test_a_batch_tells_which_keys_the_store_had_no_time_for(faulty: Faulty, code: str) -> None:
    keys = [f"{faulty.prefix}/{number:04d}" for number in range(1_000)]
    late = frozenset(keys[::3])
    faulty.proxy.add("answer", is_batch, times=2, answer=busy_for(code, late.__contains__))
    answers = faulty.store.delete_batch(keys)
    assert [answer.key for answer in answers] == keys
    assert {answer.key for answer in answers if answer.error is not None} == late
    assert {answer.key for answer in answers if answer.slow} == late
    assert len(faulty.proxy.seen) == faulty.store.counters.delete == 2, "once more, for all answers"


def test_a_batch_whose_answers_nobody_gives_is_halved(faulty: Faulty) -> None:
    keys = [f"{faulty.prefix}/d/{number:04d}" for number in range(100)]

    def by_boto(request: Request) -> bool:
        return is_batch(request) and b"boto" in request.raw.lower()

    faulty.proxy.add("answer", by_boto, times=99, answer=xml_answer(400, "MissingContentMD5"))
    answer = protecting("0007")
    faulty.proxy.add("answer", is_batch, times=999, answer=answer)  # type: ignore[arg-type]  # a callable, kept short
    answers = list(faulty.store.delete_many(keys))
    failed = [answer.key[-4:] for answer in answers if answer.error is not None]
    assert ([answer.key for answer in answers], failed) == (keys, ["0007"])
    assert 10 < faulty.store.counters.delete == len(faulty.proxy.seen) < 30


def test_a_run_loses_no_key_to_a_store_that_asks_to_slow_down(faulty: Faulty) -> None:
    """Whole requests and single keys are refused by turns; a real server deletes the rest."""
    keys = [f"{faulty.prefix}/t/_data/{number:05d}.parquet" for number in range(2_500)]
    faulty.lay(keys)
    faulty.proxy.add("answer", is_batch, answer=xml_answer(503, "SlowDown"))
    faulty.proxy.add("fail-after", is_batch, answer=xml_answer(503, "SlowDown"))
    late = frozenset(keys[1_500:1_600])

    def has_late(request: Request) -> bool:
        return is_batch(request) and keys[1_500].encode() in request.raw

    faulty.proxy.add("answer", has_late, times=2, answer=busy_for("SlowDown", late.__contains__))
    clock = SetClock()
    settings = TableSettings.model_validate({"name": "t", "root": f"s3://b/{faulty.prefix}/t"})
    table = Table(settings, faulty.store, TablePaths(f"{faulty.prefix}/t"), clock, SystemIds())
    seen: list[DeleteProgress] = []
    deleter = Deleter(table, len(keys), seen.append)
    assert deleter.delete(keys) == deleter.confirmed == frozenset(keys)
    assert (deleter.failed, deleter.gave_up) == (0, False)
    assert seen[-1].deleted == len(keys)
    assert any(state.slowed for state in seen)
    # What a made answer said to be deleted stands still; what it refused was sent again.
    left = {meta.key for meta in faulty.direct.list(f"{faulty.prefix}/t/_data/")}
    assert not left & late
    assert faulty.store.counters.retries == 0


@pytest.mark.parametrize("fault", ["lose-answer", "fail-after"])
def test_a_batch_delete_survives_a_broken_connection(faulty: Faulty, fault: Fault) -> None:
    keys = [f"{faulty.prefix}/d/{number:04d}" for number in range(1_050)]
    faulty.lay(keys)
    faulty.proxy.add(fault, lambda r: r.path.endswith("?delete"))
    assert [a.error for a in faulty.store.delete_many(keys)] == [None] * 1_050
    assert list(faulty.direct.list(f"{faulty.prefix}/d/")) == []
    assert faulty.store.counters.delete == 3


def test_a_batch_that_is_refused_as_a_whole_is_not_taken_apart(faulty: Faulty) -> None:
    faulty.proxy.add("answer", times=99, answer=xml_answer(403, "AccessDenied"))
    answers = list(faulty.store.delete_many([f"{faulty.prefix}/{n}" for n in range(100)]))
    assert all(isinstance(answer.error, StoreAccessError) for answer in answers)
    assert len(faulty.proxy.seen) == 1
