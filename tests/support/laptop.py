"""A laptop without a bucket: `make s3` in a clone, as the tutorial starts it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.cli import Outcome
from tools import local_s3
from tools.bootstrap import REPO


@dataclass(frozen=True)
class Laptop:
    """Where the tutorial's commands find the clone, and the S3 that `make s3` starts there.

    The server runs from the beginning: a page cannot wait in one terminal and go on in another.
    """

    clone: Path
    endpoint: str
    said: str
    """What `make s3` prints."""

    def make(self, arguments: Sequence[str]) -> Outcome:
        """Run ``make -C CLONE s3``."""
        assert list(arguments) == ["-C", str(self.clone), "s3"]
        return Outcome(0, self.said, "")

    def instead(self) -> dict[str, str]:
        """Return what the page writes -> what it is here: the port is a free one."""
        return {
            "~/firnline": str(self.clone),
            f"http://127.0.0.1:{local_s3.PORT}": self.endpoint,
        }


def as_ana(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Be the person of the pages, in a folder of hers, without settings."""
    monkeypatch.chdir(here)
    monkeypatch.setenv("PWD", str(here))
    # Set first: what a block of Python sets is undone only then.
    monkeypatch.setenv("FIRNLINE_TABLES", "")
    monkeypatch.delenv("FIRNLINE_TABLES")
    monkeypatch.setattr("getpass.getuser", lambda: "ana")
    monkeypatch.setattr("socket.gethostname", lambda: "laptop")


@contextmanager
def laptop(clone: Path) -> Iterator[Laptop]:
    """Run the S3 of a clone. Raises EnvironmentFaultError where it cannot be built."""
    folder = clone / local_s3.FOLDER.relative_to(REPO)
    with local_s3.prepared(folder, port=0) as server:
        yield Laptop(clone, server.endpoint, local_s3.let_in(server, folder))
