"""A standalone Spark cluster for tests and the demo: a master and workers as processes here.

Its machines are addresses of this one, since Spark never speculates on the host of the first
attempt. Nothing of the driver's environment is theirs: each worker has its own folders, and all of
them run a copy of Spark, on a Python with no more packages than docs/deploy.md asks for.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import sys
import urllib.request
import venv
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from importlib.metadata import distribution
from pathlib import Path
from typing import Self

import psutil
from packaging.requirements import Requirement

from firnline.errors import EnvironmentFaultError
from firnline.settings.spark_conf import LIGHT_JVM
from firnline.spark.executors import ALWAYS, READING, SOURCE, SPLITTING
from firnline.spark.session import check_java
from tools.airflow_api import HUNG_SECONDS, NEARBY_SECONDS, wait_until
from tools.bootstrap import JAVA_HOME_FILE
from tools.processes import Programs
from tools.s3server import free_port
from tools.services import Service

HOSTS = ("127.0.0.2", "127.0.0.3")
"""Addresses of the workers."""
CORES = 2
"""Of each worker; more than this machine has is allowed."""
_MASTER_HOST = "127.0.0.1"
_DEPLOY = "org.apache.spark.deploy"
SOURCE_PACKAGES = (*ALWAYS, READING, SPLITTING, *SOURCE)
"""What reads and writes of ``format("firnline")`` need besides."""
_OF_SPARK = ("bin", "jars", "python")
"""Folders of Spark's installation that a worker needs."""


class SparkCluster(Service):
    """One cluster in a folder; a context manager that is ready inside and gone after.

    Args:
        folder: for installation, work folders and logs; what is installed there is used again.
        hosts: address of each worker, on the loopback interface.
        memory: of each worker for its executors' JVMs, as Spark writes it.
    """

    def __init__(self, folder: Path, hosts: Sequence[str] = HOSTS, memory: str = "2g") -> None:
        self.folder = folder.resolve()
        self.hosts = tuple(hosts)
        self.port = 0
        self._page = 0
        self._memory = memory
        self._programs = Programs(
            f"{self.folder}{os.sep}{secrets.token_hex(4)}", self.folder / "logs"
        )

    @property
    def master(self) -> str:
        """``spark://host:port``."""
        return f"spark://{_MASTER_HOST}:{self.port}"

    @property
    def python(self) -> Path:
        """The Python of the executors: it has the packages of kernels, proofs and comparisons."""
        return self.folder / "python" / "bin" / "python"

    @property
    def source_python(self) -> Path:
        """Another one, with ``SOURCE_PACKAGES``."""
        home = self.folder / "source-python"
        if not home.exists():
            _install_python(home, SOURCE_PACKAGES)
        return home / "bin" / "python"

    def conf(self) -> dict[str, str]:
        """Spark settings of an application that leaves room for others."""
        return {"spark.pyspark.python": str(self.python), "spark.executor.memory": "512m"}

    # --- start and stop ---------------------------------------------------------------------------

    def start(self) -> Self:
        """Install what is missing, start all, and wait until every worker is registered.

        Raises:
            EnvironmentFaultError: no Java, or one of the processes ended or did not register.
        """
        if not self.python.exists():
            _install_python(self.folder / "python", (*ALWAYS, READING, SPLITTING))
        if not (self.folder / "spark").exists():
            _install_spark(self.folder / "spark")
        self.port, self._page = free_port(), free_port()
        options = ["--host", _MASTER_HOST, "--port", str(self.port)]
        self._start("master", _MASTER_HOST, "master.Master", *options, webui=self._page)
        for host in self.hosts:
            self._start_worker(host)
        self._wait_registered()
        return self

    def stop(self) -> None:
        """End every process of the cluster. Raises RuntimeError if one outlives SIGKILL."""
        if left := self._programs.stop():
            raise RuntimeError(f"processes of the Spark cluster outlived SIGKILL: {left}")

    def _start_worker(self, host: str) -> None:
        options = ["--host", host, "--cores", str(CORES), "--memory", self._memory]
        self._start(host, host, "worker.Worker", *options, self.master)

    def _start(self, name: str, host: str, what: str, *options: str, webui: int = 0) -> None:
        home = self.folder / "spark"
        program = str(home / "bin" / "spark-class")
        command = [program, f"{_DEPLOY}.{what}", "--webui-port", str(webui), *options]
        # Not the environment of this process: a worker's passes to its executors.
        env = {
            # Where a driver asks for "python3", it is theirs that executors find.
            "PATH": f"{self.python.parent}{os.pathsep}{os.defpath}",
            "HOME": str(self.folder),
            "JAVA_HOME": _java_home(),
            "SPARK_HOME": str(home),
            "SPARK_LOCAL_IP": host,
            "SPARK_LOCAL_DIRS": str(self.folder / host / "local"),
            "SPARK_WORKER_DIR": str(self.work(host)),
            "SPARK_DAEMON_JAVA_OPTS": LIGHT_JVM,
        }
        self._programs.start(name, command, env)

    def _wait_registered(self) -> None:
        def over() -> bool:
            return self._programs.dead() is not None or self._alive() == len(self.hosts)

        if not wait_until(over, HUNG_SECONDS, NEARBY_SECONDS) or self._programs.dead():
            raise EnvironmentFaultError(
                f"the Spark cluster in {self.folder} did not start "
                f"({self._programs.dead() or 'a worker'} failed)",
                next_step=f"read the logs in {self._programs.logs}",
            )

    def _alive(self) -> int:
        """Return the number of workers that the master counts."""
        url = f"http://{_MASTER_HOST}:{self._page}/json/"
        try:
            # Its own server on this machine.
            with urllib.request.urlopen(url, timeout=2) as answer:
                return int(json.load(answer).get("aliveworkers", 0))
        except (OSError, ValueError):  # nobody there yet, or a page that is not complete yet
            return 0

    # --- what runs on it --------------------------------------------------------------------------

    def work(self, host: str) -> Path:
        """Return the folder of a worker with a folder for each executor: application, number."""
        return self.folder / host / "work"

    def ran(self) -> dict[str, list[str]]:
        """Return the hosts on which executors of each application were started, by its id."""
        found: dict[str, list[str]] = {}
        for host in self.hosts:
            for executor in sorted(self.work(host).glob("app-*/*")):
                found.setdefault(executor.parent.name, []).append(host)
        return found

    def executors(self) -> Iterator[tuple[str, psutil.Process]]:
        """Yield the living executors, each with the host it is on."""
        for process in psutil.process_iter():
            with suppress(psutil.Error):
                place = Path(process.cwd())
                if "CoarseGrainedExecutorBackend" in " ".join(process.cmdline()):
                    yield from ((h, process) for h in self.hosts if self.work(h) in place.parents)

    def host_of(self, pid: int) -> str | None:
        """Return the host whose worker, or one of its executors, has started a process."""
        above = {process.pid for process in psutil.Process(pid).parents()}
        return next((h for h in self.hosts if self._programs.pid(h) in above), None)

    def kill_worker(self, host: str) -> None:
        """Kill a worker, which loses its executors; they end by themselves."""
        process = psutil.Process(self._programs.pid(host))
        process.kill()
        process.wait(HUNG_SECONDS)

    def repair(self) -> None:
        """Start again workers that were killed, and wait until they are registered."""
        for host in self.hosts:
            if not _lives(self._programs.pid(host)):
                self._start_worker(host)
        self._wait_registered()


