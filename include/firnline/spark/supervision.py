"""A driver whose Airflow task is gone ends: nobody would hear of it, and its cluster is wanted.

When the supervisor of a task is killed, or the task itself, the application that it submitted works
on. Airflow starts another one minutes later. The driver therefore watches both processes, and once
one of them is gone, stops as on Ctrl-C: what is not committed is dropped, the jobs of the
application are cancelled. A commit that is under way is completed before.

A driver elsewhere whose platform cannot end it looks for the request to stop in the same way.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial

from firnline.clock import Clock, SystemClock
from firnline.errors import StoppedError, SupervisorGoneError
from firnline.interrupts import Interrupts
from firnline.processes import ProcessId, Supervisors

LOOK_S = 2.0
"""Seconds between two looks at the supervisors."""
STRIKE_S = 0.5
"""Seconds between two looks at a run that is to stop."""
END_MS = 20_000
"""Time that a run has to stop, milliseconds, from the end of a commit that is under way; then the
process is ended by force."""


def watch_supervisors(environ: Mapping[str, str], interrupts: Interrupts) -> None:
    """Watch the supervisors that an environment names, until this process ends.

    Called in the main thread, which is the one that is interrupted. No effect without supervisors.
    """
    supervisors = Supervisors.told(environ)
    if supervisors is not None:
        watch(Watch(partial(gone, supervisors), interrupts))


def watch(watch: Watch) -> None:
    """Watch until this process ends. Called in the main thread, which is interrupted."""
    _take_interrupts(watch.interrupts)
    threading.Thread(target=watch.run, name="firnline-supervision", daemon=True).start()


def _interrupt() -> None:
    # Sent to the thread, so that what it waits for in the system is interrupted, too.
    main = threading.main_thread().ident
    assert main is not None
    signal.pthread_kill(main, signal.SIGINT)


@dataclass(frozen=True, slots=True)
class Watch:
    """Ends this process once there is a reason to."""

    reason: Callable[[], StoppedError | None]
    """Returns why the run is to stop; None as long as it is not."""
    interrupts: Interrupts
    clock: Clock = field(default_factory=SystemClock)
    interrupt: Callable[[], None] = _interrupt
    die: Callable[[int], None] = os._exit
    look_s: float = LOOK_S

    def run(self) -> None:
        """Wait for a reason, ask the run to stop, and end a process that does not."""
        while (reason := self.reason()) is None:
            self.clock.sleep(self.look_s)
        self.interrupts.ask(reason)
        since_ms = self.clock.elapsed_ms()
        while True:
            if self.interrupts.committing:
                since_ms = self.clock.elapsed_ms()
            elif self.clock.elapsed_ms() - since_ms >= END_MS:
                self.die(reason.exit_code)
                return
            elif not self.interrupts.settled:
                self.interrupt()
            self.clock.sleep(STRIKE_S)


def gone(
    supervisors: Supervisors, is_alive: Callable[[ProcessId], bool] = ProcessId.is_alive
) -> SupervisorGoneError | None:
    """Return that a supervisor is gone; None while all of them are there."""
    process = next((each for each in supervisors.processes if not is_alive(each)), None)
    if process is None:
        return None
    return SupervisorGoneError(
        f"the Airflow task that started this application is gone (pid {process.pid}); what it had "
        "committed stays, everything else is unchanged",
        next_step="the next try or run goes on from there",
    )


def _take_interrupts(interrupts: Interrupts) -> None:
    """Have SIGINT strike the run once it is asked to stop; before, Ctrl-C is what it was."""
    before = signal.getsignal(signal.SIGINT)

    def strike(number: int, frame: object) -> None:
        if interrupts.asked is not None:
            interrupts.strike()
        elif callable(before):
            before(number, frame)  # type: ignore[arg-type] # a frame, or None

    signal.signal(signal.SIGINT, strike)
