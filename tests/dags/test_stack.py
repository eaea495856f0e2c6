"""The stack tool itself: what runs in it, what belongs to it, what it leaves behind."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import psycopg
import pytest

from firnline.operations.pools import pools_json
from firnline.settings.load import load_settings
from tests.dags.maintained import Maintained, Run
from tests.support.effort import FULL
from tools.airflow_api import NEARBY_SECONDS, wait_until
from tools.airflow_home import StackOptions
from tools.airflow_stack import AirflowStack
from tools.bootstrap import REPO
from tools.processes import MARK, Programs

# As a task's process: it leaves one behind in a session of its own, nobody's child.
LEAVING = """
import subprocess, sys, time
subprocess.Popen(["sleep", "3600"], start_new_session=True)
print("left", flush=True)
time.sleep(3600)
"""


def marked(mark: str) -> list[psutil.Process]:
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get(MARK) == mark:
                found.append(process)
        except psutil.Error:
            continue
    return found


@pytest.fixture(scope="module")
def said(maintained: Maintained) -> Run:
    """A run of the DAG ``trivial``."""
    api = maintained.stack.api
    return Run(maintained.stack, "trivial", api.trigger("trivial", {"word": "firn"})).ended()


def test_a_triggered_run_succeeds_in_its_pool(maintained: Maintained, said: Run) -> None:
    assert said.state == "success", said.log("say")
    assert said.tasks == {"say": "success"}
    found = said.xcom("say")
    assert (found["word"], found["from_env"]) == ("firn", "hello")
    assert said.task("say")["pool"] == "narrow"
    assert maintained.stack.api.pools()["narrow"]["slots"] == 1
    assert maintained.stack.api.import_errors() == {}


CROWD = 50 if FULL else 20
"""Runs at once: more than Airflow's own settings of its API server stand."""


def test_many_runs_that_are_triggered_at_once_all_succeed_in_their_first_try(
    maintained: Maintained,
) -> None:
    if maintained.stack.options.database is None:
        pytest.skip("many runs at once need PostgreSQL")
    api = maintained.stack.api
    api.wait_dag("crowd")
    with ThreadPoolExecutor(CROWD) as threads:
        ids = list(threads.map(lambda _: api.trigger("crowd"), range(CROWD)))
    runs = [Run(maintained.stack, "crowd", run_id).ended() for run_id in ids]
    assert [run.state for run in runs] == ["success"] * CROWD
    assert [run.task("do")["try_number"] for run in runs] == [1] * CROWD


@pytest.mark.parametrize("dag_id", ["at_once", "woken"])
def test_a_run_that_was_due_before_the_stack_was_ready_succeeds_in_its_first_try(
    maintained: Maintained, dag_id: str
) -> None:
    api = maintained.stack.api
    assert wait_until(lambda: dag_id in api.dag_ids() and bool(api.runs(dag_id)))
    run = Run(maintained.stack, dag_id, api.runs(dag_id)[0]["dag_run_id"]).ended()
    assert (run.state, run.task("do")["try_number"]) == ("success", 1), run.log("do")


def test_airflow_imports_the_pools_that_firnline_prints(maintained: Maintained) -> None:
    # The stack itself has them set by the API.
    pools = pools_json(load_settings(maintained.settings_file))
    imported = {f"imported.{name}": pool for name, pool in pools.items() if "idle" in name}
    file = maintained.settings_file.with_name("imported.json")
    file.write_text(json.dumps(imported), encoding="utf-8")
    maintained.stack.airflow("pools", "import", str(file))
    found = maintained.stack.api.pools()
    for name, pool in imported.items():
        assert {key: found[name][key] for key in pool} == pool


def test_a_process_that_a_task_left_behind_belongs_to_the_stack(
    maintained: Maintained, said: Run
) -> None:
    left = psutil.Process(said.xcom("say")["child"])
    assert left.name() == "sleep"
    assert left in maintained.stack.programs.alive()
    left.kill()


def test_programs_end_with_all_that_they_have_left_behind(tmp_path: Path) -> None:
    programs = Programs(f"{tmp_path}", tmp_path / "logs")
    programs.start("leaving", [sys.executable, "-c", LEAVING], os.environ)
    log = tmp_path / "logs" / "leaving.log"
    assert wait_until(lambda: "left" in log.read_text(), every=NEARBY_SECONDS)
    assert sorted(process.name() for process in programs.alive())[-1] == "sleep"
    assert len(marked(programs.mark)) == 2
    assert programs.stop() == []
    assert programs.alive() == []
    assert marked(programs.mark) == []


def test_a_stack_that_cannot_start_says_why_and_leaves_nothing(tmp_path: Path) -> None:
    broken = StackOptions(
        dags=tmp_path,
        plugins=tmp_path,
        config={"logging": {"logging_config_class": "no.such.CONFIG"}},
    )
    stack = AirflowStack(tmp_path / "home", broken)
    with pytest.raises(Exception, match=r"no\.such"), stack:
        pass
    assert stack.programs.alive() == []


@pytest.mark.full("starts an Airflow of its own")
def test_the_airflow_of_a_run_ends_with_it_even_if_it_is_killed(tmp_path: Path) -> None:
    run = subprocess.Popen(["sleep", "3600"])
    command = [sys.executable, "-m", "tests.dags.keeper", str(tmp_path), str(run.pid)]
    keeper = subprocess.Popen(command, cwd=REPO)
    written = tmp_path / "state.json"
    assert wait_until(lambda: written.exists() or keeper.poll() is not None)
    state = json.loads(written.read_text())
    assert len(marked(state["mark"])) > 3
    run.kill()
    run.wait()
    assert keeper.wait() == 0
    assert marked(state["mark"]) == []
    if state["database"] is not None:
        with pytest.raises(psycopg.OperationalError):
            psycopg.connect(f"postgresql://{state['database']}")
