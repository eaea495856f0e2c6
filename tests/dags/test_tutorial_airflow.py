"""docs/tutorial.md: its section on Airflow, with the commands of a real Airflow on SQLite."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.dags.commands import AirflowCommands
from tests.support.cli import inside
from tests.support.effort import FULL
from tests.support.pages import WRITING, Reader, blocks
from tools.bootstrap import REPO
from tools.s3server import S3Server

PAGE = REPO / "docs" / "tutorial.md"
BEFORE = ("A bucket", "A table", "Import", "Append", "Merge")
BUCKET = "lake-of-airflow"


@pytest.fixture
def airflow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AirflowCommands]:
    with AirflowCommands(tmp_path_factory.mktemp("airflow")) as found:
        yield found


@pytest.fixture
def reader(
    airflow: AirflowCommands,
    s3_server: S3Server,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Reader:
    """Somebody who has come as far as the section on Airflow."""
    s3_server.make_bucket(BUCKET)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PWD", str(tmp_path))
    monkeypatch.setattr("getpass.getuser", lambda: "ana")
    monkeypatch.setattr("socket.gethostname", lambda: "laptop")
    real = s3_server.env()
    here = {
        "/home/ana": str(tmp_path),
        "$HOME/firnline": str(REPO),
        "http://localhost:9000": s3_server.endpoint,
        "s3://lake": f"s3://{BUCKET}",
        'Bucket="lake"': f'Bucket="{BUCKET}"',
    }
    return Reader(
        programs={"firnline": lambda given: inside(capsys)(*given), "airflow": airflow.run},
        printed=lambda: capsys.readouterr().out,
        env=lambda name, value: monkeypatch.setenv(name, real.get(name, value)),
        instead=here,
    )


def test_the_airflow_of_the_tutorial(reader: Reader) -> None:
    text = PAGE.read_text(encoding="utf-8")
    found = list(blocks(text, [*BEFORE, "Airflow"]))
    # What follows are runs of a DAG, which others test: they take longer than all before.
    set_up = next(n for n, block in enumerate(found, 1) if "connections add" in block.body)
    reader.follow(found if FULL else found[:set_up])
    if WRITING:
        reader.write(PAGE)
