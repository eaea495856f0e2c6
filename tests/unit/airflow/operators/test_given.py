"""What an operator was given: an option that says nothing is refused before anything is done."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk import DAG

from firnline import airflow
from firnline.airflow import Delete, Merge, Replace, maintain
from firnline.airflow.operators.given import fields_of, rendered
from firnline.airflow.versions import AirflowFailException
from firnline.errors import UsageError
from firnline.operations.options import EraseOptions, MergeOptions, RestoreOptions
from tests.support.signatures import REQUIRED, arguments_of
from tests.support.their_dags import context_of, tables

OPERATORS = [name for name in airflow.__all__ if name[0].isupper()]
SETTINGS = """
tables:
  events: {{root: 'file://{folder}/events', partition: 'day=.*', ttl: {{keep: 1h, column: ts}}}}
"""
NEEDED: dict[str, Any] = {
    "table": "events",
    "where": "k = 1",
    "start": 0,
    "end": 1,
    "partitions": ["*"],
    "to": 1,
    "columns": ["k"],
    "set": ["v = 2"],
    "keys_file": "s3://lake/keys.csv",
}
EMPTY = "{{ params.none }}"
OPTIONS = [
    (name, option)
    for name in OPERATORS
    for option in arguments_of(getattr(airflow, name))
    if option != "table"
]
NOT_NONE = [
    (name, option)
    for name, option in OPTIONS
    if arguments_of(getattr(airflow, name))[option] is not None
]


@pytest.fixture(autouse=True)
def _dag(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    tables(tmp_path, monkeypatch, SETTINGS)
    with DAG("etl", schedule=None):
        yield


def made(name: str, **options: Any) -> Any:
    """An operator with the arguments that it needs, and others."""
    operator = getattr(airflow, name)
    needed = {
        option: NEEDED[option]
        for option, default in arguments_of(operator).items()
        if default is REQUIRED
    }
    return operator(**{**needed, **options})


def executed(task: Any, **params: Any) -> Any:
    """What the task returns, with its templates rendered as Airflow does it."""
    context = context_of(task)
    context["params"] = {"none": "", **params}
    task.render_template_fields(context)
    return task.execute(context)


def of(option: str) -> str:
    """How a sentence begins that names the option."""
    return f"^{option} is "


# --- empty texts, and None ------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "option"), OPTIONS)
def test_a_template_of_nothing_is_refused_for_each_option(name: str, option: str) -> None:
    with pytest.raises(AirflowFailException, match=f"{of(option)}empty; write a value"):
        executed(made(name, **{option: EMPTY}))


@pytest.mark.parametrize(("name", "option"), OPTIONS)
def test_an_empty_text_is_refused_when_the_dag_is_made(name: str, option: str) -> None:
    for nothing in ("", "  "):
        with pytest.raises(UsageError, match=f"{of(option)}empty; write a value"):
            made(name, **{option: nothing})


@pytest.mark.parametrize(("name", "option"), NOT_NONE)
def test_none_is_refused_where_it_is_not_what_an_option_has_without_a_value(
    name: str, option: str
) -> None:
    with pytest.raises(UsageError, match=f"{of(option)}None; write a value"):
        made(name, **{option: None})
    with pytest.raises(AirflowFailException, match=f"{of(option)}None; write a value"):
        executed(made(name, **{option: EMPTY}), none=None)


def test_one_text_of_a_list_is_as_good_as_the_list() -> None:
    with pytest.raises(AirflowFailException, match="one of partitions is empty"):
        executed(made("Delete", partitions=["day=1", EMPTY]))
    with pytest.raises(AirflowFailException, match="one of partitions is empty"):
        executed(made("Drop", partitions=[EMPTY]))


def test_what_is_not_given_stays_so() -> None:
    assert Merge(table="events", max_bytes=None).options["max_bytes"] is None
    replace = Replace(table="events", start=0, end=1, nothing=True, equal=None, mode=None)
    assert rendered(type(replace).fields(), replace.options)["equal"] == {}
    assert Delete(table="events", where="k = 1", partitions=[]).options["partitions"] == []


@pytest.mark.parametrize("name", OPERATORS)
def test_a_table_without_a_name_is_refused(name: str) -> None:
    for nothing in ("", None):
        with pytest.raises(UsageError, match=r"^table is (empty|None); write a value"):
            made(name, table=nothing)


def test_the_table_of_a_task_without_a_lock_may_not_be_rendered_empty() -> None:
    for name in ("Drop", "Erase", "Import", "Sweep"):
        with pytest.raises(AirflowFailException, match=r"^table is empty; write a value"):
            executed(made(name, table=EMPTY))


# --- what a template means ------------------------------------------------------------------------


def test_a_template_becomes_what_is_meant() -> None:
    texts = {"table": "t", "partitions": "day=1", "full": "False", "dry_run": "true"}
    assert rendered(fields_of(MergeOptions), {**texts, "max_bytes": "10GiB"}) == {
        "table": "t",
        "partitions": ["day=1"],
        "full": False,
        "dry_run": True,
        "max_bytes": "10GiB",
    }
    assert rendered(fields_of(RestoreOptions), {"to": " 7 ", "newest": "None", "again": "no"}) == {
        "to": 7,
        "newest": None,
        "again": False,
    }
    with pytest.raises(UsageError, match="exact is 'perhaps', which is not true or false"):
        rendered(fields_of(RestoreOptions), {"exact": "perhaps"})
    with pytest.raises(UsageError, match="to is 'last', which is not a whole number"):
        rendered(fields_of(RestoreOptions), {"to": "last"})


def test_a_switch_is_true_or_false() -> None:
    for name in ("dry_run", "again", "exact"):
        with pytest.raises(UsageError, match=f"{name} is neither true nor false: 0"):
            rendered(fields_of(RestoreOptions), {name: 0})


def test_one_text_is_a_list_of_one_for_what_asks_too() -> None:
    assert made("Drop", partitions="day=2020-*").conf["partitions"] == "day=2020-*"
    assert rendered(fields_of(EraseOptions), {"columns": "id"}) == {"columns": ["id"]}


@pytest.mark.parametrize("wish", ["merge", "cleanup", "verify"])
@pytest.mark.parametrize("said", [None, "no", 1])
def test_a_group_is_told_which_operations_it_has(wish: str, said: object) -> None:
    with pytest.raises(UsageError, match=f"{wish} of maintain is .*; write True, False or"):
        maintain("events", **{wish: said})  # type: ignore[arg-type] # what people write
