"""Amazon EMR on EKS."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from firnline.launch.aws import asked, progress
from firnline.launch.launcher import Application, Found, Progress, State
from firnline.settings.launchers import EmrOnEksSettings

_ENDED: Mapping[str, State] = {
    "COMPLETED": "succeeded",
    "FAILED": "failed",
    "CANCELLED": "cancelled",
}
_ON_THE_WAY = ["PENDING", "SUBMITTED", "RUNNING", "CANCEL_PENDING"]
_SECTION = "emr_on_eks"


@dataclass(frozen=True, slots=True)
class EmrOnEks:
    """Jobs of a virtual cluster.

    Args:
        client: of boto3 for ``emr-containers``.
        settings: which virtual cluster.
    """

    client: Any
    settings: EmrOnEksSettings
    platform: str = "EMR on EKS"
    cancel_ends_driver: bool = True

    def find(self, beginning: str) -> list[Found]:
        """Return the jobs on the way whose names begin so."""
        with asked(self.platform, _SECTION):
            pages = self.client.get_paginator("list_job_runs").paginate(
                virtualClusterId=self.settings.cluster, states=_ON_THE_WAY
            )
            runs = [run for page in pages for run in page["jobRuns"]]
        return [Found(run["id"], run["name"]) for run in runs if run["name"].startswith(beginning)]

    def start(self, application: Application) -> str:
        """Start a job; the same token starts one only."""
        package = application.package
        conf = package.complete(application.conf, "spark.kubernetes.driverEnv.")
        overrides: dict[str, Any] = {
            "applicationConfiguration": [{"classification": "spark-defaults", "properties": conf}]
        }
        if self.settings.logs:
            s3 = {"s3MonitoringConfiguration": {"logUri": self.settings.logs}}
            overrides["monitoringConfiguration"] = s3
        with asked(self.platform, _SECTION):
            started = self.client.start_job_run(
                virtualClusterId=self.settings.cluster,
                clientToken=application.token,
                name=application.name,
                executionRoleArn=self.settings.role,
                releaseLabel=self.settings.release,
                jobDriver={
                    "sparkSubmitJobDriver": {
                        "entryPoint": package.entry,
                        "entryPointArguments": application.arguments,
                    }
                },
                configurationOverrides=overrides,
            )
        return str(started["id"])

    def look(self, job: str) -> Progress:
        """Return how far a job is."""
        with asked(self.platform, _SECTION):
            answer = self.client.describe_job_run(virtualClusterId=self.settings.cluster, id=job)
        run = answer["jobRun"]
        reason = run.get("stateDetails") or run.get("failureReason")
        return progress(_ENDED, run["state"], reason)

    def cancel(self, job: str) -> None:
        """Cancel a job; no error if it is over."""
        if self.look(job).state != "running":
            return
        with asked(self.platform, _SECTION):
            self.client.cancel_job_run(virtualClusterId=self.settings.cluster, id=job)

    def logs(self, job: str) -> str:
        """Return where the driver's output is."""
        cluster = self.settings.cluster
        if self.settings.logs:
            return f"{self.settings.logs.rstrip('/')}/{cluster}/jobs/{job}/"
        return f"`aws emr-containers describe-job-run --virtual-cluster-id {cluster} --id {job}`"
