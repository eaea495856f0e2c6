"""What every platform that runs a Spark job can do: start it, find it, look at it, cancel it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol

from firnline.launch.package import Package

State = Literal["running", "succeeded", "failed", "cancelled"]
"""running: not over, so waiting for room, too."""


@dataclass(frozen=True, slots=True)
class Application:
    """A job, as any platform is asked to run it."""

    name: str
    """Of this try of the run."""
    token: str
    """Of this start: a platform that is asked for it twice, as an answer was lost, starts one job.
    Not the name: a run that was deleted and made again under its old id has the names of before."""
    request: str
    """URL of what the job is to do, its only argument."""
    package: Package
    conf: Mapping[str, str]
    """Spark configuration, complete but for what the platform needs to find the package."""
    minutes: int
    """After which the platform ends it."""

    @property
    def arguments(self) -> list[str]:
        """Return the arguments of the entry point."""
        return [REQUEST_ARGUMENT, self.request]


REQUEST_ARGUMENT = "--firnline-request"
"""Glue gives a script arguments of its own; it passes on none without a name."""


class Found(NamedTuple):
    """A job that is not over."""

    job: str
    """Id that the platform gave it."""
    name: str
    """``{task}-{try}``."""

    @property
    def task(self) -> str:
        """Return the name of the task that it is of."""
        return self.name.rpartition("-")[0]

    @property
    def number(self) -> int:
        """Return the number of the try that started it; 0 for a name of another form."""
        last = self.name.rpartition("-")[2]
        return int(last) if last.isdecimal() else 0


@dataclass(frozen=True, slots=True)
class Progress:
    """A job as its platform sees it."""

    state: State
    detail: str = ""
    """What the platform says of it: the name of its state, and its reason."""


class Launcher(Protocol):
    """A platform. Its methods raise PlatformError (a retry may help) or EnvironmentFaultError."""

    @property
    def platform(self) -> str:
        """Return its name in sentences."""
        ...

    @property
    def cancel_ends_driver(self) -> bool:
        """Return False if a cancel ends only what waits for the driver: the job has to look."""
        ...

    def find(self, beginning: str) -> list[Found]:
        """Return the jobs that are not over and whose names begin so. Requests: a page of each."""
        ...

    def start(self, application: Application) -> str:
        """Start a job; return its id. Where the platform can, the same token starts one only."""
        ...

    def look(self, job: str) -> Progress:
        """Return how far a job is. Requests: 1."""
        ...

    def cancel(self, job: str) -> None:
        """Ask the platform to end a job; no error if it is over. Requests: 1."""
        ...

    def logs(self, job: str) -> str:
        """Return where a person reads the output of a job's driver. Requests: none."""
        ...
