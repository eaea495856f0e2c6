"""An operation is described once, and everything that it names is there."""

from __future__ import annotations

from importlib.util import find_spec

import msgspec
import pytest

from firnline.airflow.making import graph_of
from firnline.cli.app import root_command
from firnline.operations.operation import AnyDag
from firnline.operations.pools import pool_of_run
from firnline.operations.registry import DAGS
from firnline.settings.sections import ALL_OPERATIONS
from tools.bootstrap import REPO

BY_NAME = pytest.mark.parametrize("operation", DAGS, ids=lambda each: each.name)


def test_every_kind_of_dag_is_one_operation() -> None:
    assert sorted(each.dag for each in DAGS) == sorted(ALL_OPERATIONS)
    assert len({each.name for each in DAGS}) == len(DAGS)


@BY_NAME
def test_its_package_its_command_its_dag_and_its_job_are_there(
    operation: AnyDag,
) -> None:
    assert find_spec(operation.module) is not None
    assert operation.command in root_command().commands
    assert graph_of(operation.dag).make is not None
    # A deep check reads footers by Spark, beside the check that its task does itself.
    has_job = (REPO / "spark_jobs" / f"{operation.name}.py").is_file()
    assert has_job == (operation.job or operation.name == "verify")


@BY_NAME
def test_it_can_be_planned_unless_it_only_looks(operation: AnyDag) -> None:
    fields = {field.name for field in msgspec.structs.fields(operation.options)}
    assert (operation.load().preview is None) == operation.only_looks
    assert ("dry_run" in fields) == (not operation.only_looks)


@BY_NAME
def test_what_replaces_or_deletes_holds_a_lock_of_its_table(
    operation: AnyDag,
) -> None:
    pool = None if operation.dag == "import" else f"flights.{operation.lock}"
    assert pool_of_run(f"{operation.dag}__flights", None) == pool
    assert operation.title[0].isupper()
    assert not operation.title.endswith(".")
