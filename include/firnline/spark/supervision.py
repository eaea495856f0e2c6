"""A driver whose Airflow task is gone ends: nobody would hear of it, and its cluster is wanted.

When the supervisor of a task is killed, or the task itself, the application that it submitted works
on. Airflow starts another one minutes later. The driver therefore watches both processes, and once
one of them is gone, stops as on Ctrl-C: what is not committed is dropped, the jobs of the
application are cancelled. A commit that is under way is completed before.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from firnline.clock import Clock, SystemClock
from firnline.errors import SupervisorGoneError
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
    if supervisors is None:
        return
    _take_interrupts(interrupts)
    watch = Watch(supervisors, interrupts)
    threading.Thread(target=watch.run, name="firnline-supervision", daemon=True).start()


def _interrupt() -> None:
    # Sent to the thread, so that what it waits for in the system is interrupted, too.
    main = threading.main_thread().ident
    assert main is not None
    signal.pthread_kill(main, signal.SIGINT)


@dataclass(frozen=True, slots=True)
class Watch:
    """Ends this process when a supervisor is gone."""

    supervisors: Supervisors
    interrupts: Interrupts
    clock: Clock = field(default_factory=SystemClock)
    is_alive: Callable[[ProcessId], bool] = ProcessId.is_alive
    interrupt: Callable[[], None] = _interrupt
    die: Callable[[int], None] = os._exit

    def run(self) -> None:
        """Wait until a supervisor is gone, ask the run to stop, and end a process that does not."""
        while (gone := self._gone()) is None:
            self.clock.sleep(LOOK_S)
        self.interrupts.ask(_supervisor_gone(gone))
        since_ms = self.clock.elapsed_ms()
        while True:
            if self.interrupts.committing:
                since_ms = self.clock.elapsed_ms()
            elif self.clock.elapsed_ms() - since_ms >= END_MS:
                self.die(SupervisorGoneError.exit_code)
                return
            elif not self.interrupts.settled:
                self.interrupt()
            self.clock.sleep(STRIKE_S)

    def _gone(self) -> ProcessId | None:
        return next((p for p in self.supervisors.processes if not self.is_alive(p)), None)


def _supervisor_gone(process: ProcessId) -> SupervisorGoneError:
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
