"""Work that can be split uses the cores that nobody else needs, within its memory."""

from __future__ import annotations

import gc
import json
import queue
import subprocess
import sys
import threading
import time
import weakref
from collections import Counter
from contextlib import suppress

import pytest

from firnline.cores import Aside, Cores, _Jobs, side_by_side
from tests.support.programs import HUNG_SECONDS


class Watched:
    """Jobs that wait for each other until as many run as are expected."""

    def __init__(self, together: int) -> None:
        self.barrier = threading.Barrier(together)
        self.threads: Counter[str] = Counter()
        self.most = 0
        self._now = 0
        self._lock = threading.Lock()

    def __call__(self, job: int) -> int:
        with self._lock:
            self.threads[threading.current_thread().name] += 1
            self._now += 1
            self.most = max(self.most, self._now)
        if self.barrier.parties > 1:
            self.barrier.wait(30)
        with self._lock:
            self._now -= 1
        return job * 10


def jobs(*sizes: int) -> list[tuple[int, int]]:
    return list(enumerate(sizes))


def test_without_idle_cores_jobs_are_done_one_after_the_other_in_this_thread() -> None:
    work = Watched(1)
    assert side_by_side(jobs(1, 1, 1), work, Cores(), 10) == [0, 10, 20]
    assert set(work.threads) == {threading.current_thread().name}
    assert work.most == 1


def test_an_idle_core_does_jobs_at_the_same_time_and_is_given_back() -> None:
    work, cores = Watched(2), Cores(1)
    assert side_by_side(jobs(1, 1, 1, 1), work, cores, 10) == [0, 10, 20, 30]
    assert work.most == 2
    assert cores.idle == 1


def test_no_more_cores_are_borrowed_than_there_are_jobs() -> None:
    work, cores = Watched(3), Cores(8)
    side_by_side(jobs(1, 1, 1), work, cores, 10)
    assert work.most == 3
    assert cores.idle == 8


def test_jobs_under_way_fit_into_memory() -> None:
    work = Watched(1)
    assert side_by_side(jobs(6, 6, 6), work, Cores(4), 10) == [0, 10, 20]
    assert work.most == 1


def test_a_small_job_is_done_beside_a_large_one_that_leaves_no_room_for_the_next() -> None:
    began: list[int] = []
    both = threading.Barrier(2)

    def work(job: int) -> int:
        began.append(job)
        if job != 1:  # the second large one comes when the first one is over
            both.wait(30)
        return job

    assert side_by_side(jobs(6, 6, 4), work, Cores(1), 10) == [0, 1, 2]
    assert set(began[:2]) == {0, 2}


def test_a_job_larger_than_memory_runs_alone() -> None:
    work = Watched(1)
    assert side_by_side(jobs(99, 1), work, Cores(1), 10) == [0, 10]
    assert work.most == 1


def test_nothing_is_lent_while_more_cores_are_used_than_there_are() -> None:
    work, cores = Watched(1), Cores(3)
    cores.take(4)
    side_by_side(jobs(1, 1, 1), work, cores, 10)
    assert work.most == 1
    assert cores.idle == -1


def test_a_helper_gives_back_a_core_that_other_work_has_taken() -> None:
    cores = Cores(1)
    helped: list[int] = []
    both = threading.Barrier(2)

    def work(job: int) -> None:
        if job < 2:
            both.wait(30)  # a helper has one of the first two
        if threading.current_thread().name == "firnline-core":
            helped.append(job)
            cores.take()

    side_by_side(jobs(*[1] * 20), work, cores, 100)
    assert len(helped) == 1
    assert cores.idle == 0


@pytest.mark.parametrize("idle", [0, 3])
def test_an_error_of_a_job_is_raised_and_nothing_begins_after_it(idle: int) -> None:
    begun: list[int] = []

    def work(job: int) -> None:
        begun.append(job)
        raise ValueError(str(job))

    cores = Cores(idle)
    with pytest.raises(ValueError, match=r"^\d$"):
        side_by_side(jobs(*[1] * 10), work, cores, 100)
    assert len(begun) <= 1 + idle
    assert cores.idle == idle
    assert not [thread for thread in threading.enumerate() if thread.name == "firnline-core"]


def test_a_core_that_is_taken_is_not_lent_until_it_is_given_back() -> None:
    cores = Cores(1)
    go = threading.Event()
    cores.take(0.25)
    assert cores.lend(go.wait) is None
    cores.give_back(0.25)
    lent = cores.lend(go.wait)
    assert lent is not None
    assert cores.lend(go.wait) is None
    go.set()
    lent.join()
    assert cores.idle == 1


def test_no_jobs_have_no_results() -> None:
    assert side_by_side([], Watched(1), Cores(2), 10) == []


def test_a_core_that_is_given_back_takes_a_job_while_the_others_are_under_way() -> None:
    cores, begun = Cores(1), threading.Barrier(2)
    cores.take()

    def work(job: int) -> int:
        if job == 0:
            cores.give_back()
        begun.wait(30)  # the other job begins before this one ends
        return job

    assert side_by_side(jobs(1, 1), work, cores, 10) == [0, 1]
    assert cores.idle == 1


def test_work_aside_is_done_on_an_idle_core_which_is_given_back() -> None:
    cores, here = Cores(1), threading.current_thread().name
    with Aside(lambda: threading.current_thread().name, cores) as aside:
        assert aside.result() != here
    assert cores.idle == 1


def test_without_an_idle_core_work_aside_is_done_once_by_whoever_wants_it() -> None:
    done: list[str] = []

    def work() -> int:
        done.append(threading.current_thread().name)
        return len(done)

    with Aside(work, Cores()) as aside:
        assert not done
        assert [aside.result(), aside.result()] == [1, 1]
    assert done == [threading.current_thread().name]


