"""Start, find, wait for and cancel the job of a task on a platform of its own."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, cast

from firnline.airflow import versions
from firnline.airflow.access import store_access
from firnline.airflow.deferring import wants_to_defer
from firnline.airflow.platforms import open_platform
from firnline.airflow.runs import run_identity
from firnline.clock import SystemClock
from firnline.errors import EnvironmentFaultError, JobFailedError, raised_elsewhere
from firnline.ids import SystemIds
from firnline.settings.launchers import Launcher
from firnline.settings.load import TableSettings
from firnline.settings.spark_conf import conf_of

if TYPE_CHECKING:
    from airflow.sdk import Context

    from firnline.launch.desk import Outcome
    from firnline.launch.launcher import Found, Progress
    from firnline.launch.remote import Remote

_LOG = logging.getLogger(__name__)
HARMLESS = "two of them do no harm: only one can commit a change of the same parts"


def open_remote(table: TableSettings, launcher: str, task: str) -> Remote:
    """Return the jobs of a task; sends no request.

    Args:
        table: the table.
        launcher: of the platform.
        task: its name (``launch.remote.task_name``).

    Raises:
        EnvironmentFaultError, StoreAccessError: a connection is missing or not valid.
    """
    from firnline.launch.desk import Desk
    from firnline.launch.remote import Remote

    platform = open_platform(table.spark, cast("Launcher", launcher))
    desk = Desk.open(table.spark.package or "", store_access(table))
    return Remote(platform, desk, task, SystemClock(), SystemIds())


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """The job of one task of a run.

    Args:
        table: the table.
        launcher: of the platform.
        remote: its jobs.
    """

    table: TableSettings
    launcher: Launcher
    remote: Remote

    @classmethod
    def of(
        cls, table: TableSettings, launcher: Launcher, operation: str, context: Context, told: str
    ) -> Elsewhere:
        """Return the job of the task that runs.

        Args:
            table: the table.
            launcher: of the platform.
            operation: its name on the command line.
            context: of the task.
            told: its options, as JSON.
        """
        from firnline.launch.remote import task_name

        ti = context["ti"]
        of_run = {
            "dag": context["dag"].dag_id,
            "run": str(context["run_id"]),
            "task": ti.task_id,
            "map": getattr(ti, "map_index", -1),
            "root": table.root,
            "package": table.spark.package or "",
        }
        task = task_name(operation, of_run, told.encode())
        return cls(table, launcher, open_remote(table, launcher, task))

    def begin(
        self, context: Context, operation: str, told: str, approved_by: str, within: timedelta
    ) -> Found:
        """Start the job, or find that of an earlier try, and say so.

        Args:
            context: of the task.
            operation: its name on the command line.
            told: its options, as JSON.
            approved_by: who approved it; may be empty.
            within: after which the platform ends it.
        """
        import msgspec

        from firnline.launch.desk import Request, open_access

        request = Request(
            operation=operation,
            settings=msgspec.Raw(self.table.model_dump_json().encode()),
            options=msgspec.Raw(told.encode()),
            run=msgspec.structs.replace(run_identity(context), approved_by=approved_by),
            access=open_access(store_access(self.table)),
            looks_for_cancel=not self.remote.launcher.cancel_ends_driver,
        )
        conf, minutes = conf_of(self.table, elsewhere=True), int(within.total_seconds() // 60) + 1
        number = context["ti"].try_number
        found = self.remote.begin(number, request, conf, minutes)
        platform = self.remote.launcher.platform
        if not found.job:
            _LOG.info("an earlier try has started the job %s, which has ended since", found.name)
        elif found.number == number:
            logs = self.remote.launcher.logs(found.job)
            _LOG.info("the job %s of %s is %s; its driver's output: %s",
                      found.job, platform, found.name, logs)  # fmt: skip
        else:
            _LOG.info("the job %s of %s, which an earlier try has started, is still on the way: "
                      "this try goes on with it", found.job, platform)  # fmt: skip
        return found

    def wait(self, found: Found) -> Progress:
        """Wait for the end of the job, and log each state of it."""

        def tell(progress: Progress) -> None:
            _LOG.info("the job %s: %s", found.job, progress.detail)

        return self.remote.wait(found, tell)

    def defers(self) -> bool:
        """Return True if a trigger is to wait."""
        wanted = wants_to_defer(self.table.spark)
        if wanted and not versions.AIRFLOW_3_3_PLUS:
            _LOG.info("%s", NOT_DEFERRED)
            return False
        return wanted

    def cancel(self, found: Found) -> None:
        """End the job, as its task ends. What goes wrong is logged."""
        platform = self.remote.launcher.platform
        try:
            self.remote.cancel(found)
        except Exception:  # noqa: BLE001 - the task ends anyway, and its own reason is to be seen
            _LOG.exception(
                "the job %s of %s could not be cancelled and may work on; %s", found.job, platform,
                HARMLESS,
            )  # fmt: skip
        else:
            _LOG.info("the job %s of %s is cancelled; what it had committed stays",
                      found.job, platform)  # fmt: skip


NOT_DEFERRED = versions.needs(
    "3.3", "waiting in a trigger (`spark.deferrable`)", "the task itself waits for its job"
)
"""A trigger of an older Airflow does not hear that its task was ended: the job would work on."""


def refuse_confidential(table: TableSettings, launcher: Launcher, noun: str, instead: str) -> None:
    """Raise EnvironmentFaultError: what the job is to do must not be kept in the package's bucket.

    Args:
        table: the table.
        launcher: of the platform.
        noun: of the work.
        instead: what to do.
    """
    raise EnvironmentFaultError(
        f"jobs of table {table.name} run by {launcher}, and what {noun} is to do would be kept in "
        "an object beside the published package",
        next_step=instead,
    )


def raise_failure(outcome: Outcome) -> None:
    """Raise the error that a job has told; nothing if it has succeeded."""
    if outcome.error is None:
        return
    error = raised_elsewhere(None, outcome.error.message, outcome.error.next_step)
    error.retryable = outcome.error.retryable
    raise error


def late(found: Found, platform: str) -> JobFailedError:
    """Return the error of a job whose time is over."""
    return JobFailedError(
        f"the job {found.job} of {platform} took longer than the task may and was cancelled; what "
        "it had committed stays",
        next_step="the next try goes on from there; commit_ttl of the table bounds its time",
    )
