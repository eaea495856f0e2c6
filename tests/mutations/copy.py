"""A copy of the repository in which one mutation after the other is made."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.mutations.model import Mutation
from tools.bootstrap import CACHE, JAVA_HOME_FILE, REPO, VENV

_SHARED = (".venv", ".cache/bin", ".cache/java-home")
"""Made by `make setup` and read by tests: links to those of the clone."""


class MutationError(Exception):
    """A mutation that cannot be made, or a copy that is not what runs."""


@dataclass(frozen=True)
class Copy:
    """A copy of the working tree, changes that are not committed included."""

    folder: Path

    def environment(self, *, full: bool = False) -> dict[str, str]:
        """Environment of programs that run the copy's code with the clone's packages."""
        path = os.pathsep.join([str(self.folder / "include"), str(self.folder)])
        given = {**os.environ, "PYTHONPATH": path, "FIRNLINE_CACHE": str(CACHE / "firnline")}
        given.pop("PYTHONDONTWRITEBYTECODE", None)
        if JAVA_HOME_FILE.is_file():
            given["JAVA_HOME"] = JAVA_HOME_FILE.read_text(encoding="utf-8").strip()
        if full:
            given["FIRNLINE_TESTS"] = "full"
        return given

    def run(self, words: Sequence[str], *, full: bool = False) -> subprocess.CompletedProcess[str]:
        """Run a program of the clone's environment in the copy."""
        return subprocess.run(
            words,
            cwd=self.folder,
            env=self.environment(full=full),
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
        )

    def check(self) -> None:
        """Raise MutationError unless it is the copy's code that runs."""
        asked = "import firnline, tools; print(firnline.__file__, tools.__file__)"
        told = self.run([sys.executable, "-c", asked])
        if not all(str(self.folder) in path for path in told.stdout.split()) or not told.stdout:
            raise MutationError(f"another code than the copy's runs: {told.stdout}{told.stderr}")

    @contextmanager
    def mutated(self, mutation: Mutation) -> Iterator[None]:
        """Change one text for as long as the context lasts.

        Raises:
            MutationError: the old text does not occur exactly once.
        """
        path = self.folder / mutation.file
        before = path.read_text(encoding="utf-8")
        if before.count(mutation.old) != 1:
            count = before.count(mutation.old)
            raise MutationError(f"{mutation.file} has the old text {count} times, not once")
        _write(path, before.replace(mutation.old, mutation.new))
        try:
            yield
        finally:
            _write(path, before)


@contextmanager
def copy_of_the_repository() -> Iterator[Copy]:
    """Make a copy in a temporary folder, and remove it again."""
    with tempfile.TemporaryDirectory(prefix="firnline-mutations-") as place:
        copy = Copy(Path(place).resolve() / "repository")
        listed = subprocess.run(
            ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            cwd=REPO,
            check=True,
            capture_output=True,
            text=True,
        )
        for name in filter(None, listed.stdout.split("\0")):
            source, target = REPO / name, copy.folder / name
            if source.is_file():  # not one that is deleted and not committed yet
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(source, target)
        # Tests ask git which files there are.
        for words in (["git", "init", "-q"], ["git", "add", "--all"]):
            subprocess.run(words, cwd=copy.folder, check=True, capture_output=True)
        for name in _SHARED:
            if (REPO / name).exists():
                (copy.folder / name).parent.mkdir(exist_ok=True)
                (copy.folder / name).symlink_to(REPO / name)
        copy.check()
        yield copy


def program(name: str) -> str:
    """Path of a program of the clone's environment."""
    return str(VENV / "bin" / name)


def _write(path: Path, text: str) -> None:
    """Write a source so that no byte code of before is taken for its own.

    Python compares whole seconds and sizes.
    """
    later = path.stat().st_mtime + 2
    path.write_text(text, encoding="utf-8")
    os.utime(path, (later, later))
