"""The ids of DAGs, and the table of a run."""

from __future__ import annotations

import pytest

from firnline.operations.dag_ids import FLEET, DagId, dag_id, is_ours, parse_dag_id
from firnline.operations.registry import OPERATIONS


@pytest.mark.parametrize("table", [None, "flights", "a__b.c-d", "merge"])
def test_an_id_is_parsed_as_it_was_made(table: str | None) -> None:
    for operation in OPERATIONS:
        expected = None if table is None and not operation.by_hand else DagId(operation.dag, table)
        assert parse_dag_id(dag_id(operation.dag, table)) == expected


@pytest.mark.parametrize("text", ["", "__", "flights", "fleet__merge", "restore__", "Restore"])
def test_the_dags_of_others_are_not_taken_for_ours(text: str) -> None:
    assert parse_dag_id(text) is None
    assert is_ours(text) is (text == FLEET)


def test_the_id_names_the_table_or_else_the_configuration_does() -> None:
    assert DagId("merge", "a").table_of({"table": "b"}) == "a"
    assert DagId("restore", None).table_of({"table": "b"}) == "b"
    assert DagId("restore", None).table_of(None) is None
