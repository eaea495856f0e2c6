"""Merges by a real scheduler and a real Spark: what a run does, shows, keeps secret and refuses."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import psutil
import pytest

from firnline.errors import UsageError
from firnline.state.history import history
from tests.dags.filled import Row, fill, live_keys, live_rows
from tests.dags.keeper import store_connection
from tests.dags.maintained import Maintained, Run


class ArgumentLists(threading.Thread):
    """Collects the command lines of all processes, as ``ps`` shows them, until it is stopped."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.seen: set[str] = set()
        self.stopped = threading.Event()

    def run(self) -> None:
        # A look takes 20 ms of CPU, and a job's programs live for seconds.
        while not self.stopped.wait(0.3):
            for process in psutil.process_iter(["cmdline"]):
                self.seen.add(" ".join(process.info["cmdline"] or []))


class Merged:
    """One merge of the table whose store only an Airflow connection opens."""

    def __init__(self, maintained: Maintained) -> None:
        table = maintained.table("secret")
        self.keys_before, self.rows_before = live_keys(table), live_rows(table)
        watcher = ArgumentLists()
        watcher.start()
        self.run: Run = maintained.merge("secret").ended()
        watcher.stopped.set()
        self.command_lines = watcher.seen
        self.keys: list[str] = live_keys(table)
        self.rows: list[Row] = live_rows(table)
        self.history = history(table)


@pytest.fixture(scope="module", autouse=True)
def broken(maintained: Maintained) -> Run:
    """The merge of a table with a part that cannot be read, begun beside the other."""
    table = maintained.table("broken")
    spoilt = next(key for key in live_keys(table) if "day=a" in key)
    folder = Path(table.settings.root.removeprefix("file://")).parent
    (folder / spoilt).write_bytes(b"PAR1 this is no Parquet file PAR1")
    return maintained.merge("broken")


@pytest.fixture(scope="module")
def merged(maintained: Maintained) -> Merged:
    return Merged(maintained)


def test_a_merge_makes_few_parts_of_many_and_changes_no_row(merged: Merged) -> None:
    assert merged.run.state == "success", merged.run.log("merge")
    assert merged.run.tasks == dict.fromkeys(("plan", "merge", "report"), "success")
    assert (len(merged.keys_before), len(merged.keys)) == (12, 2)
    assert merged.rows == merged.rows_before
    assert len(merged.rows) == 600


def test_the_log_of_the_job_is_for_a_person(merged: Merged) -> None:
    log = merged.run.log("merge")
    # Of Spark's own lines only those from before the driver takes its settings.
    assert log.count(" INFO ") == log.count(" INFO SparkContext: ") < 5
    assert "counts: rows_in: 600" in log
    assert '{\\"table' not in log
    Path("/tmp/merge.log").write_text(log)


def test_plan_and_report_hand_their_figures_on(merged: Merged) -> None:
    plan = merged.run.xcom("plan")
    assert (plan["seq"], plan["parts_in"], plan["parts_out"]) == (0, 12, 2)
    report = merged.run.xcom("report")
    assert report["transactions"] == [header.seq for header in reversed(merged.history)]
    assert report["counts"]["rows_in"] == report["counts"]["rows_out"] == 600
    assert report["partitions"] == ["day=a", "day=b"]


def test_the_table_s_history_says_which_run_it_was(merged: Merged) -> None:
    for header in merged.history:
        assert header.op == "merge"
        assert (header.run.dag_id, header.run.run_id) == (merged.run.dag_id, merged.run.run_id)
        assert header.run.try_number == 1
        assert header.run.user
        assert header.run.host


def test_a_secret_is_in_no_log_no_field_no_argument_list_and_no_database(
    maintained: Maintained, merged: Merged
) -> None:
    connection = store_connection(maintained.server)
    assert any("spark_jobs/merge.py" in line for line in merged.command_lines)
    shown = {f"ps: {line}": line.encode() for line in merged.command_lines}
    shown["rendered"] = str(
        maintained.stack.api.tasks(merged.run.dag_id, merged.run.run_id)
    ).encode()
    kept = maintained.kept()
    assert any("task_id=merge" in where for where in kept)
    if maintained.stack.options.database is not None:
        assert any(where.endswith(" of connection") for where in kept)
    shown |= kept
    secret = connection["password"].encode()
    assert [where for where, content in shown.items() if secret in content] == []


def test_a_merge_reports_on_the_asset_of_upkeep_and_wakes_nobody(
    maintained: Maintained, merged: Merged
) -> None:
    events = maintained.stack.api.call("GET", "/assets/events", source_dag_id=merged.run.dag_id)
    (event,) = events["asset_events"]
    assert event["name"] == "secret:upkeep"
    assert event["extra"]["counts"] == merged.run.xcom("report")["counts"]
    assert maintained.runs("secret", "asset_triggered") == []


