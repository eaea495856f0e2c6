"""Real tables, made and maintained through the command line."""

from __future__ import annotations

import io
import shutil
from collections.abc import Callable
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from firnline.cli.app import run
from firnline.ids import SystemIds
from firnline.log import codec
from firnline.log.records import LogContent, Marker
from firnline.paths import TablePaths
from tests.support.cli import Outcome, content_of, inside, settings_file

PARTS = 4
"""In each of the two partitions: what a merge thinks worth its while."""
T_MS = 1_769_860_800_000


@dataclass(frozen=True)
class Place:
    """A ``file://`` table of two partitions and the settings file that names it ``events``."""

    folder: Path
    settings: Path

    @property
    def root(self) -> str:
        return f"file://{self.folder}"

    @property
    def paths(self) -> TablePaths:
        return TablePaths(self.folder.name)

    def content(self) -> dict[str, str]:
        """Every object of the table with a digest of its bytes."""
        return content_of(self.folder)

    def parts(self, partition: str) -> list[Path]:
        """The part files of a partition, oldest first."""
        return sorted((self.folder / "_data" / partition).glob("*.parquet"))

    def logs(self) -> list[Path]:
        """The log files, oldest first."""
        return sorted((self.folder / "_log").glob("*.jsonl"))

    def configure(self, text: str) -> None:
        """Settings of the table besides its root."""
        settings_file(self.settings.parent, f"tables:\n  events: {{root: '{self.root}', {text}}}\n")

    def adopt(self, partition: str, file: Path, schema: dict[str, str], *, t: int = T_MS) -> Path:
        """Put a file under the table's data and name it in a log file, as another client may do
        without ever looking into it. Returns the log file."""
        key = self.paths.data_part(partition, SystemIds().uuid7(t))
        part = self.folder.parent / key
        part.parent.mkdir(parents=True, exist_ok=True)
        part.write_bytes(file.read_bytes())
        marker = Marker(p=key, b=part.stat().st_size, t=t)
        log = self.folder.parent / self.paths.append_log(t, f"other-{SystemIds().uuid7(t)}")
        log.parent.mkdir(parents=True, exist_ok=True)
        log.write_bytes(codec.encode(LogContent(t=t, schema=schema, markers=[marker])))
        return log


@pytest.fixture
def firnline(capfd: pytest.CaptureFixture[str]) -> Callable[..., Outcome]:
    """``firnline("parts", root)`` as a command line would run it, in this process.

    What libraries write themselves to the file of standard error counts, too.
    """
    return inside(capfd)


def parquet(path: Path, **columns: pa.Array) -> Path:
    """A Parquet file with these columns."""
    pq.write_table(pa.table(columns), path)
    return path


def three_rows(path: Path) -> Path:
    """A Parquet file of three rows."""
    return parquet(path, id=pa.array([3, 1, 2]), v=pa.array(["c", "a", "b"]))


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    """A Parquet file of three rows, as each part of the table has them."""
    return three_rows(tmp_path / "rows.parquet")


@pytest.fixture(scope="session")
def laid_out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a table with four parts in each of d=1 and d=2, to be copied."""
    folder = tmp_path_factory.mktemp("laid") / "events"
    rows = three_rows(folder.with_name("rows.parquet"))
    text = f"tables:\n  events: {{root: 'file://{folder}', sort_by: [id]}}\n"
    named = ["--settings", str(settings_file(folder.parent, text))]
    for partition in ("d=1", "d=2"):
        for _ in range(PARTS):
            with redirect_stdout(io.StringIO()):
                assert run(["append", "events", str(rows), "--partition", partition, *named]) == 0
    return folder


@pytest.fixture
def place(tmp_path: Path, laid_out: Path) -> Place:
    """The table, with four parts in each of d=1 and d=2."""
    made = Place(tmp_path / "events", tmp_path / "tables.yaml")
    made.configure("sort_by: [id]")
    shutil.copytree(laid_out, made.folder)
    return made