def test_work_aside_that_nobody_wants_has_ended_with_its_block_and_is_not_begun_for_it() -> None:
    ended: list[int] = []
    with Aside(lambda: ended.append(1), Cores()):
        pass
    assert not ended
    with Aside(lambda: ended.append(1), Cores(1)):
        pass
    assert ended == [1]


@pytest.mark.parametrize("idle", [0, 1])
def test_an_error_of_work_aside_is_raised_for_each_that_wants_its_result(idle: int) -> None:
    cores = Cores(idle)

    def fails() -> int:
        raise KeyError

    with Aside(fails, cores) as aside:
        for _ in range(2):
            with pytest.raises(KeyError):
                aside.result()
    assert cores.idle == idle


def test_jobs_that_wait_for_work_aside_begin_meanwhile() -> None:
    cores, begun = Cores(1), threading.Event()

    def work() -> int:
        assert begun.wait(30)
        return 7

    with Aside(work, cores) as aside:

        def job(number: int) -> int:
            begun.set()
            return number * aside.result()

        assert side_by_side(jobs(1, 1, 1), job, cores, 10) == [0, 7, 14]
    assert cores.idle == 1


def no_more_threads(_: threading.Thread) -> None:
    raise RuntimeError("can't start new thread")


def test_where_no_thread_can_start_work_goes_on_without_help(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(threading.Thread, "start", no_more_threads)
    cores, work = Cores(2), Watched(1)
    with Aside(lambda: 7, cores) as aside:
        assert side_by_side(jobs(1, 1, 1), work, cores, 10) == [0, 10, 20]
        assert aside.result() == 7
    assert cores.idle == 2


def test_a_core_is_given_back_though_work_that_waits_for_it_gets_no_thread(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cores = Cores()

    def work(_: int) -> None:
        with monkeypatch.context() as patch:
            patch.setattr(threading.Thread, "start", no_more_threads)
            cores.give_back()

    side_by_side(jobs(1, 1), work, cores, 10)  # the second one waits while the first gives back
    assert cores.idle == 2


class Large:
    """Stands for the memory that a job held when it failed."""


@pytest.mark.parametrize("idle", [0, 1])
def test_an_error_that_was_handled_keeps_nothing_of_its_job(idle: int) -> None:
    held: list[weakref.ref[Large]] = []

    def work(_: int) -> None:
        large = Large()
        held.append(weakref.ref(large))
        raise KeyError

    cores = Cores(idle)
    gc.disable()  # nothing waits for the garbage collector
    try:
        with suppress(KeyError), Aside(lambda: work(0), cores) as aside:
            aside.result()
        with suppress(KeyError):
            side_by_side(jobs(1, 1), work, cores, 10)
        assert len(held) >= 2
        assert [each() for each in held] == [None] * len(held)
    finally:
        gc.enable()


class Interrupted(queue.SimpleQueue[None]):
    """Where a thread waits for jobs to end: an interrupt comes instead, the first time."""

    def __init__(self) -> None:
        self.came = threading.Event()

    def get(self, block: bool = True, timeout: float | None = None) -> None:
        if not self.came.is_set():
            self.came.set()
            raise KeyboardInterrupt
        return super().get(block, timeout)


def test_an_interrupt_of_the_thread_that_waits_for_memory_begins_no_further_job() -> None:
    begun: list[int] = []
    helped, ends = threading.Event(), Interrupted()

    def work(job: int) -> None:
        begun.append(job)
        if job == 0:
            assert helped.wait(30)
            ends.put(None)
        if job == 1:
            helped.set()
            assert ends.came.wait(30)

    run = _Jobs(jobs(5, 5, 10, 10, 10), work, Cores(1), 10)
    run._ends = ends
    with pytest.raises(KeyboardInterrupt):
        run.run()
    assert sorted(begun) == [0, 1]


def test_a_job_of_a_helper_has_ended_although_an_interrupt_comes_while_it_is_awaited() -> None:
    done: list[int] = []
    helped, ends = threading.Event(), Interrupted()

    def work(job: int) -> None:
        if job == 0:
            assert helped.wait(30)
        else:
            helped.set()
            assert ends.came.wait(30)
            time.sleep(0.05)
        done.append(job)

    cores = Cores(1)
    run = _Jobs(jobs(1, 1), work, cores, 10)
    run._ends = ends
    with pytest.raises(KeyboardInterrupt):
        run.run()
    assert (done, cores.idle) == ([0, 1], 1)


_STOPPED = """
import os, random, signal, sys, threading, time
from firnline.cores import Aside, Cores, side_by_side

doing = set()

def work(n):
    doing.add(n)
    sum(range(300))
    doing.discard(n)

def interrupt():
    time.sleep(random.uniform(0.02, 0.06))
    os.kill(os.getpid(), signal.SIGINT)

for turn in range(int(sys.argv[1])):
    threading.Thread(target=interrupt).start()
    try:
        while True:
            with Aside(lambda: work(9), Cores(3)):
                side_by_side([(n, 1) for n in range(4)], work, Cores(3), 4)
    except KeyboardInterrupt:
        print(sorted(doing))
        doing.clear()
"""


@pytest.mark.long
def test_an_interrupt_ends_jobs_whenever_it_comes() -> None:
    """It may come between any two instructions: none leaves a lock taken, or a job under way."""
    turns = 60
    command = [sys.executable, "-c", _STOPPED, str(turns)]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=HUNG_SECONDS, check=False)
    assert ran.stderr == ""
    # That of this thread is cut short itself, and no other one.
    lines = ran.stdout.splitlines()
    assert len(lines) == turns
    assert max(map(len, map(json.loads, lines))) <= 1