def test_an_event_of_the_table_s_asset_starts_a_run_that_looks_for_itself(
    maintained: Maintained, merged: Merged
) -> None:
    api = maintained.stack.api
    before = len(maintained.runs("idle", "asset_triggered"))
    assets = api.call("GET", "/assets", name_pattern="idle")["assets"]
    (asset,) = (each for each in assets if each["name"] == "idle")
    api.call("POST", "/assets/events", {"asset_id": asset["id"], "extra": {"rows": 1}})
    run = maintained.first_run("idle", "asset_triggered", before)
    assert run.tasks["plan"] == "success"
    assert "nothing to do" in run.log("plan")


def test_with_nothing_to_do_no_jvm_starts_and_the_reasons_are_told(maintained: Maintained) -> None:
    watcher = ArgumentLists()
    watcher.start()
    run = maintained.merge("idle").ended()
    watcher.stopped.set()
    assert run.state == "success"
    assert run.tasks == {"plan": "success", "merge": "skipped", "report": "skipped"}
    assert run.xcom("plan")["left_alone"] == {
        "waits until 4 parts of about its size are there, or no append for 2d": 2
    }
    assert "parts left alone 2: reason waits until 4 parts" in run.log("plan")
    assert not [line for line in watcher.seen if "spark_jobs/merge.py" in line and "idle" in line]


def test_a_dry_run_shows_the_plan_and_changes_nothing(maintained: Maintained) -> None:
    table = maintained.table("bounded")
    before = live_keys(table)
    run = maintained.merge("bounded", {"dry_run": True, "partitions": ["day=a"]}).ended()
    assert run.tasks == {"plan": "success", "merge": "skipped", "report": "skipped"}
    plan = run.xcom("plan")
    assert plan["dry_run"] is True
    assert [group["partition"] for group in plan["groups"]] == ["day=a"]
    assert live_keys(table) == before
    assert history(table) == []


@pytest.mark.parametrize(
    "conf",
    [{"max_bytes": "ten"}, {"max_bytes": -5}, {"partitions": "day=a"}, {"dry_run": "yes"}],
    ids=str,
)
def test_a_param_of_the_wrong_form_is_refused_before_there_is_a_run(
    maintained: Maintained, conf: dict[str, Any]
) -> None:
    (name,) = conf
    with pytest.raises(UsageError, match=f"400.*Invalid input for param {name}"):
        maintained.merge("bounded", conf)


@pytest.mark.parametrize(
    ("conf", "sentence"),
    [
        ({"dryrun": True}, "a merge has no param dryrun; use partitions, max_bytes, full, dry_run"),
        (
            {"partitions": ["day=zz"]},
            "no partition of the table matches 'day=zz'; the first partitions are: ",
        ),
    ],
    ids=["unknown param", "unknown partition"],
)
def test_a_param_that_cannot_be_right_fails_the_run_at_once_in_one_sentence(
    maintained: Maintained, conf: dict[str, Any], sentence: str
) -> None:
    run = maintained.merge("bounded", conf).ended()
    assert run.state == "failed"
    assert run.error("plan").startswith(sentence)
    assert run.task("plan")["try_number"] == 1


def test_a_connection_that_is_missing_is_named_with_the_command_that_creates_it(
    maintained: Maintained,
) -> None:
    store, cluster = maintained.merge("unconnected"), maintained.merge("clusterless")
    assert store.ended().state == cluster.ended().state == "failed"
    assert store.error("plan").startswith("there is no Airflow connection 'nobody_made_it', ")
    assert "`airflow connections add nobody_made_it --conn-type aws" in store.error("plan")
    assert cluster.error("merge").startswith("there is no Airflow connection 'no_cluster', ")
    assert "`airflow connections add no_cluster --conn-type spark" in cluster.error("merge")
    assert cluster.task("merge")["try_number"] == 1


def test_a_group_that_cannot_be_read_is_named_and_what_is_done_is_reported(
    maintained: Maintained, broken: Run
) -> None:
    run, table = broken.ended(), maintained.table("broken")
    assert run.state == "failed"
    assert run.tasks == {"plan": "success", "merge": "failed", "report": "success"}
    assert "1 of 2 groups of table broken could not be merged" in run.error("merge")
    assert run.task("merge")["try_number"] == 1
    assert run.xcom("report")["partitions"] == ["day=b"]
    assert len([key for key in live_keys(table) if "day=b" in key]) == 1


def test_what_was_appended_after_a_merge_is_merged_by_the_next(maintained: Maintained) -> None:
    # Nothing but the plan is looked at: the merge itself is proven above.
    fill(maintained.table("bounded"), 1)
    run = maintained.merge("bounded", {"dry_run": True}).ended()
    assert run.xcom("plan")["parts_in"] == 12


def test_the_clock_starts_runs_too(maintained: Maintained) -> None:
    assert maintained.first_run("idle", "scheduled").state == "success"
    # Enough of it.
    maintained.stack.api.call("PATCH", "/dags/merge__idle", {"is_paused": True})
