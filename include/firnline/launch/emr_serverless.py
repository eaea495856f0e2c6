"""Amazon EMR Serverless."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from firnline.launch.aws import asked, progress
from firnline.launch.launcher import Application, Found, Progress, State
from firnline.settings.launchers import EmrServerlessSettings

_ENDED: Mapping[str, State] = {
    "SUCCESS": "succeeded",
    "FAILED": "failed",
    "CANCELLED": "cancelled",
}
_ON_THE_WAY = ["SUBMITTED", "PENDING", "SCHEDULED", "QUEUED", "RUNNING"]
_SECTION = "emr_serverless"


@dataclass(frozen=True, slots=True)
class EmrServerless:
    """Jobs of an application.

    Args:
        client: of boto3 for ``emr-serverless``.
        settings: which application.
    """

    client: Any
    settings: EmrServerlessSettings
    platform: str = "EMR Serverless"
    cancel_ends_driver: bool = True

    def find(self, beginning: str) -> list[Found]:
        """Return the jobs on the way whose names begin so."""
        with asked(self.platform, _SECTION):
            pages = self.client.get_paginator("list_job_runs").paginate(
                applicationId=self.settings.application, states=_ON_THE_WAY
            )
            runs = [run for page in pages for run in page["jobRuns"]]
        return [
            Found(run["id"], run["name"])
            for run in runs
            if run.get("name", "").startswith(beginning)
        ]

    def start(self, application: Application) -> str:
        """Start a job; the same token starts one only."""
        package = application.package
        conf = package.complete(application.conf, "spark.emr-serverless.driverEnv.")
        logs = self.settings.logs
        monitoring = {"s3MonitoringConfiguration": {"logUri": logs}} if logs else {}
        with asked(self.platform, _SECTION):
            started = self.client.start_job_run(
                applicationId=self.settings.application,
                clientToken=application.token,
                executionRoleArn=self.settings.role,
                name=application.name,
                executionTimeoutMinutes=application.minutes,
                jobDriver={
                    "sparkSubmit": {
                        "entryPoint": package.entry,
                        "entryPointArguments": application.arguments,
                    }
                },
                configurationOverrides={
                    "applicationConfiguration": [
                        {"classification": "spark-defaults", "properties": conf}
                    ],
                    **({"monitoringConfiguration": monitoring} if monitoring else {}),
                },
            )
        return str(started["jobRunId"])

    def look(self, job: str) -> Progress:
        """Return how far a job is."""
        with asked(self.platform, _SECTION):
            answer = self.client.get_job_run(applicationId=self.settings.application, jobRunId=job)
        run = answer["jobRun"]
        return progress(_ENDED, run["state"], run.get("stateDetails"))

    def cancel(self, job: str) -> None:
        """Cancel a job; no error if it is over."""
        if self.look(job).state != "running":
            return
        with asked(self.platform, _SECTION):
            self.client.cancel_job_run(applicationId=self.settings.application, jobRunId=job)

    def logs(self, job: str) -> str:
        """Return where the driver's output is."""
        application = self.settings.application
        if self.settings.logs:
            root = self.settings.logs.rstrip("/")
            return f"{root}/applications/{application}/jobs/{job}/SPARK_DRIVER/stderr.gz"
        return (
            "`aws emr-serverless get-dashboard-for-job-run "
            f"--application-id {application} --job-run-id {job}`"
        )
