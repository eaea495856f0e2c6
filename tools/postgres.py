"""A PostgreSQL server of one's own on the loopback interface, for a local Airflow and for tests.

    python -m tools.postgres install    from the system's packages, where there is none

Its data stays in a folder that it is given, or is gone with the server. PostgreSQL refuses to run
as root, so it then runs as somebody else.
"""

from __future__ import annotations

import os
import pwd
import re
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Self

from firnline.errors import EnvironmentFaultError
from tools.processes import MARK
from tools.s3server import free_port
from tools.services import Service, end
from tools.system_packages import install as install_package
from tools.system_packages import run_install

USER = "firnline"
PACKAGE = "postgresql"
_READY_SECONDS = 600.0
_STOP_SECONDS = 10.0
_LEFTOVER_SECONDS = 30.0
"""Time in which the children of a server that was killed have ended."""
_STILL_IN_USE = "shared memory block"
# Airflow's components keep many connections open. A machine that dies may cost the last second.
_SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "max_connections": "200",
    "shared_buffers": "64MB",
    "synchronous_commit": "off",
    "max_wal_size": "64MB",
    "min_wal_size": "4MB",
}
_OF_NO_WORTH = {"fsync": "off", "full_page_writes": "off"}
"""Further settings for data that need not outlive the machine."""


def find_programs(major: int | None = None) -> Path | None:
    """The folder with `postgres` and `initdb` of the newest server here; None without one.

    Args:
        major: of this major version only.
    """
    # Debian keeps them out of the PATH, beside those of other versions.
    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=_version, reverse=True)
    if found := shutil.which("postgres"):
        folders.append(Path(found).resolve().parent)
    for folder in folders:
        complete = (folder / "postgres").exists() and (folder / "initdb").exists()
        if complete and major in (None, major_version(folder)):
            return folder
    return None


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
    install_package(PACKAGE, "an Airflow with several schedulers or many runs needs PostgreSQL")
    found = find_programs()
    if found is None:
        raise EnvironmentFaultError(
            f"the package {PACKAGE} brought no server",
            next_step="install PostgreSQL where `postgres` is on the PATH",
        )
    return found


def check_enterable(folder: Path) -> None:
    """Check that the server's user may enter a folder.

    Raises:
        EnvironmentFaultError: it may not; names both.
    """
    who = _somebody_else()
    enter = ["sh", "-c", 'cd "$1"', "sh", str(folder)]
    if who and subprocess.run(enter, check=False, capture_output=True, cwd="/", **who).returncode:
        name = pwd.getpwuid(who["user"]).pw_name
        raise EnvironmentFaultError(
            f"PostgreSQL does not run as root, and the user {name} may not enter {folder}",
            next_step="work as another user than root, or in a folder that all may enter",
        )


