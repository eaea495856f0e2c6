from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from firnline.airflow.runs import run_identity
from firnline.airflow.submit import SubmitJob
from firnline.airflow.tables import OneTable
from firnline.airflow.versions import AirflowException, AirflowFailException
from firnline.airflow.work import SparkWork
from firnline.commit.base import take_base
from firnline.errors import UsageError
from firnline.log.txn_file import RunIdentity
from firnline.mirror.delta.head import read_head
from firnline.operations.drop.run import run_drop
from firnline.operations.job_variables import OPTIONS_VARIABLE
from firnline.operations.operation import Work
from firnline.operations.options import DropOptions
from firnline.operations.properties.run import run_apply
from firnline.operations.registry import ERASE
from firnline.settings.load import TableSettings
from firnline.table import open_table
from tests.dags.filled import PARTITIONS, fill
from tests.support.airflow_context import run_context
from tests.support.tables import loaded, one
from tests.unit.airflow.test_submit import connect, submit_does

KEY = "somebody@example.com"


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """Of an operation that is given keys."""

    keys: tuple[str, ...]


class Keyed(SparkWork[Options]):
    """Takes keys."""

    about = replace(ERASE, name="keyed", only_looks=True, once=False, destroys=False)

    def __init__(self, instead: str | None = None) -> None:
        self.instead = instead

    def options(self, params: Any, *, dry_run: bool) -> Options:
        return Options(keys=(KEY,))

    def confidential(self, options: Options) -> str | None:
        return self.instead


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A spark-submit that writes down how it was called."""
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "java").touch()
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    connect(monkeypatch, "local[2]")
    submit_does(tmp_path, f'env > {tmp_path}/env; echo "$@" > {tmp_path}/args')
    return tmp_path


def submit(folder: Path, work: Keyed) -> tuple[str, str]:
    """The environment and the arguments that spark-submit saw."""
    settings = one(folder, "spark: {conn_id: cluster}")
    task = SubmitJob(task_id="erase", work=work, table=OneTable(settings), jobs=folder)
    task.execute(run_context(work))
    return (folder / "env").read_text(), (folder / "args").read_text()


def test_options_travel_in_the_driver_s_environment(cluster: Path) -> None:
    env, arguments = submit(cluster, Keyed())
    (line,) = [line for line in env.splitlines() if line.startswith(OPTIONS_VARIABLE)]
    assert json.loads(line.partition("=")[2]) == {"keys": [KEY]}
    assert KEY not in arguments
    assert "keyed.py t --dag-id=erase__t --run-id=manual__1 --try-number=1 --user=ana" in arguments
    assert "--name firnline erase t" in arguments


class Guarded(Keyed):
    """Is not permitted."""

    def permit(self, context: Any, settings: TableSettings) -> None:
        raise UsageError(f"nobody may do this to {settings.name}", next_step="ask somebody")


def test_what_is_not_permitted_is_not_submitted(cluster: Path) -> None:
    with pytest.raises(AirflowFailException, match="nobody may do this to t; ask somebody"):
        submit(cluster, Guarded())
    assert not (cluster / "args").exists()


def test_a_driver_elsewhere_gets_them_as_an_argument(
    cluster: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    connect(monkeypatch, "yarn", **{"deploy-mode": "cluster"})
    env, arguments = submit(cluster, Keyed())
    assert f'--options={{"keys":["{KEY}"]}}' in arguments
    assert OPTIONS_VARIABLE not in env


def test_what_nobody_may_read_is_not_sent_to_a_driver_elsewhere(
    cluster: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    connect(monkeypatch, "yarn", **{"deploy-mode": "cluster"})
    with pytest.raises(AirflowFailException) as raised:
        submit(cluster, Keyed("name a file of keys"))
    assert str(raised.value) == (
        "the Airflow connection 'cluster' asks for cluster mode, where what an erase of table t is "
        "to do would stand in argument lists; name a file of keys"
    )
    assert not (cluster / "args").exists()


def test_a_job_that_fails_half_way_is_in_the_mirror_as_far_as_it_came(cluster: Path) -> None:
    """The task of the mirrors does not run after it."""
    place = f"root: 'file://{cluster}/t', mirror: [delta], spark: {{conn_id: cluster}}"
    settings = loaded(cluster, f"tables: {{t: {{{place}}}}}").table("t")
    table = open_table(settings)
    fill(table, 2)
    run_apply(table, RunIdentity(run_id="by hand"))
    work = Keyed()
    context = run_context(work, plan={"seq": take_base(table).seq})
    drop = DropOptions(partitions=(PARTITIONS[0],))
    assert run_drop(Work(table, run_identity(context)), drop).transaction is not None
    submit_does(cluster, "exit 1")
    task = SubmitJob(task_id="erase", work=work, table=OneTable(settings), jobs=cluster)
    with pytest.raises(AirflowException):
        task.execute(context)
    head = read_head(table.store, table.paths)
    assert head is not None
    assert head.position.seq == take_base(table).seq
