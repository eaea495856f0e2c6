"""DAG files read in this process: which pool their tasks hold, when their reports come, and params.

The params are those of docs/airflow.md; that every other generated table is not stale stands in
tests/unit/tools/test_reference.py.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from airflow.sdk import DAG

from firnline.operations.dag_ids import FLEET
from firnline.operations.registry import DAGS
from firnline.settings.sections import OWN_DAGS
from tools.reference import dags as reference
from tools.reference.__main__ import DOCS, problems
from tools.reference.dags import load_dags, params_of

TABLES = ("first", "second")
REPORTED = {"delete_where", "erase", "merge", "replace", "rewrite_partitions", "update_where"}
"""What a Spark job does and a task after it reports."""


@pytest.fixture(scope="module")
def made() -> dict[str, DAG]:
    """The DAGs of two tables, by id."""
    return load_dags(TABLES)


@pytest.mark.long
def test_each_operation_is_one_dag_and_one_of_each_table_that_asks_for_it(
    made: dict[str, DAG],
) -> None:
    shared = {each.dag for each in DAGS}
    own = {f"{operation}__{t}" for operation in (*OWN_DAGS, "orphan_sweep") for t in TABLES}
    assert set(made) == {FLEET} | shared | own


def test_what_works_on_a_table_holds_a_pool_of_that_table(made: dict[str, DAG]) -> None:
    for name, dag in made.items():
        if name == FLEET:
            continue
        operation, _, table = name.partition("__")
        pools = {task.pool for task in dag.tasks if task.pool != "default_pool"}
        # An import is an append, which waits for nobody.
        expected = [] if operation == "import" else [table or "firnline"]
        assert [pool.partition(".")[0] for pool in pools] == expected, name


def test_a_report_comes_after_a_job_that_failed_too(made: dict[str, DAG]) -> None:
    """As a tear-down, which does not make a success of the run either."""
    reports = {
        name: dag.task_dict["report"] for name, dag in made.items() if dag.has_task("report")
    }
    assert {name.partition("__")[0] for name in reports} == REPORTED
    assert [name for name, report in reports.items() if not report.is_teardown] == []


def test_every_param_has_a_description(made: dict[str, DAG]) -> None:
    params = [each for found in params_of(made).values() for each in found]
    assert [f"{each.dag}.{each.name}" for each in params if not each.meaning] == []


def test_the_params_of_docs_airflow_md_are_those_of_the_dags(
    made: dict[str, DAG], tmp_path: Path
) -> None:
    blocks = reference.blocks_of(made)
    assert problems(DOCS / "airflow.md", blocks) == []
    text = (DOCS / "airflow.md").read_text(encoding="utf-8")
    edited = tmp_path / "airflow.md"
    edited.write_text(
        text.replace("| `max_bytes` | size or integer, at least 0 |", "| `max_bytes` | text |")
    )
    (line,) = problems(edited, blocks)
    assert line.startswith("docs/airflow.md: the block 'params of merge' is stale")


def test_the_tables_of_params_speak_of_every_dag(made: dict[str, DAG]) -> None:
    assert set(reference.blocks_of(made)) == {
        "params of fleet",
        *(f"params of {each.dag}" for each in DAGS),
    }


def test_a_form_names_no_task_that_its_dag_does_not_have(made: dict[str, DAG]) -> None:
    for name, dag in made.items():
        texts = [str(dag.params.get_param(each).schema) for each in dag.params]
        named = {task for text in texts for task in re.findall(r"log of `(\w+)`", text)}
        assert named <= set(dag.task_ids), name