class Postgres(Service):
    """One server with one database; a context manager.

    Args:
        template: what ``keep`` has made of another server: a new one begins with its data.
        folder: where its data is, or will be; without it the data goes with the server.
    """

    def __init__(self, template: Path | None = None, folder: Path | None = None) -> None:
        self.port = 0
        self._template = template
        self._home = folder
        self._password = secrets.token_hex(16)
        self._folder: Path | None = None
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        """``user:password@host:port/database``: what comes after the scheme of a URL."""
        return f"{USER}:{self._password}@127.0.0.1:{self.port}/postgres"

    @property
    def pid(self) -> int:
        """Process id. Raises RuntimeError when it is not started."""
        if self._process is None:
            raise RuntimeError("the PostgreSQL server is not started")
        return self._process.pid

    def start(self) -> Self:
        """Make the database, unless it is there, and wait until it answers.

        Raises:
            EnvironmentFaultError: this version is not installed, or does not come up.
        """
        folder = self._folder = self._make_folder()
        programs = _programs_of(folder)
        who = _somebody_else()
        if not (folder / "data").exists():
            self._make_data(programs, folder, who)
        self._set_password(programs / "postgres", folder, who)
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

    def ended(self) -> bool:
        """Return True if it has been started and has ended by itself."""
        return self._process is not None and self._process.poll() is not None

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
        programs = _programs_of(self._folder)
        self._process = self._spawn(programs / "postgres", self._folder, _somebody_else())
        if not self._wait_ready(programs / "pg_isready"):
            raise EnvironmentFaultError(
                "PostgreSQL did not come up again after its data was copied",
                next_step="run the same command again",
            )

    def stop(self) -> None:
        """Stop the server; delete its data, unless it was given a folder."""
        self._end()
        if self._folder is not None and self._home is None:
            shutil.rmtree(self._folder, ignore_errors=True)
        self._folder = None

    def _make_folder(self) -> Path:
        if self._home is None:
            # Not below a folder that only root may enter, as pytest's are.
            folder = Path(tempfile.mkdtemp(prefix="firnline-postgres-"))
        else:
            folder = self._home
            folder.mkdir(mode=0o700, exist_ok=True)
        _give(folder, _somebody_else())
        return folder

    def _make_data(self, programs: Path, folder: Path, who: dict[str, Any]) -> None:
        """Make the data as a whole: who is interrupted has none."""
        new = folder / "new"
        shutil.rmtree(new, ignore_errors=True)
        if self._template is None:
            self._init(programs / "initdb", new, who)
        else:
            shutil.copytree(self._template, new)
            _give(new, who)
        new.rename(folder / "data")

    def _init(self, initdb: Path, data: Path, who: dict[str, Any]) -> None:
        word = data.with_name("password")
        word.touch(mode=0o600)
        word.write_text(self._password, encoding="utf-8")
        _give(word, who)
        command = [str(initdb), "-D", str(data), "-U", USER, "--pwfile", str(word)]
        command += ["--no-sync", "--auth=scram-sha-256", "--encoding=UTF8", "--locale=C"]
        # A copy of it is not to be larger than it must.
        command += ["--wal-segsize=1"]
        done = subprocess.run(
            command, check=False, capture_output=True, text=True, cwd=data.parent, **who
        )
        word.unlink()
        if done.returncode != 0:
            raise EnvironmentFaultError(
                f"initdb failed: {done.stderr.strip()[-500:]}", next_step="repair what it says"
            )

    def _set_password(self, postgres: Path, folder: Path, who: dict[str, Any]) -> None:
        """Let in whoever knows this object's password, and nobody else."""
        data = folder / "data"
        until = time.monotonic() + _LEFTOVER_SECONDS
        while True:
            done = subprocess.run(
                [str(postgres), "--single", "-D", str(data), "postgres"],
                input=f"ALTER ROLE {USER} PASSWORD '{self._password}'\n",
                check=False,
                capture_output=True,
                text=True,
                cwd=folder,
                **who,
            )
            # The children of a server that was killed outlive it for a moment.
            if _STILL_IN_USE not in done.stderr or time.monotonic() > until:
                break
            time.sleep(0.1)
        if done.returncode != 0 or "ERROR" in done.stderr:
            raise EnvironmentFaultError(
                f"the database in {data} takes no new password: {done.stderr.strip()[-500:]}",
                next_step="end the server that uses it, or remove the folder and all that it holds",
            )

    def _spawn(self, program: Path, folder: Path, who: dict[str, Any]) -> subprocess.Popen[bytes]:
        settings = {**_SETTINGS, "port": str(self.port)}
        if self._home is None:
            settings |= _OF_NO_WORTH
        options = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        with (folder / "log").open("ab") as log:
            return subprocess.Popen(
                [str(program), "-D", str(folder / "data"), *options],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=folder,
                # By this it is known when all that has started it was killed.
                env={**os.environ, MARK: f"{folder}:server"},
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
        end(self._process, _STOP_SECONDS, signal.SIGINT)
        self._process = None


def _programs_of(folder: Path) -> Path:
    """The folder of the programs that can read the folder's data, or make it."""
    written = folder / "data" / "PG_VERSION"
    major = int(written.read_text(encoding="utf-8")) if written.exists() else None
    programs = find_programs(major)
    if programs is None:
        which = f"PostgreSQL {major}, which has made {folder / 'data'}," if major else "PostgreSQL"
        raise EnvironmentFaultError(
            f"{which} is not on this machine",
            next_step=f"install it (Debian's package {PACKAGE}{f'-{major}' if major else ''})",
        )
    return programs


def _somebody_else() -> dict[str, Any]:
    """Return the user arguments for subprocess; empty if this process may run the server."""
    if os.geteuid() != 0:
        return {}
    names = {user.pw_name: user for user in pwd.getpwall()}
    user = names.get("postgres") or names["nobody"]
    return {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}


def _give(folder: Path, who: dict[str, Any]) -> None:
    """Make a folder, and all that is in it, the server's."""
    for path in (folder, *folder.rglob("*")) if who else ():
        os.chown(path, who["user"], who["group"])


def main(arguments: list[str]) -> int:
    """Install it; 0, or 1 after one sentence."""
    return run_install("postgres", __doc__, arguments, install)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
