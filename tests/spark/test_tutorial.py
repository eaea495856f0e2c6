"""docs/tutorial.md: everything in it up to Airflow, in order, on a real S3 server."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.cli import inside
from tests.support.pages import WRITING, Block, Reader, blocks
from tools.bootstrap import REPO
from tools.s3server import S3Server

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PAGE = REPO / "docs" / "tutorial.md"
BLOCKS = list(blocks(PAGE.read_text(encoding="utf-8")))
BUCKET = "lake"
WITH_SPARK = "SparkSession"


@pytest.fixture
def reader(
    s3_server: S3Server,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Reader:
    """Somebody with a bucket, its keys, and an empty folder."""
    s3_server.make_bucket(BUCKET)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PWD", str(tmp_path))
    monkeypatch.setattr("getpass.getuser", lambda: "ana")
    monkeypatch.setattr("socket.gethostname", lambda: "laptop")
    real = s3_server.env()
    return Reader(
        programs={"firnline": lambda arguments: inside(capsys)(*arguments)},
        printed=lambda: capsys.readouterr().out,
        # The page's variables and no others, with what they hold here.
        env=lambda name, value: monkeypatch.setenv(name, real.get(name, value)),
        instead={"/home/ana": str(tmp_path)},
    )


def test_the_tutorial_prints_what_it_says(
    reader: Reader, spark: SparkSession, s3_server: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    before_airflow = [block for block in BLOCKS if block.section != "Airflow"]
    cut = next(n for n, block in enumerate(before_airflow) if WITH_SPARK in block.body)
    reader.follow(before_airflow[:cut])
    follow_spark(reader, before_airflow[cut : cut + 2], s3_server, monkeypatch)
    reader.follow(before_airflow[cut + 2 :])
    if WRITING:
        reader.write(PAGE)


def follow_spark(
    reader: Reader, found: list[Block], server: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark's S3 connector is not installed here: it reads the folder in which the server keeps
    the bucket's objects."""
    settings = Path(os.environ["FIRNLINE_TABLES"])
    folder = settings.with_name("folder.yaml")
    place = f"file://{server.data_dir}/{BUCKET}"
    folder.write_text(settings.read_text().replace(f"s3://{BUCKET}", place))
    with monkeypatch.context() as patch:
        patch.setenv("FIRNLINE_TABLES", str(folder))
        reader.follow(found)
