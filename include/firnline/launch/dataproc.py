"""Google Cloud Dataproc: jobs of a cluster, drivers in the cluster."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from firnline.errors import EnvironmentFaultError, PlatformError, first_line
from firnline.launch.launcher import Application, Found, Progress, State
from firnline.settings.launchers import DataprocSettings

_ENDED: Mapping[str, State] = {
    "DONE": "succeeded",
    "ERROR": "failed",
    "ATTEMPT_FAILURE": "failed",
    "CANCELLED": "cancelled",
}
_LABEL = "firnline"
_PASSING = frozenset((429, 500, 502, 503, 504))
_CONFLICT = 409


@contextmanager
def asked() -> Iterator[None]:
    """Convert what Google's client raises, also while it is made.

    Raises:
        PlatformError: no answer, or a refusal that passes.
        EnvironmentFaultError: any other refusal; no credentials.
    """
    try:
        yield
    except Exception as error:
        passes = _passes(error)
        if passes is None:
            raise
        text = first_line(error)
        if passes:
            raise PlatformError(
                f"Dataproc has no answer now: {text}", next_step="run it again"
            ) from None
        raise EnvironmentFaultError(
            f"Dataproc refuses the request: {text}",
            next_step="correct spark.dataproc of the settings, or the rights of its account",
        ) from None


def _passes(error: Exception) -> bool | None:
    """Return True if another try may help against an error; None for one that is not Google's.

    Its libraries are not imported, as they may be missing here: refusals have an HTTP status, and
    the errors of logging in and of giving up, which have none, say whether they pass.
    """
    code = getattr(error, "code", None)
    status = getattr(code, "value", code)
    if isinstance(status, int):
        return status in _PASSING
    kinds = {f"{each.__module__}.{each.__name__}" for each in type(error).__mro__}
    if "google.api_core.exceptions.RetryError" in kinds:
        return True
    if any(kind.startswith("google.auth.") for kind in kinds):
        return bool(getattr(error, "retryable", False))
    return None


@dataclass(frozen=True, slots=True)
class Dataproc:
    """Jobs of a cluster.

    Args:
        client: Google's client of the region for jobs (JobControllerClient).
        settings: which cluster.
    """

    client: Any
    settings: DataprocSettings
    platform: str = "Dataproc"
    cancel_ends_driver: bool = True

    def _place(self, **more: Any) -> dict[str, Any]:
        return {"project_id": self.settings.project, "region": self.settings.region, **more}

    def find(self, beginning: str) -> list[Found]:
        """Return the jobs on the way whose ids, which begin with their names, begin so."""
        where = f"status.state = ACTIVE AND labels.{_LABEL} = job"
        with asked():
            jobs = list(self.client.list_jobs(request=self._place(filter=where)))
        ids = [job.reference.job_id for job in jobs]
        return [Found(each, each.rpartition("_")[0]) for each in ids if each.startswith(beginning)]

    def start(self, application: Application) -> str:
        """Submit a job; the same token submits one only."""
        package, job_id = application.package, f"{application.name}_{application.token}"
        conf = package.complete(application.conf, "spark.yarn.appMasterEnv.")
        job = {
            "reference": {"project_id": self.settings.project, "job_id": job_id},
            "placement": {"cluster_name": self.settings.cluster},
            "labels": {_LABEL: "job"},
            "pyspark_job": {
                "main_python_file_uri": package.entry,
                "args": application.arguments,
                "properties": {**conf, "spark.submit.deployMode": "cluster"},
            },
        }
        try:
            self.client.submit_job(request=self._place(job=job))
        except Exception as error:
            code = getattr(error, "code", None)
            if getattr(code, "value", code) != _CONFLICT:  # it is there: the answer was lost
                with asked():
                    raise
        return job_id

    def look(self, job: str) -> Progress:
        """Return how far a job is."""
        with asked():
            status = self.client.get_job(request=self._place(job_id=job)).status
        name = getattr(status.state, "name", str(status.state))
        detail = ": ".join(filter(None, (name, status.details)))
        return Progress(_ENDED.get(name, "running"), detail)

    def cancel(self, job: str) -> None:
        """Cancel a job; no error if it is over."""
        if self.look(job).state != "running":
            return
        with asked():
            self.client.cancel_job(request=self._place(job_id=job))

    def logs(self, job: str) -> str:
        """Return where the driver's output is."""
        place = f"--project={self.settings.project} --region={self.settings.region}"
        return f"`gcloud dataproc jobs wait {job} {place}`"
