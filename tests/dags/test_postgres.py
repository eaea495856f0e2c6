"""PostgreSQL servers: what stays of them, who is let in, and by which version."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from firnline.errors import EnvironmentFaultError
from tools.airflow_api import NEARBY_SECONDS, wait_until
from tools.postgres import Postgres, check_enterable, find_programs


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that every user may enter, unlike those of pytest."""
    if find_programs() is None:
        pytest.skip("there is no PostgreSQL on this machine")
    found = Path(tempfile.mkdtemp(prefix="firnline-test-"))
    found.chmod(0o755)
    yield found
    shutil.rmtree(found)


def ask(server: Postgres, statement: str) -> list[tuple[object, ...]]:
    with psycopg.connect(f"postgresql://{server.address}") as database:
        found = database.execute(statement)
        return found.fetchall() if found.description else []


def test_data_in_a_folder_stays_and_each_start_has_a_password_of_its_own(folder: Path) -> None:
    with Postgres(folder=folder / "server") as first:
        ask(first, "create table kept as select 7 as n")
        old = first.address.partition("@")[0]
    assert first.address
    with Postgres(folder=folder / "server") as second:
        assert ask(second, "select n from kept") == [(7,)]
        where = second.address.partition("@")[2]
        with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
            psycopg.connect(f"postgresql://{old}@{where}")


def test_a_server_that_is_killed_is_noticed_and_keeps_what_was_written(folder: Path) -> None:
    with Postgres(folder=folder / "server") as server:
        ask(server, "set synchronous_commit = on; create table kept as select 7 as n")
        assert not server.ended()
        os.kill(server.pid, signal.SIGKILL)
        assert wait_until(server.ended, every=NEARBY_SECONDS)
    with Postgres(folder=folder / "server") as again:
        assert ask(again, "select n from kept") == [(7,)]


def test_half_made_data_is_made_again(folder: Path) -> None:
    (folder / "server" / "new" / "base").mkdir(parents=True)
    with Postgres(folder=folder / "server") as server:
        assert ask(server, "select 1") == [(1,)]


def test_data_of_a_version_that_is_not_here_is_left_alone(folder: Path) -> None:
    data = folder / "server" / "data"
    data.mkdir(parents=True)
    (data / "PG_VERSION").write_text("9\n")
    server = Postgres(folder=folder / "server")
    with pytest.raises(EnvironmentFaultError, match="PostgreSQL 9, which has made"):
        server.start()
    assert [path.name for path in data.iterdir()] == ["PG_VERSION"]


def test_a_folder_that_only_root_may_enter_is_refused_by_name(tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    if os.geteuid() != 0:
        # The server runs as who owns the folder.
        check_enterable(closed)
        return
    with pytest.raises(EnvironmentFaultError, match=f"may not enter {closed}"):
        check_enterable(closed)
