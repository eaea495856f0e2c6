"""A platform that does what a test says, and a published package in memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from firnline.errors import PlatformError
from firnline.launch.desk import Desk, Outcome, Request
from firnline.launch.launcher import Application, Found, Progress
from firnline.launch.package import MANIFEST, Manifest, Package, PackagePaths
from firnline.log.txn_file import RunIdentity
from firnline.store.client import open_store

DIGEST = "0123456789ab"
TOKEN = "01a224d3-e9b7-7e19-8e3a-28e40b3e1d1d"
MANIFEST_OF_ONE = Manifest(
    version="1.2", digest=DIGEST, python="3.11", platform="linux-x86_64", packages={"duckdb": "2"}
)
RUNNING, DONE = Progress("running", "RUNNING"), Progress("succeeded", "SUCCESS")
LOST = PlatformError("it does not answer", next_step="run it again")


def package(url: str = f"s3://b/firnline/1.2-{DIGEST}", *, python: bool = False) -> Package:
    return Package(url, msgspec.structs.replace(MANIFEST_OF_ONE, carries_python=python))


def application(name: str = "firnline-merge-0f-1", **conf: str) -> Application:
    one = package()
    return Application(
        name, TOKEN, f"{one.url}/jobs/firnline-merge-0f/1.request.json", one, conf, 75
    )


def published(folder: Path, digest: str = DIGEST) -> Desk:
    """The desk of a package of which nothing is there but its manifest."""
    url = f"file://{folder}/firnline/1.2-{digest}"
    store = open_store(url)
    store.put_new(PackagePaths.of(url).file(MANIFEST), msgspec.json.encode(MANIFEST_OF_ONE))
    return Desk.open(url, None)


def request(**more: object) -> Request:
    given = {"settings": msgspec.Raw(b"{}"), "options": msgspec.Raw(b"{}"), **more}
    return Request(operation="merge", run=RunIdentity(run_id="r"), **given)  # type: ignore[arg-type]


@dataclass
class Platform:
    """Counts what it is asked; each look takes the next of ``looks``."""

    looks: list[Progress | Exception] = field(default_factory=lambda: [DONE])
    on_the_way: list[Found] = field(default_factory=list)
    started: list[Application] = field(default_factory=list)
    cancelled: list[str] = field(default_factory=list)
    platform: str = "Somewhere"
    cancel_ends_driver: bool = True
    desk: Desk | None = None
    """Where a job that ends well tells its outcome, as the driver would."""
    outcome: Outcome = field(default_factory=lambda: Outcome(report={"seconds": 1.0}))

    def find(self, beginning: str) -> list[Found]:
        return [each for each in self.on_the_way if each.name.startswith(beginning)]

    def start(self, application: Application) -> str:
        self.started.append(application)
        return f"j{len(self.started)}"

    def look(self, job: str) -> Progress:
        seen = self.looks.pop(0) if len(self.looks) > 1 else self.looks[0]
        if isinstance(seen, Exception):
            raise seen
        if seen.state != "running" and self.desk is not None:
            for name in self._names():
                self.desk.tell(name, self.outcome)
        return seen

    def _names(self) -> Iterator[str]:
        yield from (each.name for each in self.started)
        yield from (each.name for each in self.on_the_way)

    def cancel(self, job: str) -> None:
        self.cancelled.append(job)

    def logs(self, job: str) -> str:
        return f"the log of {job}"