def _lives(pid: int) -> bool:
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def _java_home() -> str:
    """Return the folder of the Java for the cluster. Raises EnvironmentFaultError without one."""
    home = os.environ.get("JAVA_HOME")
    if not home and JAVA_HOME_FILE.exists():
        home = JAVA_HOME_FILE.read_text(encoding="utf-8").strip()
    check_java({**os.environ, **({"JAVA_HOME": home} if home else {})})
    return home or str(Path(shutil.which("java") or "").resolve().parents[1])


# --- installation ---------------------------------------------------------------------------------


def _install_spark(home: Path) -> None:
    """Make a Spark of one's own from this environment's pyspark."""
    source = Path(str(distribution("pyspark").locate_file("pyspark")))
    for folder in _OF_SPARK:
        shutil.copytree(source / folder, home / folder, copy_function=_link)


def _install_python(home: Path, packages: Iterable[str]) -> None:
    """Make a Python with packages and what they need in turn, and nothing else."""
    venv.EnvBuilder(with_pip=False, symlinks=True).create(home)
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    target = home / "lib" / version / "site-packages"
    for name in sorted(_required(packages)):
        installed = distribution(name)
        for file in installed.files or []:
            source, place = Path(str(installed.locate_file(file))), target / file
            if ".." not in file.parts and source.exists():
                place.parent.mkdir(parents=True, exist_ok=True)
                _link(str(source), str(place))


def _required(names: Iterable[str]) -> set[str]:
    """Return the names of distributions, and of those that they cannot do without."""
    found: set[str] = set()
    pending = list(names)
    while pending:
        name = pending.pop()
        if name in found:
            continue
        found.add(name)
        needed = map(Requirement, distribution(name).requires or [])
        pending += [
            one.name for one in needed if one.marker is None or one.marker.evaluate({"extra": ""})
        ]
    return found


def _link(source: str, target: str) -> None:
    """Copy a file; on the same disk without its bytes, of which there are hundreds of MiB."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)
