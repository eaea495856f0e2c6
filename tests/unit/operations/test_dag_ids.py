"""The ids of DAGs, and the table of a run."""

from __future__ import annotations

import pytest

from firnline.operations.dag_ids import (
    FLEET,
    DagId,
    RunOf,
    dag_id,
    is_like_ours,
    parse_dag_id,
    run_of,
    table_in_run_id,
)
from firnline.operations.registry import DAGS
from firnline.settings.load import TableSettings


@pytest.mark.parametrize("table", ["t", "a__t", "x" * 130])
def test_the_table_is_found_in_the_id_of_a_run_as_it_was_made(table: str) -> None:
    run_id = RunOf("verify", {"table": table}).run_id("fleet__1")
    assert table_in_run_id(run_id, ["t", "a__t", "x" * 130, "y" * 130]) == table
    assert table_in_run_id(run_id, ["other"]) == ""


@pytest.mark.parametrize("table", [None, "flights", "a__b.c-d", "merge"])
def test_an_id_is_parsed_as_it_was_made(table: str | None) -> None:
    for operation in DAGS:
        assert parse_dag_id(dag_id(operation.dag, table)) == DagId(operation.dag, table)


@pytest.mark.parametrize("text", ["", "__", "flights", "fleet__merge", "restore__", "Restore"])
def test_the_dags_of_others_are_not_taken_for_ours(text: str) -> None:
    assert parse_dag_id(text) is None
    assert is_like_ours(text) is (text == FLEET)


def test_the_id_names_the_table_or_else_the_configuration_does() -> None:
    assert DagId("merge", "a").table_of({"table": "b"}) == "a"
    assert DagId("restore", None).table_of({"table": "b"}) == "b"
    assert DagId("restore", None).table_of(None) is None


def test_a_run_is_of_the_table_s_own_dag_if_it_has_one_or_else_names_the_table() -> None:
    given = {"name": "t", "root": "memory://t", "own_dags": ["merge"]}
    table = TableSettings.model_validate(given)
    assert run_of("merge", table) == RunOf("merge__t", {})
    assert run_of("merge", table).run_id("fleet__1") == "fleet__1"
    assert run_of("verify", table) == RunOf("verify", {"table": "t"})
    assert run_of("verify", table).run_id("fleet__1") == "fleet__1__t"


def test_the_ids_of_runs_of_tables_with_long_names_differ_and_fit_airflow() -> None:
    names = ("n" * 199 + "a", "n" * 199 + "b")
    first, second = (RunOf("merge", {"table": name}).run_id("f" * 100) for name in names)
    assert first != second
    assert max(len(first), len(second)) <= 250
