"""A real PostgreSQL for tests of what Airflow does on one: several schedulers, say.

    python -m tools.postgres install    from the system's packages, where there is none

One server on the loopback interface, in a folder of its own, that is gone after. It refuses to run
as root, so it then runs as somebody else.
"""

from __future__ import annotations

import os
import pwd
import re
import secrets
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from firnline.errors import EnvironmentFaultError
from tools.s3server import free_port
from tools.system_packages import install as install_package
from tools.system_packages import run_install

USER = "firnline"
PACKAGE = "postgresql"
_READY_SECONDS = 600.0
_STOP_SECONDS = 10.0
# A test's data need not outlive the machine; Airflow's components keep many connections open.
_SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "max_connections": "200",
    "shared_buffers": "64MB",
    "fsync": "off",
    "full_page_writes": "off",
    "synchronous_commit": "off",
    "max_wal_size": "64MB",
    "min_wal_size": "4MB",
}


def find_programs() -> Path | None:
    """The folder with `postgres` and `initdb` of the newest server here; None without one."""
    # Debian keeps them out of the PATH, beside those of other versions.
    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=_version, reverse=True)
    if found := shutil.which("postgres"):
        folders.append(Path(found).resolve().parent)
    return next((f for f in folders if (f / "postgres").exists() and (f / "initdb").exists()), None)


def major_version(programs: Path) -> int:
    """Return the major version of a server, which alone can read its data."""
    done = subprocess.run(
        [str(programs / "postgres"), "--version"], check=True, capture_output=True, text=True
    )
    return int(re.findall(r"\d+", done.stdout)[0])


def _version(folder: Path) -> int:
    name = folder.parent.name
    return int(name) if name.isdigit() else 0


def install() -> Path:
    """Return the folder of programs, installed from the system's packages if need be.

    Raises:
        EnvironmentFaultError: there is none, and it cannot be installed here.
    """
    if found := find_programs():
        return found
    install_package(PACKAGE, "tests of several schedulers need PostgreSQL")
    found = find_programs()
    if found is None:
        raise EnvironmentFaultError(
            f"the package {PACKAGE} brought no server",
            next_step="install PostgreSQL where `postgres` is on the PATH",
        )
    return found


