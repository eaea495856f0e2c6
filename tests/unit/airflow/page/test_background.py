from __future__ import annotations

import threading

from firnline.airflow.page.background import Background
from tests.support.programs import HUNG_SECONDS


def test_a_thing_is_under_way_once_and_others_beside_it() -> None:
    work, gate, done = Background("test", 2), threading.Event(), threading.Event()
    assert work.start("slow", lambda: assert_soon(gate))
    assert not work.start("slow", done.set)
    assert work.busy
    assert work.start("quick", done.set)
    assert_soon(done)
    gate.set()
    work.wait()
    assert not work.busy
    assert work.start("slow", lambda: None)
    work.wait()


def test_no_more_threads_work_than_are_allowed() -> None:
    work, gate, begun = Background("test", 2), threading.Event(), threading.Semaphore(0)

    def act() -> None:
        begun.release()
        assert_soon(gate)

    for number in range(5):
        work.start(str(number), act)
    assert begun.acquire(timeout=HUNG_SECONDS)
    assert begun.acquire(timeout=HUNG_SECONDS)
    assert not begun.acquire(blocking=False)
    gate.set()
    work.wait()


def test_what_fails_is_logged_and_the_thread_goes_on(caplog: object) -> None:
    work, done = Background("test", 1), threading.Event()

    def fail() -> None:
        raise ValueError("no")

    work.start("bad", fail)
    work.start("good", done.set)
    work.wait()
    assert done.is_set()
    assert "bad could not be read" in getattr(caplog, "text", "")


def assert_soon(event: threading.Event) -> None:
    assert event.wait(HUNG_SECONDS)
