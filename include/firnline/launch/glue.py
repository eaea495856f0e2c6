"""AWS Glue: runs of one job, which bring their own script, packages and configuration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from firnline.launch.aws import asked, progress
from firnline.launch.launcher import Application, Found, Progress, State
from firnline.settings.launchers import GlueSettings

_ENDED: Mapping[str, State] = {
    "SUCCEEDED": "succeeded",
    "FAILED": "failed",
    "ERROR": "failed",
    "TIMEOUT": "failed",
    "EXPIRED": "failed",
    "STOPPED": "cancelled",
}
_NAME = "--firnline-name"
_SECTION = "glue"


@dataclass(frozen=True, slots=True)
class Glue:
    """Runs of a job.

    Args:
        client: of boto3 for ``glue``.
        settings: which job, and its workers.
    """

    client: Any
    settings: GlueSettings
    platform: str = "Glue"
    cancel_ends_driver: bool = True

    def find(self, beginning: str) -> list[Found]:
        """Return the runs on the way whose names begin so, of the 200 newest of the job."""
        with asked(self.platform, _SECTION):
            answer = self.client.get_job_runs(JobName=self.settings.job, MaxResults=200)
        named = [(run, run.get("Arguments", {}).get(_NAME, "")) for run in answer["JobRuns"]]
        return [
            Found(run["Id"], name)
            for run, name in named
            if name.startswith(beginning) and run["JobRunState"] not in _ENDED
        ]

    def start(self, application: Application) -> str:
        """Start a run."""
        package = application.package
        # Glue takes one --conf, whose value goes on with further ones.
        conf = " --conf ".join(f"{name}={value}" for name, value in application.conf.items())
        flag, request = application.arguments
        with asked(self.platform, _SECTION):
            started = self.client.start_job_run(
                JobName=self.settings.job,
                Timeout=application.minutes,
                WorkerType=self.settings.worker,
                NumberOfWorkers=self.settings.workers,
                Arguments={
                    "--scriptLocation": package.entry,
                    "--additional-python-modules": package.wheel,
                    _NAME: application.name,
                    flag: request,
                    "--conf": conf,
                },
            )
        return str(started["JobRunId"])

    def look(self, job: str) -> Progress:
        """Return how far a run is."""
        with asked(self.platform, _SECTION):
            answer = self.client.get_job_run(JobName=self.settings.job, RunId=job)
        run = answer["JobRun"]
        return progress(_ENDED, run["JobRunState"], run.get("ErrorMessage"))

    def cancel(self, job: str) -> None:
        """Stop a run; no error if it is over."""
        if self.look(job).state != "running":
            return
        with asked(self.platform, _SECTION):
            self.client.batch_stop_job_run(JobName=self.settings.job, JobRunIds=[job])

    def logs(self, job: str) -> str:
        """Return where the driver's output is."""
        return f"the log group /aws-glue/jobs/error of CloudWatch, stream {job}"
