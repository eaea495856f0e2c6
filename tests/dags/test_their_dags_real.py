"""A task of ours in a DAG that is not, by a real scheduler and a real Spark."""

from __future__ import annotations

import pytest

from firnline.state.history import history
from tests.dags.filled import live_keys
from tests.dags.maintained import Maintained, Run


@pytest.fixture(scope="module")
def run(maintained: Maintained) -> Run:
    api = maintained.stack.api
    return Run(maintained.stack, "theirs", api.trigger("theirs", {})).ended()


def test_it_merges_after_the_load_in_the_pool_of_the_table(
    maintained: Maintained, run: Run
) -> None:
    assert run.tasks == dict.fromkeys(("load", "merge", "tell"), "success"), run.log("merge")
    assert (run.task("merge")["pool"], run.task("load")["pool"]) == ("loaded.merge", "narrow")
    table = maintained.table("loaded")
    assert len(live_keys(table)) == 2
    assert {(h.run.dag_id, h.run.run_id, h.run.task_id) for h in history(table)} == {
        ("theirs", run.run_id, "merge")
    }


def test_the_tasks_after_it_have_its_figures(run: Run) -> None:
    assert run.xcom("tell") == run.xcom("merge")["counts"]["parts_in"] == 7


def test_what_changed_is_an_event_on_the_asset_of_the_table(
    maintained: Maintained, run: Run
) -> None:
    events = maintained.stack.api.call("GET", "/assets/events", source_dag_id="theirs")
    assert [event["name"] for event in events["asset_events"]] == ["loaded:upkeep"]
    again = Run(maintained.stack, "theirs", maintained.stack.api.trigger("theirs", {})).ended()
    assert again.state == "success"
