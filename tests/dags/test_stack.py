from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from firnline_dev.airflow_home import StackOptions
from firnline_dev.airflow_stack import AirflowStack
from firnline_dev.processes import MARK

DAG = '''
"""A DAG of one task that says who runs it, and leaves a process behind."""
import os
import subprocess

from airflow.sdk import Param, dag, task


@dag(dag_id="trivial", schedule=None, params={"word": Param("none", type="string")})
def trivial():
    @task(pool="narrow")
    def say(params=None):
        # As a Spark driver whose supervisor was killed: a session of its own, nobody's child.
        null = subprocess.DEVNULL
        quiet = {"stdin": null, "stdout": null, "stderr": null}
        subprocess.Popen(["sleep", "600"], start_new_session=True, **quiet)
        return {"word": params["word"], "from_env": os.environ["SAY"]}

    say()


trivial()
'''


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AirflowStack]:
    home = tmp_path_factory.mktemp("airflow")
    for folder in ("dags", "plugins"):
        (home / folder).mkdir()
    (home / "dags" / "trivial.py").write_text(DAG)
    pools = home / "pools.json"
    pools.write_text(json.dumps({"narrow": {"slots": 1, "description": "", "include_deferred": 0}}))
    options = StackOptions(
        dags=home / "dags", plugins=home / "plugins", env={"SAY": "hello"}, pools=pools
    )
    stack = AirflowStack(home, options)
    with stack:
        yield stack
    assert stack.programs.alive() == []
    assert marked(stack.programs.mark) == []


def marked(mark: str) -> list[psutil.Process]:
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get(MARK) == mark:
                found.append(process)
        except psutil.Error:
            continue
    return found


def test_a_triggered_run_succeeds_in_its_pool(stack: AirflowStack) -> None:
    run = stack.api.trigger("trivial", {"word": "firn"})
    assert stack.api.wait_run("trivial", run) == "success", stack.task_log("trivial", run, "say")
    assert stack.api.task_states("trivial", run) == {"say": "success"}
    assert stack.api.xcom("trivial", run, "say") == {"word": "firn", "from_env": "hello"}
    assert stack.api.pools()["narrow"]["slots"] == 1
    assert stack.api.import_errors() == {}


def test_a_process_that_a_task_left_behind_belongs_to_the_stack(stack: AirflowStack) -> None:
    run = stack.api.trigger("trivial")
    assert stack.api.wait_run("trivial", run) == "success"
    names = [process.name() for process in stack.programs.alive()]
    assert "sleep" in names


def test_a_stack_that_cannot_start_says_why_and_leaves_nothing(tmp_path: Path) -> None:
    broken = StackOptions(
        dags=tmp_path, plugins=tmp_path, config={"core": {"executor": "no.such.Executor"}}
    )
    stack = AirflowStack(tmp_path / "home", broken)
    with pytest.raises(Exception, match=r"no\.such"), stack:
        pass
    assert stack.programs.alive() == []
