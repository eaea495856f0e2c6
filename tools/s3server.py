"""A real S3 server for tests, benchmarks and the demo: versitygw on a local folder."""

from __future__ import annotations

import contextlib
import os
import secrets
import socket
import subprocess
import time
import urllib.error
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from firnline.errors import EnvironmentFaultError
from tools.gotools import TOOLS
from tools.services import Service, end

REGION = "us-east-1"
_PORTS = range(10_000, 32_768)
"""Ports from which servers choose theirs; the system gives away higher ones."""
_READY_SECONDS = 300.0
_STOP_SECONDS = 1.0  # it waits for connections that clients keep open; each object is whole anyway


@dataclass(frozen=True)
class StoreRoot:
    """An empty place in a store that one test has to itself."""

    kind: str
    """``file`` or ``s3``."""
    url: str
    """Root URL of a table (or of several) without a slash at its end."""
    env: dict[str, str] = field(default_factory=dict, repr=False)
    """Environment variables that let AWS clients in; empty for ``file``."""


def free_port() -> int:
    """A TCP port of the loopback interface that nobody listens on now.

    None of those that the system itself gives to programs and connections: between this call and
    the start of a server, which takes seconds, others get hundreds of them.
    """
    while True:
        port = secrets.choice(_PORTS)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


def new_keys() -> tuple[str, str]:
    """An access key and its secret."""
    # No sign in front: the commands of Airflow would take it for an option.
    return "AK" + secrets.token_hex(9).upper(), secrets.token_hex(20)


def is_taken(port: int) -> bool:
    """True if somebody listens on this TCP port of the loopback interface, or nobody may."""
    with socket.socket() as probe:
        # What a server that has ended leaves of its connections is in nobody's way.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return True
        return False


class S3Server(Service):
    """One running server with keys of its own, on a free port by default; a context manager.

    Args:
        data_dir: where the objects lie, as files; a bucket is a folder in it. Survives ``stop``,
            so a later server on the same folder has the same objects.
        bucket: made when it is not there.
        port: of the loopback interface; 0: a free one.
        keys: access key and secret; None: new ones.
    """

    region = REGION

    def __init__(
        self,
        data_dir: Path,
        bucket: str = "firnline",
        port: int = 0,
        keys: tuple[str, str] | None = None,
    ) -> None:
        self.data_dir = data_dir
        self.bucket = bucket
        self.access_key, self.secret_key = keys or new_keys()
        self.port = self._wanted = port
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def endpoint(self) -> str:
        """``http://127.0.0.1:port``."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        """Process id. Raises RuntimeError when it does not run."""
        if self._process is None:
            raise RuntimeError("the S3 server is not running")
        return self._process.pid

    @property
    def runs(self) -> bool:
        """True from ``start`` to ``stop``, unless it has ended by itself."""
        return self._process is not None and self._process.poll() is None

    def url(self, prefix: str = "") -> str:
        """``s3://bucket/prefix``."""
        return f"s3://{self.bucket}/{prefix}".rstrip("/")

    def env(self) -> dict[str, str]:
        """Environment variables with which AWS clients find this server and are let in."""
        return {
            "AWS_ACCESS_KEY_ID": self.access_key,
            "AWS_SECRET_ACCESS_KEY": self.secret_key,
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_ENDPOINT_URL_S3": self.endpoint,
            "AWS_REGION": REGION,
            "AWS_DEFAULT_REGION": REGION,
            "AWS_ALLOW_HTTP": "true",
            "AWS_VIRTUAL_HOSTED_STYLE_REQUEST": "false",
            # Nothing on this machine may answer instead.
            "AWS_EC2_METADATA_DISABLED": "true",
            "AWS_CONFIG_FILE": os.devnull,
            "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
        }

    def make_bucket(self, name: str) -> None:
        """Make one more bucket."""
        (self.data_dir / name).mkdir(parents=True, exist_ok=True)

    def start(self) -> Self:
        """Start and wait until it answers.

        Raises:
            EnvironmentFaultError: it cannot be built, its port is taken, or it does not come up.
        """
        if self._wanted and is_taken(self._wanted):
            raise EnvironmentFaultError(
                f"the port {self._wanted} of this machine is taken",
                next_step="end what listens on it, or take another: `make s3 PORT=9001`",
            )
        program = TOOLS["versitygw"].build()
        self.make_bucket(self.bucket)
        # Somebody else may take the port between the probe and the start.
        for _ in range(3):
            self.port = self._wanted or free_port()
            self._process = self._spawn(program)
            if self._wait_ready():
                return self
            self.stop()
        raise EnvironmentFaultError(
            f"the S3 server on {self.data_dir} did not come up",
            next_step=f"read {self.log} and start it again",
        )

    def stop(self) -> None:
        """End the process and wait until it is gone; the objects stay."""
        if self._process is None:
            return
        end(self._process, _STOP_SECONDS)
        self._process = None

    @property
    def log(self) -> Path:
        """What the server says of itself, beside its objects."""
        return self.data_dir.with_name(self.data_dir.name + ".log")

    def _spawn(self, program: Path) -> subprocess.Popen[bytes]:
        address = f"127.0.0.1:{self.port}"
        options = ["--port", address, "--keep-alive", "--quiet", "--health", "/health"]
        with self.log.open("ab") as log:
            return subprocess.Popen(
                [str(program), *options, "posix", str(self.data_dir)],
                # In the environment, not in the argument list, which every user can read.
                env={
                    "PATH": os.environ.get("PATH", ""),
                    "ROOT_ACCESS_KEY": self.access_key,
                    "ROOT_SECRET_KEY": self.secret_key,
                },
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                # Ctrl-C ends what uses the server first.
                start_new_session=True,
            )

    def _wait_ready(self) -> bool:
        deadline = time.monotonic() + _READY_SECONDS
        while time.monotonic() < deadline:
            if self._process is None or self._process.poll() is not None:
                return False
            try:
                with urllib.request.urlopen(f"{self.endpoint}/health", timeout=1):
                    return True
            except (urllib.error.URLError, OSError):
                time.sleep(0.02)
        return False
