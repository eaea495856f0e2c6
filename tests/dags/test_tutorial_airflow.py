"""docs/tutorial.md: its section on Airflow, with the commands of a real Airflow on SQLite."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.dags.commands import AirflowCommands
from tests.support.cli import inside
from tests.support.effort import FULL
from tests.support.laptop import as_ana, laptop
from tests.support.pages import WRITING, Reader, blocks
from tools.bootstrap import REPO

PAGE = REPO / "docs" / "tutorial.md"
BEFORE = ("A bucket", "A table", "Import", "Append", "Merge")


@pytest.fixture
def airflow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AirflowCommands]:
    with AirflowCommands(tmp_path_factory.mktemp("airflow")) as found:
        yield found


@pytest.fixture
def reader(
    airflow: AirflowCommands,
    s3_server: object,  # skips, with its reason, where there can be none
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Iterator[Reader]:
    """Somebody who has come as far as the section on Airflow."""
    here = tmp_path / "ana"
    here.mkdir()
    as_ana(here, monkeypatch)
    # boto3 would keep the keys of another test in this process.
    monkeypatch.setattr("boto3.DEFAULT_SESSION", None)
    with laptop(tmp_path / "firnline") as at:
        yield Reader(
            programs={
                "firnline": lambda given: inside(capsys)(*given),
                "airflow": airflow.run,
                "make": at.make,
            },
            printed=lambda: capsys.readouterr().out,
            env=monkeypatch.setenv,
            instead={"/home/ana": str(here), "$HOME/firnline": str(REPO), **at.instead()},
        )


def test_the_airflow_of_the_tutorial(reader: Reader) -> None:
    text = PAGE.read_text(encoding="utf-8")
    found = list(blocks(text, [*BEFORE, "Airflow"]))
    # What follows are runs of a DAG, which others test: they take longer than all before.
    set_up = next(n for n, block in enumerate(found, 1) if "connections add" in block.body)
    reader.follow(found if FULL else found[:set_up])
    if WRITING:
        reader.write(PAGE)
