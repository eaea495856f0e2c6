"""A trigger that waits for a job elsewhere: the task holds its pool meanwhile, and no worker.

It dies and begins again with its triggerer, without harm to the job. Whoever clears, fails or marks
the task ends the job (``on_kill``, since Airflow 3.3).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from airflow.triggers.base import BaseTrigger, TriggerEvent

from firnline.clock import Clock, SystemClock
from firnline.errors import FirnlineError

if TYPE_CHECKING:
    from firnline.launch.launcher import Found, Progress
    from firnline.launch.remote import Looks, Remote

ResultT = TypeVar("ResultT")
LATE, LOST = "late", "lost"
"""States besides those of a job: its time is over; nobody can look at it any more."""


class JobTrigger(BaseTrigger):
    """Waits until a job ends, or its time is over.

    Args:
        table: settings of the table, as JSON; they hold no credentials.
        launcher: of the platform.
        job: id of the job.
        name: of the job.
        until_ms: unix ms after which it is late.
        clock: replaced in tests.
    """

    def __init__(
        self,
        table: str,
        launcher: str,
        job: str,
        name: str,
        until_ms: int,
        clock: Clock | None = None,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call] # Airflow's
        self.table, self.launcher, self.job, self.name = table, launcher, job, name
        self.until_ms = until_ms
        self._clock = clock or SystemClock()

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return what Airflow stores."""
        kept = {
            "table": self.table,
            "launcher": self.launcher,
            "job": self.job,
            "name": self.name,
            "until_ms": self.until_ms,
        }
        return f"{type(self).__module__}.{type(self).__qualname__}", kept

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Yield one event: ``state``, and ``detail`` as the platform says it."""
        from firnline.launch.remote import POLL_S, Looks

        try:
            remote, _ = await _in_thread(self._open)
            looks = Looks(remote.launcher, self.job)
            while (progress := await self._over(looks)) is None:
                if self._clock.now_ms() > self.until_ms:
                    yield _event(LATE, "")
                    return
                await asyncio.sleep(POLL_S)
        except FirnlineError as error:
            yield _event(LOST, str(error))
            return
        yield _event(progress.state, progress.detail)

    async def _over(self, looks: Looks) -> Progress | None:
        progress = await _in_thread(looks.look)
        return None if progress is None or progress.state == "running" else progress

    async def on_kill(self) -> None:
        """End the job: somebody has ended the task."""
        remote, found = await _in_thread(self._open)
        await _in_thread(partial(remote.cancel, found))

    def _open(self) -> tuple[Remote, Found]:
        from firnline.airflow.elsewhere import open_remote
        from firnline.launch.launcher import Found
        from firnline.settings.model import TableSettings

        settings = TableSettings.model_validate_json(self.table)
        found = Found(self.job, self.name)
        return open_remote(settings, self.launcher, found.task), found


def _event(state: str, detail: str) -> TriggerEvent:
    return TriggerEvent({"state": state, "detail": detail})  # type: ignore[no-untyped-call] # Airflow's


async def _in_thread(work: Callable[[], ResultT]) -> ResultT:
    """Do what asks Airflow for connections and waits for answers.

    Not in a thread of asyncio: only from one of asgiref Airflow reaches its own loop.
    """
    from asgiref.sync import sync_to_async

    found: ResultT = await sync_to_async(work)()
    return found
