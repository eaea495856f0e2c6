"""Operators without Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from firnline.airflow import Cleanup, Rebuild, Restore, Ttl
from firnline.airflow.operators.in_task import InTaskOperator
from firnline.log.txn_file import RunIdentity
from firnline.operations.drop.run import run_drop
from firnline.operations.fields import option_fields
from firnline.operations.operation import Work
from firnline.operations.options import DropOptions
from firnline.state.history import history
from firnline.table import Table
from tests.dags.filled import fill, live_rows
from tests.support.signatures import REQUIRED, arguments_of
from tests.support.their_dags import context_of, tables

SETTINGS = """
tables:
  events: {{root: 'file://{folder}/events', partition: 'day=.*', cleanup: {{grace: 1s}}}}
"""


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Table:
    found = tables(tmp_path, monkeypatch, SETTINGS)
    fill(found, 1)
    return found


@pytest.mark.parametrize("operator", [Cleanup, Rebuild, Restore, Ttl])
def test_an_operator_has_the_options_of_its_operation(operator: type[InTaskOperator]) -> None:
    about: Any = operator.kind.about
    offered = {f.name: f.default for f in option_fields(about.options) if f.option.form}
    ours = {"table", "dry_run", *(["again"] if about.once else [])}
    found = arguments_of(operator)
    assert found.keys() - ours == offered.keys()
    for name, default in offered.items():
        # A restore asks for partitions, as its DAG does.
        if found[name] is not REQUIRED:
            assert found[name] == default, name


def dropped(table: Table) -> None:
    options = DropOptions(partitions=("day=a",))
    run_drop(Work(table, RunIdentity(dag_id="by hand", run_id="1")), options)


def test_a_restore_takes_a_number_that_a_template_made(table: Table) -> None:
    before = live_rows(table)
    dropped(table)
    task: Any = Restore(table="events", to="0", partitions="*")
    figures = task.execute(context_of(task))
    assert (live_rows(table), figures["transactions"]) == (before, [2])


@pytest.mark.long
def test_a_clean_up_with_nothing_to_delete_succeeds(table: Table) -> None:
    task = Cleanup(table="events")
    context = context_of(task)
    assert task.execute(context)["nothing_to_delete"] is True
    assert context["outlet_events"].added == []


@pytest.mark.long
def test_a_clean_up_deletes_and_reports(table: Table) -> None:
    dropped(table)
    table.clock.sleep(1.2)
    task = Cleanup(table="events")
    context = context_of(task)
    figures = task.execute(context)
    assert figures["parts"] == 1
    assert [name for name, _ in context["outlet_events"].added] == ["events:upkeep"]
    assert [header.op for header in history(table)] == ["cleanup", "drop"]
