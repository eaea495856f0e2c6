"""Which database a home folder of Airflow gets, and that it keeps it."""

from __future__ import annotations

from pathlib import Path

import pytest

from firnline.errors import EnvironmentFaultError
from tools import databases
from tools.databases import database_of

TEMPLATE = Path("/template")


def no_server() -> Path:
    raise EnvironmentFaultError("there is no PostgreSQL on this machine", next_step="install it")


@pytest.fixture(autouse=True)
def anybody_may_enter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(databases, "check_enterable", lambda _: None)


def test_a_new_home_gets_postgresql(tmp_path: Path) -> None:
    found = database_of(tmp_path / "home", lambda: TEMPLATE)
    assert found.server is not None
    assert found.words == "PostgreSQL"


def test_a_home_with_a_server_keeps_it_and_needs_no_template(tmp_path: Path) -> None:
    (tmp_path / "postgres" / "data").mkdir(parents=True)
    # What an Airflow without a server would have left does not matter.
    (tmp_path / "airflow.db").touch()
    assert database_of(tmp_path, no_server).server is not None


def test_a_home_that_was_made_with_sqlite_keeps_its_runs_and_says_so(tmp_path: Path) -> None:
    (tmp_path / "airflow.db").touch()
    found = database_of(tmp_path, lambda: TEMPLATE)
    assert found.server is None
    assert found.words == f"SQLite: {tmp_path} was made with it; good for a few runs at a time"


def test_without_a_server_it_is_sqlite_and_says_why(tmp_path: Path) -> None:
    found = database_of(tmp_path, no_server)
    assert found.server is None
    assert found.words.startswith("SQLite: there is no PostgreSQL on this machine; ")


def test_a_new_home_that_the_server_may_not_enter_gets_sqlite(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(folder: Path) -> None:
        raise EnvironmentFaultError(f"nobody may enter {folder}", next_step="move it")

    monkeypatch.setattr(databases, "check_enterable", refuse)
    assert database_of(tmp_path, lambda: TEMPLATE).words.startswith("SQLite: nobody may enter ")
    (tmp_path / "postgres" / "data").mkdir(parents=True)
    # Its runs are there: another database would lose them without a word.
    with pytest.raises(EnvironmentFaultError, match="nobody may enter"):
        database_of(tmp_path, lambda: TEMPLATE)
