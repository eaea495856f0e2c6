"""What is published for jobs elsewhere: the code that they run, by version and digest.

    {root}/{version}-{digest}/run.py                           entry point of every job
    {root}/{version}-{digest}/environment.tar.gz               firnline and what it imports
    {root}/{version}-{digest}/firnline-{version}-….whl         the same code for platforms with pip
    {root}/{version}-{digest}/manifest.json                    written last
    {root}/{version}-{digest}/jobs/{task}/{try}.request.json, .outcome.json, .cancel

No object of it is changed: a run uses exactly what its settings name. The objects of a job are
deleted once its run has heard how it ended.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from firnline.paths import Root
from firnline.settings.spark_conf import OPT_OUT

FOLDER = "environment"
"""Folder of the job's working directory in which Spark unpacks the archive."""
PYTHON = f"./{FOLDER}/python/bin/python3"
"""The Python of an archive that carries one."""
ENTRY, ENVIRONMENT, MANIFEST = "run.py", "environment.tar.gz", "manifest.json"


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """What a package holds."""

    version: str
    """Of firnline."""
    digest: str
    python: str
    """Version of Python that it is for, such as ``3.11``."""
    platform: str
    carries_python: bool = False
    packages: Mapping[str, str] = {}


@dataclass(frozen=True, slots=True)
class Package:
    """A published package.

    Args:
        url: of its folder, without a slash at the end.
        manifest: what it holds.
    """

    url: str
    manifest: Manifest

    @property
    def entry(self) -> str:
        """Return the URL of the entry point."""
        return f"{self.url}/{ENTRY}"

    @property
    def archive(self) -> str:
        """Return the URL of the environment, with the folder that Spark unpacks it in."""
        return f"{self.url}/{ENVIRONMENT}#{FOLDER}"

    @property
    def files(self) -> tuple[str, ...]:
        """Return the names of its files but the manifest."""
        return ENTRY, ENVIRONMENT, wheel_name(self.manifest.version)

    @property
    def wheel(self) -> str:
        """Return the URL of the wheel."""
        return f"{self.url}/{wheel_name(self.manifest.version)}"

    def complete(self, conf: Mapping[str, str], driver: str) -> dict[str, str]:
        """Return a configuration by which a driver and its executors use the environment.

        Args:
            conf: of the application; its own archives stay.
            driver: prefix of the settings that set variables of the driver's process.
        """
        variables = {"PYTHONPATH": f"./{FOLDER}"}
        if self.manifest.carries_python:
            variables |= dict.fromkeys(("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"), PYTHON)
        ours = {
            f"{prefix}{name}": value
            for prefix in (driver, "spark.executorEnv.")
            for name, value in variables.items()
        }
        given = conf.get("spark.archives")
        archives = f"{given},{self.archive}" if given else self.archive
        return {**conf, **ours, "spark.archives": archives, OPT_OUT: "false"}


def wheel_name(version: str) -> str:
    """Return the file name of the wheel of a version."""
    return f"firnline-{version}-py3-none-any.whl"


@dataclass(frozen=True, slots=True)
class PackagePaths:
    """Keys of a package in its bucket."""

    prefix: str

    @classmethod
    def of(cls, url: str) -> PackagePaths:
        """Return the keys of the package at a URL. Raises UsageError."""
        return cls(Root.parse(url).prefix)

    def file(self, name: str) -> str:
        """Return the key of a file of the package."""
        return f"{self.prefix}/{name}"

    @property
    def jobs(self) -> str:
        """Return the prefix of all objects of jobs."""
        return f"{self.prefix}/jobs/"

    def tries(self, task: str) -> str:
        """Return the prefix of the objects of all tries of a task, ending in ``/``."""
        return f"{self.jobs}{task}/"

    def request(self, name: str) -> str:
        """Return the key of what a job is to do; its name is ``{task}-{try}``."""
        return f"{self._job(name)}.request.json"

    def outcome(self, name: str) -> str:
        """Return the key of how a job ended."""
        return f"{self._job(name)}.outcome.json"

    def cancel(self, name: str) -> str:
        """Return the key of the object by which a job is asked to stop."""
        return f"{self._job(name)}.cancel"

    def _job(self, name: str) -> str:
        task, _, number = name.rpartition("-")
        return f"{self.tries(task)}{number}"

    def name_of(self, key: str) -> str:
        """Return the name of the job that an object is of."""
        task, _, file = key.removeprefix(self.jobs).rpartition("/")
        return f"{task}-{file.split('.', 1)[0]}"
