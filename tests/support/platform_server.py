"""A stand-in for EMR Serverless, EMR, EMR on EKS and Glue that runs jobs by the real spark-submit.

It speaks as much of each API as a launcher asks for. A job gets a working directory into which the
archive is unpacked, the variables that the configuration sets for its driver, and nothing else of
the package: what it imports is what was published.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tarfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from tests.support.jobs import SUBMIT

_DRIVER = re.compile(
    r"spark\.(?:emr-serverless\.driverEnv|yarn\.appMasterEnv|kubernetes\.driverEnv)\."
)


@dataclass
class Job:
    """A job that was started."""

    id: str
    name: str
    process: subprocess.Popen[bytes]
    token: str = ""
    cancelled: bool = False
    arguments: Mapping[str, str] = field(default_factory=dict)
    """Of Glue."""

    @property
    def state(self) -> str:
        """running, failed, succeeded or cancelled."""
        code = self.process.poll()
        if code is None:
            return "running"
        if self.cancelled:
            return "cancelled"
        return "succeeded" if code == 0 else "failed"


class Jobs:
    """All jobs of a stand-in."""

    def __init__(self, folder: Path, env: Mapping[str, str]) -> None:
        self.folder, self.env = folder, dict(env)
        self.started: list[Job] = []
        self.looked_at: set[str] = set()

    def start(self, name: str, entry: str, words: list[str], conf: dict[str, str], *,
              token: str = "", wheel: str = "", **more: Any) -> Job:  # fmt: skip
        """Start a job; the same token starts one only."""
        for job in self.started:
            if token and job.token == token:
                return job
        place = self.folder / f"job-{len(self.started)}"
        place.mkdir()
        env = {**os.environ, **self.env, "PYSPARK_PYTHON": sys.executable}
        env.pop("PYTHONPATH", None)
        for archive in filter(None, conf.pop("spark.archives", "").split(",")):
            file, _, alias = archive.partition("#")
            with tarfile.open(_path(file)) as packed:
                packed.extractall(place / alias, filter="data")
        for key in [key for key in conf if _DRIVER.match(key)]:
            value = conf.pop(key)
            env[_DRIVER.sub("", key)] = value
        if wheel:
            env["PYTHONPATH"] = _path(wheel)
        if hooks := self.env.get("PYTHONPATH"):
            env["PYTHONPATH"] += f"{os.pathsep}{hooks}"
            executors = conf.get("spark.executorEnv.PYTHONPATH", _path(wheel))
            conf["spark.executorEnv.PYTHONPATH"] = f"{executors}{os.pathsep}{hooks}"
        settings = [f"--conf={key}={value}" for key, value in conf.items()]
        with (place / "log").open("wb") as log:
            process = subprocess.Popen(
                [SUBMIT, "--master=local[2]", *settings, _path(entry), *words],
                cwd=place, env=env, stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip
        self.started.append(Job(f"j-{len(self.started):08d}", name, process, token, **more))
        return self.started[-1]

    def job(self, job: str) -> Job:
        """Return the job of an id."""
        return next(each for each in self.started if each.id == job)

    def cancel(self, job: str, *, ends_driver: bool = True) -> None:
        """End a job, as a platform does that reaches its driver; another one only forgets it."""
        found = self.job(job)
        found.cancelled = True
        if ends_driver and found.process.poll() is None:
            os.killpg(found.process.pid, signal.SIGKILL)
            found.process.wait()

    def log(self, job: Job) -> str:
        """Return what a job has said."""
        return (self.folder / f"job-{self.started.index(job)}" / "log").read_text(errors="replace")

    @property
    def left(self) -> list[Job]:
        """Jobs whose driver still runs."""
        return [job for job in self.started if job.process.poll() is None]


def _path(url: str) -> str:
    return unquote(urlsplit(url).path)


_SERVERLESS = {
    "running": "RUNNING",
    "succeeded": "SUCCESS",
    "failed": "FAILED",
    "cancelled": "CANCELLED",
}
_OTHERS = {**_SERVERLESS, "succeeded": "COMPLETED"}
_GLUE = {**_SERVERLESS, "succeeded": "SUCCEEDED", "cancelled": "STOPPED"}


class _Answer(BaseHTTPRequestHandler):
    jobs: Jobs

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - http.server's name
        pass

    def _say(self, answer: Any) -> None:
        data = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _body(self) -> dict[str, Any]:
        length = int(self.headers.get("Content-Length") or 0)
        found: dict[str, Any] = json.loads(self.rfile.read(length) or b"{}")
        return found

    def _parts(self) -> list[str]:
        return urlsplit(self.path).path.strip("/").split("/")

    def do_POST(self) -> None:
        body, target = self._body(), self.headers.get("X-Amz-Target")
        if target:
            self._say(getattr(self, f"_{target.rpartition('.')[2]}")(body))
            return
        of, where = self._parts()[:2]
        driver = next(iter(body["jobDriver"].values()))
        overrides = body["configurationOverrides"]["applicationConfiguration"]
        job = self.jobs.start(
            body["name"], driver["entryPoint"], driver["entryPointArguments"],
            dict(overrides[0]["properties"]), token=body["clientToken"],
        )  # fmt: skip
        if of == "applications":
            self._say({"applicationId": where, "jobRunId": job.id, "arn": "arn:a"})
        else:
            self._say({"virtualClusterId": where, "id": job.id, "name": job.name, "arn": "arn:a"})

    def do_GET(self) -> None:
        of, *rest = self._parts()
        states = _SERVERLESS if of == "applications" else _OTHERS
        rows = [
            {"id": job.id, "jobRunId": job.id, "name": job.name, "state": states[job.state]}
            for job in self.jobs.started
        ]
        if len(rest) == 3:
            self.jobs.looked_at.add(rest[2])
            self._say({"jobRun": next(row for row in rows if row["id"] == rest[2])})
        else:
            self._say({"jobRuns": [row for row in rows if row["state"] == "RUNNING"]})

    def do_DELETE(self) -> None:
        job = self._parts()[3]
        self.jobs.cancel(job)
        self._say({"id": job, "jobRunId": job})

    # --- EMR on EC2 -------------------------------------------------------------------------------

    def _AddJobFlowSteps(self, body: Any) -> Any:  # noqa: N802 - the API's names
        (step,) = body["Steps"]
        words = step["HadoopJarStep"]["Args"]
        conf: dict[str, str] = {}
        while "--conf" in words:
            at = words.index("--conf")
            key, _, value = words[at + 1].partition("=")
            conf[key] = value
            words = words[:at] + words[at + 2 :]
        job = self.jobs.start(step["Name"], words[-3], words[-2:], conf)
        return {"StepIds": [job.id]}

    def _ListSteps(self, body: Any) -> Any:  # noqa: N802
        running = [job for job in self.jobs.started if job.state == "running"]
        return {"Steps": [{"Id": job.id, "Name": job.name} for job in running]}

    def _DescribeStep(self, body: Any) -> Any:  # noqa: N802
        job = self.jobs.job(body["StepId"])
        state = "CANCELLED" if job.cancelled else _OTHERS[job.state]
        return {"Step": {"Id": job.id, "Name": job.name, "Status": {"State": state}}}

    def _CancelSteps(self, body: Any) -> Any:  # noqa: N802
        for job in body["StepIds"]:
            self.jobs.cancel(job, ends_driver=False)
        return {"CancelStepsInfoList": []}

    # --- Glue -------------------------------------------------------------------------------------

    def _StartJobRun(self, body: Any) -> Any:  # noqa: N802
        given = body["Arguments"]
        conf = dict(each.partition("=")[::2] for each in given["--conf"].split(" --conf "))
        own = ["--JOB_NAME", body["JobName"]]
        theirs = [word for name, value in given.items() for word in (name, value)]
        job = self.jobs.start(
            given["--firnline-name"], given["--scriptLocation"], [*own, *theirs], conf,
            wheel=given["--additional-python-modules"], arguments=given,
        )  # fmt: skip
        return {"JobRunId": job.id}

    def _GetJobRuns(self, body: Any) -> Any:  # noqa: N802
        return {"JobRuns": [self._glue(job) for job in self.jobs.started]}

    def _GetJobRun(self, body: Any) -> Any:  # noqa: N802
        return {"JobRun": self._glue(self.jobs.job(body["RunId"]))}

    def _glue(self, job: Job) -> Any:
        return {"Id": job.id, "JobRunState": _GLUE[job.state], "Arguments": job.arguments}

    def _BatchStopJobRun(self, body: Any) -> Any:  # noqa: N802
        for job in body["JobRunIds"]:
            self.jobs.cancel(job)
        return {}


@contextmanager
def platform_server(
    folder: Path, env: Mapping[str, str], jobs: Jobs | None = None
) -> Iterator[tuple[str, Jobs]]:
    """Yield the address and the jobs of a stand-in; its jobs end with it.

    Args:
        folder: of the working directories.
        env: variables of all drivers, as a role would give them.
        jobs: what starts them; None: by spark-submit.
    """
    jobs = jobs or Jobs(folder, env)
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Answer", (_Answer,), {"jobs": jobs}))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", jobs
    finally:
        server.shutdown()
        for job in jobs.left:
            jobs.cancel(job.id)
