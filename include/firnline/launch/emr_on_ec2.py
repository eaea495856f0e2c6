"""Amazon EMR on EC2: steps of a running cluster, drivers in the cluster."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from firnline.launch.aws import asked, progress
from firnline.launch.launcher import Application, Found, Progress, State
from firnline.settings.launchers import EmrSettings

_ENDED: Mapping[str, State] = {
    "COMPLETED": "succeeded",
    "FAILED": "failed",
    "INTERRUPTED": "failed",
    "CANCELLED": "cancelled",
}
_ON_THE_WAY = ["PENDING", "RUNNING", "CANCEL_PENDING"]
_SECTION = "emr"


@dataclass(frozen=True, slots=True)
class Emr:
    """Steps of a cluster.

    Cancelling a step ends spark-submit and leaves its driver in the cluster: the job itself looks
    whether it is to stop.

    Args:
        client: of boto3 for ``emr``.
        settings: which cluster.
    """

    client: Any
    settings: EmrSettings
    platform: str = "EMR"
    cancel_ends_driver: bool = False

    def find(self, beginning: str) -> list[Found]:
        """Return the steps on the way whose names begin so."""
        with asked(self.platform, _SECTION):
            pages = self.client.get_paginator("list_steps").paginate(
                ClusterId=self.settings.cluster, StepStates=_ON_THE_WAY
            )
            steps = [step for page in pages for step in page["Steps"]]
        return [
            Found(step["Id"], step["Name"]) for step in steps if step["Name"].startswith(beginning)
        ]

    def start(self, application: Application) -> str:
        """Add a step."""
        package = application.package
        conf = package.complete(application.conf, "spark.yarn.appMasterEnv.")
        settings = [word for item in conf.items() for word in ("--conf", "=".join(item))]
        role = {"ExecutionRoleArn": self.settings.role} if self.settings.role else {}
        with asked(self.platform, _SECTION):
            added = self.client.add_job_flow_steps(
                JobFlowId=self.settings.cluster,
                Steps=[
                    {
                        "Name": application.name,
                        "ActionOnFailure": "CONTINUE",
                        "HadoopJarStep": {
                            "Jar": "command-runner.jar",
                            "Args": [
                                "spark-submit", "--deploy-mode", "cluster",
                                "--name", application.name,
                                *settings, package.entry, *application.arguments,
                            ],
                        },
                    }
                ],
                **role,
            )  # fmt: skip
        return str(added["StepIds"][0])

    def look(self, job: str) -> Progress:
        """Return how far a step is."""
        with asked(self.platform, _SECTION):
            answer = self.client.describe_step(ClusterId=self.settings.cluster, StepId=job)
        status = answer["Step"]["Status"]
        reason = status.get("FailureDetails", {}).get("Message")
        return progress(_ENDED, status["State"], reason)

    def cancel(self, job: str) -> None:
        """Cancel a step; no error if it is over."""
        with asked(self.platform, _SECTION):
            self.client.cancel_steps(
                ClusterId=self.settings.cluster,
                StepIds=[job],
                StepCancellationOption="TERMINATE_PROCESS",
            )

    def logs(self, job: str) -> str:
        """Return where the driver's output is."""
        cluster = self.settings.cluster
        return (
            f"`aws emr describe-step --cluster-id {cluster} --step-id {job}` and the YARN logs of "
            "its application"
        )
