"""Airflow's database as a witness of a table's history."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.pool import StaticPool

from firnline.airflow import witness
from firnline.airflow.works import VerifyWork
from firnline.errors import EnvironmentFaultError, UsageError
from firnline.settings.load import TableSettings
from tests.support.airflow_context import run_context
from tests.support.tables import loaded

ONE, TWO = {"seq": 1, "digest": "1" * 64}, {"seq": 2, "digest": "2" * 64}


class Events(list[Any]):
    """Events on an inlet, oldest first."""

    def ascending(self, ascending: bool) -> Events:
        return self if ascending else Events(reversed(self))

    def limit(self, most: int) -> Events:
        return Events(self[:most])


@pytest.fixture
def settings(tmp_path: Path) -> TableSettings:
    return loaded(tmp_path, f"tables: {{t: {{root: 'file://{tmp_path}/t'}}}}").table("t")


def line(head: dict[str, Any]) -> str:
    return f"firnline-witness table=t transaction={head['seq']} digest={head['digest']}"


def test_the_newest_events_of_an_inlet_are_witnesses(settings: TableSettings) -> None:
    events = Events([SimpleNamespace(extra={"head": head}) for head in (ONE, TWO)])
    events.insert(1, SimpleNamespace(extra={"transactions": [1]}))  # of an older version
    context: Any = {"inlet_events": {inlet(settings): events}}
    assert witness.of_context(context, settings) == (line(TWO), line(ONE))


def inlet(settings: TableSettings) -> Any:
    from firnline.airflow.tables import asset_of

    return asset_of(settings)


def test_a_verify_takes_them_beside_those_of_its_form(
    settings: TableSettings, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("FIRNLINE_TABLES", str(tmp_path / "tables.yaml"))
    work = VerifyWork()
    context = run_context(work, {"witness": [line(ONE)]})
    context["inlet_events"] = {inlet(settings): Events([SimpleNamespace(extra={"head": TWO})])}
    assert work.parse_params(context).witness == (line(ONE), line(TWO))


def test_the_command_line_reads_airflows_database(
    settings: TableSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = create_engine("sqlite://", poolclass=StaticPool)
    with engine.begin() as connection:
        connection.execute(text("create table asset (id integer, name text)"))
        connection.execute(
            text("create table asset_event (asset_id integer, extra text, timestamp integer)")
        )
        connection.execute(text("insert into asset values (1, 't'), (2, 'other')"))
        rows = [(1, ONE, 1), (1, TWO, 2), (2, {"seq": 9, "digest": "9" * 64}, 3)]
        for asset, head, at in rows:
            connection.execute(
                text("insert into asset_event values (:a, :e, :t)"),
                {"a": asset, "e": json.dumps({"head": head}), "t": at},
            )
    import airflow.settings

    monkeypatch.setattr(airflow.settings, "initialize", lambda: None)
    monkeypatch.setattr(airflow.settings, "engine", engine)
    assert witness.of_database(settings) == (line(TWO), line(ONE))
    with engine.begin() as connection:
        connection.execute(text("delete from asset_event"))
    with pytest.raises(UsageError, match="no event on the asset of table t"):
        witness.of_database(settings)


def test_a_database_that_airflow_has_not_made_yet_is_one_sentence(
    settings: TableSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    import airflow.settings

    monkeypatch.setattr(airflow.settings, "initialize", lambda: None)
    monkeypatch.setattr(airflow.settings, "engine", create_engine("sqlite://"))
    with pytest.raises(EnvironmentFaultError, match="no such table: asset_event") as caught:
        witness.of_database(settings)
    assert "`airflow db migrate`" in caught.value.next_step