class Postgres:
    """One server with one database; a context manager.

    Args:
        template: what ``keep`` has made of another server: this one begins with its data.
    """

    def __init__(self, template: Path | None = None) -> None:
        self.port = 0
        self._template = template
        self._password = secrets.token_hex(16)
        self._folder: Path | None = None
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        """``user:password@host:port/database``: what comes after the scheme of a URL."""
        return f"{USER}:{self._password}@127.0.0.1:{self.port}/postgres"

    def start(self) -> Self:
        """Make the database and wait until it answers.

        Raises:
            EnvironmentFaultError: it is not installed, or does not come up.
        """
        programs = install()
        # Not below a folder that only root may enter, as pytest's are.
        folder = self._folder = Path(tempfile.mkdtemp(prefix="firnline-postgres-"))
        who = _somebody_else()
        if who:
            os.chown(folder, who["user"], who["group"])
        if self._template is None:
            self._init(programs / "initdb", folder, who)
        else:
            self._copy(self._template, programs / "postgres", folder, who)
        # Somebody else may take the port between the probe and the start.
        for _ in range(3):
            self.port = free_port()
            self._process = self._spawn(programs / "postgres", folder, who)
            if self._wait_ready(programs / "pg_isready"):
                return self
            self._end()
        log = (folder / "log").read_text(encoding="utf-8", errors="replace")[-800:]
        self.stop()
        raise EnvironmentFaultError(
            f"PostgreSQL did not come up: {log}", next_step="repair what it says"
        )

    def keep(self, template: Path) -> None:
        """Keep a copy of all data, for others to begin with, and go on.

        Raises:
            EnvironmentFaultError: it did not come up again.
        """
        if self._folder is None:
            raise RuntimeError("the server is not started")
        self._end()
        copy = template.with_name(f"{template.name}-{os.getpid()}")
        shutil.copytree(self._folder / "data", copy)
        try:
            copy.rename(template)
        except OSError:
            # Somebody else was quicker.
            shutil.rmtree(copy)
        programs = install()
        self._process = self._spawn(programs / "postgres", self._folder, _somebody_else())
        if not self._wait_ready(programs / "pg_isready"):
            raise EnvironmentFaultError(
                "PostgreSQL did not come up again after its data was copied",
                next_step="run the same command again",
            )

    def stop(self) -> None:
        """Stop the server and delete its data."""
        self._end()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None

    def __enter__(self) -> Self:
        try:
            return self.start()
        except BaseException:
            self.stop()
            raise

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def _init(self, initdb: Path, folder: Path, who: dict[str, Any]) -> None:
        word = folder / "password"
        word.touch(mode=0o600)
        word.write_text(self._password, encoding="utf-8")
        if who:
            os.chown(word, who["user"], who["group"])
        command = [str(initdb), "-D", str(folder / "data"), "-U", USER, "--pwfile", str(word)]
        command += ["--no-sync", "--auth=scram-sha-256", "--encoding=UTF8", "--locale=C"]
        # A copy of it is not to be larger than it must.
        command += ["--wal-segsize=1"]
        done = subprocess.run(
            command, check=False, capture_output=True, text=True, cwd=folder, **who
        )
        if done.returncode != 0:
            raise EnvironmentFaultError(
                f"initdb failed: {done.stderr.strip()[-500:]}", next_step="repair what it says"
            )
        word.unlink()

    def _copy(self, template: Path, postgres: Path, folder: Path, who: dict[str, Any]) -> None:
        """Begin with other data, and with a password that is ours."""
        data = folder / "data"
        shutil.copytree(template, data)
        if who:
            for path in (data, *data.rglob("*")):
                os.chown(path, who["user"], who["group"])
        done = subprocess.run(
            [str(postgres), "--single", "-D", str(data), "postgres"],
            input=f"ALTER ROLE {USER} PASSWORD '{self._password}'\n",
            check=False,
            capture_output=True,
            text=True,
            cwd=folder,
            **who,
        )
        if done.returncode != 0 or "ERROR" in done.stderr:
            raise EnvironmentFaultError(
                f"the copied database takes no new password: {done.stderr.strip()[-500:]}",
                next_step=f"remove {template}",
            )

    def _spawn(self, program: Path, folder: Path, who: dict[str, Any]) -> subprocess.Popen[bytes]:
        settings = {**_SETTINGS, "port": str(self.port)}
        options = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        with (folder / "log").open("ab") as log:
            return subprocess.Popen(
                [str(program), "-D", str(folder / "data"), *options],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=folder,
                # Ctrl-C ends what uses it first.
                start_new_session=True,
                **who,
            )

    def _wait_ready(self, pg_isready: Path) -> bool:
        deadline = time.monotonic() + _READY_SECONDS
        asked = [str(pg_isready), "-q", "-h", "127.0.0.1", "-p", str(self.port)]
        while time.monotonic() < deadline:
            if self._process is None or self._process.poll() is not None:
                return False
            if subprocess.run(asked, check=False).returncode == 0:
                return True
            time.sleep(0.05)
        return False

    def _end(self) -> None:
        if self._process is None:
            return
        # SIGINT: it ends its sessions instead of waiting for them.
        self._process.send_signal(2)
        try:
            self._process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process = None


def _somebody_else() -> dict[str, Any]:
    """Return the user arguments for subprocess; empty if this process may run the server."""
    if os.geteuid() != 0:
        return {}
    names = {user.pw_name: user for user in pwd.getpwall()}
    user = names.get("postgres") or names["nobody"]
    return {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}


def main(arguments: list[str]) -> int:
    """Install it; 0, or 1 after one sentence."""
    return run_install("postgres", __doc__, arguments, install)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
