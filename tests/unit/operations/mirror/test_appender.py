"""An Appender that publishes: when, how often, and what a failure of it costs the service."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

import firnline
from firnline.appends.mirrored import MirrorOutcome
from firnline.errors import UsageError
from firnline.log.txn_file import RunIdentity
from firnline.operations.mirror import publisher
from firnline.operations.mirror.check import run_check
from firnline.table import Table
from tests.support.mirrored_folder import damage, mirrored, versions

RUN = RunIdentity(run_id="r")
HOUR = 3_600_000
WAIT = 60
"""Seconds: a test that hangs fails."""


class Publications:
    """Stands for publications: counts them, and holds each until it is let through."""

    def __init__(self) -> None:
        self.begun = threading.Semaphore(0)
        self.let = threading.Semaphore(0)
        self.count = 0

    def __call__(self, *_: object) -> MirrorOutcome:
        self.count += 1
        self.begun.release()
        assert self.let.acquire(timeout=WAIT)
        return MirrorOutcome("t", published=True, said="published", error=None, requests={})


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> Publications:
    found = Publications()
    monkeypatch.setattr(publisher, "publish_after", found)
    return found


def write(appender: firnline.Appender, n: int) -> None:
    appender.append({"n": n})
    appender.flush()


def test_a_close_publishes_all_that_was_appended_once(tmp_path: Path) -> None:
    table = mirrored(tmp_path)
    with firnline.Appender(table, mirror=True, mirror_every_ms=HOUR) as appender:
        for n in range(3):
            write(appender, n)
        assert appender.mirrored is None
    assert versions(tmp_path) == 1
    assert run_check(table).same
    assert appender.mirrored is not None
    assert "3 files more" in appender.mirrored.said
    assert "mirror The Delta mirror of t has a new version" in repr(appender)
    appender.close()
    assert versions(tmp_path) == 1


def test_appends_wait_for_no_publication_and_those_that_land_meanwhile_share_the_next(
    tmp_path: Path, held: Publications
) -> None:
    with firnline.Appender(mirrored(tmp_path), mirror=True, mirror_every_ms=0) as appender:
        write(appender, 0)
        assert held.begun.acquire(timeout=WAIT)
        for n in range(1, 4):
            write(appender, n)  # the first publication is still under way
        assert held.count == 1
        held.let.release()
        assert held.begun.acquire(timeout=WAIT)
        held.let.release()
    assert held.count == 2


@pytest.mark.parametrize(("every", "published"), [("1m", 0), ("10s", 1)])
def test_the_settings_say_how_old_an_append_is_when_it_is_published(
    tmp_path: Path, held: Publications, every: str, published: int
) -> None:
    table = mirrored(tmp_path, mirror=[{"delta": {"every": every}}])
    made = publisher.Publisher(table, table.settings.mirror_every or 0, RUN)
    made._since = table.clock.elapsed_ms() - 15_000
    with made._changed:
        made._changed.notify_all()
    if published:
        assert held.begun.acquire(timeout=WAIT)
    left = made._left_ms()
    assert held.count == published
    assert (left is None) == bool(published)
    held.let.release(2)
    made.close()
    assert held.count == 1


def test_what_could_not_be_published_is_published_at_the_close(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    table = mirrored(tmp_path)
    firnline.append_rows(table, [{"n": 0}], mirror=True)
    was = damage(tmp_path)
    with firnline.Appender(table, mirror=True, mirror_every_ms=0) as appender:
        ack = appender.append({"n": 1})
        appender.flush()
        assert ack.result(WAIT).rows == 1
        for _ in range(600):
            if appender.mirrored is not None:
                break
            threading.Event().wait(0.01)
        assert appender.mirrored is not None
        assert appender.mirrored.error is not None
        (tmp_path / "t/_delta_log" / f"{0:020d}.json").write_text(was)
    assert appender.mirrored.error is None
    assert run_check(table).same
    assert [r.getMessage()[:35] for r in caplog.records] == ["the mirror of t was not published: "]


def test_the_requests_of_a_flush_are_those_without_a_mirror(tmp_path: Path) -> None:
    with firnline.Appender(mirrored(tmp_path), mirror=True, mirror_every_ms=0) as appender:
        write(appender, 0)
        appender.append({"n": 1})
        (result,) = appender.flush()
    kinds = ("get", "put", "list", "head", "delete")
    assert [result.requests[kind] for kind in kinds] == [0, 2, 1, 0, 0]


@pytest.mark.long
def test_a_publication_that_nobody_can_make_is_refused_at_once(tmp_path: Path) -> None:
    plain, null = (
        mirrored(tmp_path, mirror=[]),
        mirrored(tmp_path, mirror=[{"delta": {"every": None}}]),
    )
    refused: list[tuple[Table, dict[str, Any], str]] = [
        (plain, {"mirror": True}, "name no mirror"),
        (null, {"mirror": True}, "do not say how often"),
        (null, {"mirror": True, "mirror_every_ms": -1}, "mirror_every_ms is -1"),
        (null, {"mirror_every_ms": 5}, "without mirror=True"),
    ]
    for table, given, piece in refused:
        with pytest.raises(UsageError, match=piece):
            firnline.Appender(table, **given)
    firnline.Appender(null, mirror=True, mirror_every_ms=5).close()
