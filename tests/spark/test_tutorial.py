"""docs/tutorial.md: everything up to Airflow, in order and as written, on a real S3 server."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.support.cli import inside
from tests.support.effort import fetched_or_full
from tests.support.laptop import as_ana, laptop
from tests.support.pages import WRITING, Reader, blocks
from tests.support.programs import run_program
from tools import sparks3
from tools.bootstrap import REPO

PAGE = REPO / "docs" / "tutorial.md"
BLOCKS = [
    block
    for block in blocks(PAGE.read_text(encoding="utf-8"))
    if block.section not in ("Install", "Airflow")
]
SPARK = next(n for n, block in enumerate(BLOCKS) if "SparkSession" in block.body)
"""Number of the block with which Spark reads; the next one is what it prints."""
READ = next(n for n, block in enumerate(BLOCKS) if block.section == "Read")
"""Number of the first block that reads the table."""


@dataclass
class WithSpark(Reader):
    """Runs a block of Spark in a process of its own, as Spark's settings are read at its start."""

    def run_python(self, code: str, names: dict[str, Any] | None = None) -> str:
        """Run a block; return what it prints."""
        if "SparkSession" not in code:
            return super().run_python(code, names)
        done = run_program([sys.executable, "-c", self._here(code)])
        assert done.returncode == 0, done.stderr[-3_000:]
        return done.stdout


@pytest.fixture
def reader(
    s3_server: object,  # skips, with its reason, where there can be none
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Iterator[Reader]:
    """Somebody with a clone, no bucket, and an empty folder."""
    here = tmp_path / "ana"
    here.mkdir()
    as_ana(here, monkeypatch)
    # boto3 would keep the keys of another test in this process.
    monkeypatch.setattr("boto3.DEFAULT_SESSION", None)
    with laptop(tmp_path / "firnline") as at:
        yield WithSpark(
            programs={"firnline": lambda given: inside(capsys)(*given), "make": at.make},
            printed=lambda: capsys.readouterr().out,
            env=monkeypatch.setenv,
            instead={"/home/ana": str(here), **at.instead()},
        )


def test_the_tutorial_prints_what_it_says(reader: Reader) -> None:
    reader.follow(BLOCKS[:SPARK])
    reader.follow(BLOCKS[SPARK + 2 :])
    if WRITING:
        reader.write(PAGE)


@pytest.fixture
def connector(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A Spark that finds its S3 connector on this machine; Spark copies it, so all is removed."""
    conf, ivy = tmp_path / "conf", tmp_path / "ivy"
    conf.mkdir()
    sparks3.repository(ivy)
    (conf / "spark-defaults.conf").write_text(f"spark.jars.ivy {ivy}\n", encoding="utf-8")
    monkeypatch.setenv("SPARK_CONF_DIR", str(conf))
    yield
    shutil.rmtree(ivy)


@fetched_or_full(sparks3.is_there(), sparks3.WHY_FULL)
@pytest.mark.usefixtures("connector")
def test_sparks_block_reads_the_table_on_s3_as_it_is_written(reader: Reader) -> None:
    reader.follow(BLOCKS[:READ])
    reader.follow(BLOCKS[SPARK : SPARK + 2])
    if WRITING:
        reader.write(PAGE)
