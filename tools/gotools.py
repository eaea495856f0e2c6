"""Programs that the repository's tools and tests need and that are built with Go.

    python -m tools.gotools versitygw actionlint    build what is not there yet

They come from the Go module proxy, in pinned versions. A build takes minutes, so it is kept outside
of the clone, in the user's cache folder, for all clones of this user; where that folder cannot be
written, in the clone's own.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from firnline.errors import EnvironmentFaultError
from tools.bootstrap import CACHE


@dataclass(frozen=True)
class GoTool:
    """One program in one version."""

    name: str
    module: str
    """Path of its package, as `go install` takes it."""
    version: str
    """A tag, with its ``v``."""

    @property
    def file(self) -> str:
        """Name of the program's file in a cache."""
        return f"{self.name}-{self.version}"

    def find(self) -> Path | None:
        """Return the program, or None where it has not been built."""
        return next((path for folder in caches() if (path := folder / self.file).exists()), None)

    def build(self) -> Path:
        """Return the program, built if need be (1 to 3 minutes, once for a user).

        Raises:
            EnvironmentFaultError: there is no Go, or the build failed.
        """
        if found := self.find():
            return found
        go = shutil.which("go")
        if go is None:
            raise EnvironmentFaultError(
                f"{self.name} is built with Go and this machine has none",
                next_step="install Go 1.24 or newer and run the same command again",
            )
        folder = writable_cache()
        print(f"building {self.name} {self.version}, once (some 2 minutes)", flush=True)
        with tempfile.TemporaryDirectory(dir=folder) as work:
            self._install(go, work)
            # Renamed in one step: another process may be looking for it or building it, too.
            (Path(work) / self.name).replace(folder / self.file)
        return folder / self.file

    def _install(self, go: str, folder: str) -> None:
        done = subprocess.run(
            [go, "install", "-ldflags=-s -w", f"{self.module}@{self.version}"],
            check=False,
            capture_output=True,
            text=True,
            env={**os.environ, "GOBIN": folder, "CGO_ENABLED": "0"},
        )
        if done.returncode != 0:
            raise EnvironmentFaultError(
                f"building {self.name} {self.version} failed: {done.stderr.strip()[-500:]}",
                next_step="check that the Go module proxy can be reached, run the command again",
            )


TOOLS = {
    tool.name: tool
    for tool in (
        # Keeps create-only and conditional puts under races, which the servers that are easier to
        # install do not.
        GoTool("versitygw", "github.com/versity/versitygw/cmd/versitygw", "v1.8.0"),
        GoTool("actionlint", "github.com/rhysd/actionlint/cmd/actionlint", "v1.7.12"),
    )
}
"""By name."""


def caches() -> Iterator[Path]:
    """Folders that may hold built programs, the user's first."""
    if home := os.environ.get("XDG_CACHE_HOME") or os.environ.get("HOME"):
        user = Path(home) if "XDG_CACHE_HOME" in os.environ else Path(home) / ".cache"
        yield user / "firnline" / "bin"
    yield CACHE / "bin"


def cached(name: str) -> Path:
    """Return the folder of this name in one of ``caches``, else in the first that can be written.

    Raises EnvironmentFaultError as ``writable_cache``.
    """
    found = next((home for each in caches() if (home := each / name).exists()), None)
    return found or writable_cache() / name


def writable_cache() -> Path:
    """Return the first of ``caches`` that can be written. Raises EnvironmentFaultError."""
    for folder in caches():
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError:
            continue
        if os.access(folder, os.W_OK):
            return folder
    raise EnvironmentFaultError(
        f"no folder for built programs can be written: {', '.join(map(str, caches()))}",
        next_step="make one of them writable",
    )


def main(names: list[str]) -> int:
    """Build the named programs; 0, 1 after one sentence, or 2 for a name that there is not."""
    if not names or not set(names) <= TOOLS.keys():
        sys.stderr.write((__doc__ or "") + "\n")
        return 2
    try:
        for name in names:
            TOOLS[name].build()
    except EnvironmentFaultError as error:
        sys.stderr.write(f"gotools: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
