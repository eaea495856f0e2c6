from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field

import pytest

from firnline.errors import SupervisorGoneError
from firnline.interrupts import Interrupts
from firnline.processes import SUPERVISORS_VARIABLE, ProcessId, Supervisors
from firnline.spark.supervision import END_MS, LOOK_S, STRIKE_S, Watch, gone, watch_supervisors
from tests.support.striking import is_interrupted
from tests.support.world import SetClock

TASK, SUPERVISOR = ProcessId(10, 1), ProcessId(11, 1)
GONE_MS = 60_000
COMMITTED_MS = 600_000
PROMISED_MS = 30_000


class Ended(BaseException):
    """In place of the end of the process."""


@dataclass
class Driver:
    """A driver whose supervisor dies after a minute, and what the watch does to it."""

    clock: SetClock = field(default_factory=lambda: SetClock(elapsed=0))
    interrupts: Interrupts = field(default_factory=Interrupts)
    on_interrupt: Callable[[], object] = lambda: None
    dies: ProcessId = SUPERVISOR
    interrupted: list[int] = field(default_factory=list)
    """When, milliseconds."""
    code: int | None = None

    def watched(self) -> int:
        """Watch it until it is ended by force; when that is, milliseconds."""
        both = Supervisors("here", (TASK, SUPERVISOR))
        watch = Watch(
            lambda: gone(both, lambda each: each != self.dies or self.clock.elapsed < GONE_MS),
            self.interrupts,
            self.clock,
            self._interrupt,
            self._die,
        )
        with pytest.raises(Ended):
            watch.run()
        return self.clock.elapsed

    def _interrupt(self) -> None:
        self.interrupted.append(self.clock.elapsed)
        self.on_interrupt()

    def _die(self, code: int) -> None:
        assert not self.interrupts.committing
        self.code = code
        raise Ended


@pytest.mark.parametrize("dies", [TASK, SUPERVISOR])
def test_a_driver_is_interrupted_soon_after_its_task_or_the_supervisor_is_gone(
    dies: ProcessId,
) -> None:
    driver = Driver(dies=dies)
    driver.on_interrupt = driver.interrupts.over
    driver.watched()
    (at,) = driver.interrupted
    assert GONE_MS <= at <= GONE_MS + LOOK_S * 1000
    asked = driver.interrupts.asked
    assert isinstance(asked, SupervisorGoneError)
    assert f"(pid {dies.pid})" in asked.message
    assert "what it had committed stays" in asked.message
    assert asked.retryable
    assert "goes on from there" in asked.next_step


def test_a_driver_that_does_not_stop_is_ended_within_the_time_that_is_promised() -> None:
    driver = Driver()
    driver.on_interrupt = driver.interrupts.over  # and then it hangs
    assert driver.watched() <= GONE_MS + PROMISED_MS
    assert driver.code == SupervisorGoneError.exit_code == 129


def test_an_interrupt_that_did_not_arrive_is_sent_again() -> None:
    driver = Driver()
    driver.watched()
    assert len(driver.interrupted) == END_MS / 1000 / STRIKE_S


@dataclass
class Committing(SetClock):
    """Time in which a commit begins before the supervisor dies, and ends long afterwards."""

    elapsed: int = 0
    sleeps: int = 0
    """Milliseconds for which the machine is suspended with each wait during the commit."""
    commit: ExitStack = field(default_factory=ExitStack)

    def sleep(self, seconds: float) -> None:
        super().sleep(seconds)
        if self.elapsed >= COMMITTED_MS:
            self.commit.close()
        elif self.elapsed > GONE_MS:
            self.advance(self.sleeps)


@pytest.mark.parametrize("sleeps", [0, END_MS + 1])
def test_a_commit_is_waited_for_and_then_the_run_has_its_time_to_stop(sleeps: int) -> None:
    clock = Committing(sleeps=sleeps)
    driver = Driver(clock=clock)
    clock.commit.enter_context(driver.interrupts.commit())
    driver.on_interrupt = driver.interrupts.over
    ended = driver.watched()
    (at,) = driver.interrupted
    assert at >= COMMITTED_MS
    assert ended - at >= END_MS - STRIKE_S * 1000
    assert ended - at <= PROMISED_MS


@pytest.fixture
def ctrl_c() -> Iterator[None]:
    """Ctrl-C interrupts, also where whoever started the tests has it ignored; and is restored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.usefixtures("ctrl_c")
def test_ctrl_c_is_what_it_was_until_the_run_is_asked_to_stop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("firnline.spark.supervision.Watch.run", lambda _: None)
    told, interrupts = Supervisors.of([os.getpid()]), Interrupts()
    assert told is not None
    watch_supervisors({SUPERVISORS_VARIABLE: told.to_json()}, interrupts)
    assert is_interrupted(press)
    assert not interrupts.settled
    with interrupts.commit():
        interrupts.ask(SupervisorGoneError("gone", next_step="wait"))
        assert not is_interrupted(press)
    assert is_interrupted(press)
    assert not is_interrupted(press)


def press() -> None:
    """Press Ctrl-C."""
    signal.raise_signal(signal.SIGINT)


def test_without_supervisors_nothing_is_watched() -> None:
    before = signal.getsignal(signal.SIGINT)
    watch_supervisors({}, Interrupts())
    assert signal.getsignal(signal.SIGINT) is before
