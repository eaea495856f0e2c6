"""A real Azure Blob service for tests: Azurite, Microsoft's own emulator, on a free port.

    python -m tools.azureserver install    from the npm registry, where it is not there yet

It is kept where the programs built with Go are, outside of the clone, for all clones of this user.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import http
import os
import secrets
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Self
from urllib.parse import urlencode

from firnline.errors import EnvironmentFaultError
from tools.gotools import caches, writable_cache
from tools.s3server import free_port
from tools.services import end
from tools.system_packages import run_install

VERSION = "3.35.0"
_NAME = f"azurite-{VERSION}"
_PROGRAM = Path("node_modules/azurite/dist/src/blob/main.js")
_READY_SECONDS = 300.0
_STOP_SECONDS = 1.0


def find_program() -> Path | None:
    """Return Azurite's main file; None where it has not been installed."""
    return next((path for folder in caches() if (path := folder / _NAME / _PROGRAM).exists()), None)


def install() -> Path:
    """Return Azurite's main file, installed if need be (half a minute, once for a user).

    Raises:
        EnvironmentFaultError: there is no Node.js, or the installation failed.
    """
    if found := find_program():
        return found
    npm = shutil.which("npm")
    if npm is None or shutil.which("node") is None:
        raise EnvironmentFaultError(
            "Azurite runs on Node.js and this machine has none",
            next_step="install Node.js 20 or newer with npm and run the same command again",
        )
    folder = writable_cache()
    print(f"installing Azurite {VERSION}, once (half a minute)", flush=True)
    with tempfile.TemporaryDirectory(dir=folder) as work:
        _install(npm, work)
        try:
            # Renamed in one step: another process may be looking for it or installing it, too.
            Path(work, "azurite").rename(folder / _NAME)
        except OSError:
            if find_program() is None:
                raise
    return folder / _NAME / _PROGRAM


def _install(npm: str, work: str) -> None:
    # Nothing of what it depends on is needed for a build: no package runs a script here.
    options = ["--prefix", f"{work}/azurite", "--ignore-scripts", "--no-fund", "--no-audit"]
    done = subprocess.run(
        [npm, "install", *options, f"azurite@{VERSION}"],
        check=False,
        capture_output=True,
        text=True,
    )
    if done.returncode != 0:
        raise EnvironmentFaultError(
            f"installing Azurite {VERSION} failed: {done.stderr.strip()[-500:]}",
            next_step="check that the npm registry can be reached, run the command again",
        )


class AzureServer:
    """One running server in memory with an account and a key of its own.

    Args:
        log: file for what it prints.
        container: made at the start.
    """

    def __init__(self, log: Path, container: str = "firnline") -> None:
        self.container = container
        self.account = "acct" + secrets.token_hex(6)
        self.key = base64.b64encode(secrets.token_bytes(32)).decode()
        self.port = 0
        self._log = log
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def endpoint(self) -> str:
        """URL of the account's Blob service."""
        return f"http://127.0.0.1:{self.port}/{self.account}"

    def sas(self, permissions: str = "rwdlacup") -> str:
        """Return a shared access signature for everything in the account, for some years."""
        fields = {
            "sp": permissions,
            "ss": "b",
            "srt": "sco",
            "st": "2020-01-01T00:00:00Z",
            "se": "2099-01-01T00:00:00Z",
            "sip": "",
            "spr": "https,http",
            "sv": "2019-12-12",
        }
        text = "\n".join((self.account, *fields.values(), ""))
        signed = hmac.new(base64.b64decode(self.key), text.encode(), hashlib.sha256).digest()
        given = {name: value for name, value in fields.items() if value}
        return urlencode({**given, "sig": base64.b64encode(signed).decode()})

    def start(self) -> Self:
        """Start and wait until it answers.

        Raises:
            EnvironmentFaultError: it cannot be installed, or does not come up.
        """
        program = install()
        # Somebody else may take the port between the probe and the start.
        for _ in range(3):
            self.port = free_port()
            self._process = self._spawn(program)
            if self._make_container():
                return self
            self.stop()
        raise EnvironmentFaultError(
            "Azurite did not come up", next_step=f"read {self._log} and start it again"
        )

    def stop(self) -> None:
        """End the process and wait until it is gone, with all objects."""
        if self._process is None:
            return
        end(self._process, _STOP_SECONDS)
        self._process = None

    def _spawn(self, program: Path) -> subprocess.Popen[bytes]:
        options = ["--blobHost", "127.0.0.1", "--blobPort", str(self.port)]
        with self._log.open("ab") as log:
            return subprocess.Popen(
                ["node", str(program), *options, "--inMemoryPersistence", "--disableTelemetry"],
                # In the environment, not in the argument list, which every user can read.
                env={
                    "PATH": os.environ.get("PATH", ""),
                    "AZURITE_ACCOUNTS": f"{self.account}:{self.key}",
                },
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                # Ctrl-C ends what uses the server first.
                start_new_session=True,
            )

    def _make_container(self) -> bool:
        """Wait until it runs and the container is there; False when it has ended."""
        url = f"{self.endpoint}/{self.container}?restype=container&{self.sas()}"
        request = urllib.request.Request(url, method="PUT", headers={"x-ms-version": "2021-12-02"})
        deadline = time.monotonic() + _READY_SECONDS
        while time.monotonic() < deadline:
            if self._process is None or self._process.poll() is not None:
                return False
            try:
                with urllib.request.urlopen(request, timeout=5):
                    return True
            except urllib.error.HTTPError as error:
                if error.code == http.HTTPStatus.CONFLICT:
                    return True  # an attempt whose answer took too long has made it
                raise EnvironmentFaultError(
                    f"Azurite refused the container {self.container}: {error}",
                    next_step=f"read {self._log}",
                ) from None
            except OSError:
                time.sleep(0.05)
        return False


def main(arguments: list[str]) -> int:
    """Run ``install``; return the exit code."""
    return run_install("azureserver", __doc__, arguments, install)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
