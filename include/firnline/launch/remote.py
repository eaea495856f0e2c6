"""A job elsewhere, from the run that asks for it to the outcome that the run hears.

Whatever dies between two steps, the next try of the run begins here again: it goes on with a job
that is still on the way, hears the outcome of one that has ended, and only else starts another. A
second one by mistake does no harm: both plan from the same log, and only one can commit a change of
the same parts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from firnline.clock import Clock
from firnline.errors import JobFailedError, PlatformError
from firnline.ids import Ids
from firnline.launch.desk import Desk, Outcome, Request
from firnline.launch.launcher import Application, Found, Launcher, Progress

POLL_S = 15.0
"""Seconds between two looks at a job."""
FIRST_POLL_S = 2.0
"""Seconds until the first look; each wait is half as long again as the one before."""
PATIENCE = 20
"""Looks in a row that may fail before the run gives up; the job works on, and the next try finds
it."""


def task_name(operation: str, run: Mapping[str, Any], options: bytes) -> str:
    """Return the name of a task of a run; those of its jobs have the number of the try besides.

    Args:
        operation: its name on the command line.
        run: what tells the task of the run from all others, of other tables and packages, too: two
            Airflows may have runs of the same ids and share a platform.
        options: of the run: a run that is told something else does not go on with an old job.
    """
    digest = sha256(repr(sorted(run.items())).encode() + b"\0" + options).hexdigest()
    return f"firnline-{operation}-{digest[:16]}"


@dataclass(frozen=True, slots=True)
class Remote:
    """The jobs of one task of a run.

    Args:
        launcher: starts them.
        desk: where they are told what to do, and tell how they ended.
        task: its name (``task_name``).
        clock: for the waits.
        ids: makes the tokens of starts.
    """

    launcher: Launcher
    desk: Desk
    task: str
    clock: Clock
    ids: Ids

    def begin(self, number: int, request: Request, conf: Mapping[str, str], minutes: int) -> Found:
        """Return the job that does the work: one that is on the way, one that has ended, or a new.

        Requests: 1 LIST of the store, and a page of the platform's jobs; for a new job 1 GET and 1
        PUT of the store and the start besides. For each try that has left objects 1 GET, and 1
        DELETE of a batch.

        A job that is asked to stop, and has not told that it did, may not have looked yet: its
        request to stop stays until it has.

        Args:
            number: of the try; names the job that it starts.
            request: what it is to do.
            conf: Spark configuration.
            minutes: after which the platform ends it.
        """
        found = self.launcher.find(f"{self.task}-")
        on_the_way = sorted(found, key=lambda each: each.number)
        if on_the_way:
            return on_the_way[-1]
        for name in self.desk.names(self.task):
            outcome, ended = self.desk.outcome(name), Found("", name)
            # That of this try or a later one is of a run that had this run's id before.
            if outcome is not None and outcome.error is None and ended.number < number:
                return ended  # it ended between two tries, and nobody has heard it
            self.desk.clear(name, over=outcome is not None)
        name = f"{self.task}-{number}"
        package = self.desk.package()
        self.desk.ask(name, request)
        url = self.desk.request_url(name)
        token = self.ids.uuid7(self.clock.now_ms())
        job = self.launcher.start(Application(name, token, url, package, conf, minutes))
        return Found(job, name)

    def wait(self, found: Found, tell: Callable[[Progress], None]) -> Progress:
        """Return how a job ended. Requests: one to the platform at every look.

        Args:
            found: the job.
            tell: is told of each state that differs from the one before.

        Raises:
            PlatformError, EnvironmentFaultError: it cannot be looked at any more; it works on.
        """
        watch = Looks(self.launcher, found.job)
        seconds, last = FIRST_POLL_S, ""
        while True:
            progress = watch.look()
            if progress is not None and progress.detail != last:
                tell(progress)
                last = progress.detail
            if progress is not None and progress.state != "running":
                return progress
            self.clock.sleep(seconds)
            seconds = min(POLL_S, seconds * 1.5)

    def cancel(self, found: Found) -> None:
        """Have a job end. Requests: 1 or 2 to the platform, 1 PUT where the job looks itself."""
        if not self.launcher.cancel_ends_driver:
            self.desk.stop(found.name)
        self.launcher.cancel(found.job)

    def conclude(self, found: Found, progress: Progress | None) -> Outcome:
        """Return what a job has told, and forget it. Requests: 1 GET, 1 DELETE of a batch.

        Args:
            found: the job.
            progress: how its platform says that it ended; None for one whose outcome was there.

        Raises:
            JobFailedError: it has told nothing.
        """
        outcome = self.desk.outcome(found.name)
        if outcome is not None:
            self.desk.clear(found.name)
            return outcome
        detail = "" if progress is None else f" as {progress.detail}"
        raise JobFailedError(
            f"the job {found.job} of {self.launcher.platform} ended{detail} and told nothing, so "
            "it did not begin, lost its driver, or may not write below "
            f"{self.desk.url}/jobs/; what it had committed stays",
            next_step=f"read {self.launcher.logs(found.job)}",
        )


class Looks:
    """Looks at a job that may fail a few times: a platform is away for minutes now and then."""

    def __init__(self, launcher: Launcher, job: str) -> None:
        self._launcher, self._job, self._failed = launcher, job, 0

    def look(self) -> Progress | None:
        """Return how far the job is; None if nobody could say.

        Raises PlatformError after too many of these, EnvironmentFaultError at once.
        """
        try:
            progress = self._launcher.look(self._job)
        except PlatformError:
            self._failed += 1
            if self._failed >= PATIENCE:
                raise
            return None
        self._failed = 0
        return progress
