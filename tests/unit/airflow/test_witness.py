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

ONE, TWO, THREE = ({"seq": seq, "digest": f"{seq}" * 64} for seq in (1, 2, 3))


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


@pytest.fixture
def events(monkeypatch: pytest.MonkeyPatch) -> dict[str, Events]:
    """Events by the name of the asset, for every task."""
    found = {"t": Events(), "t:upkeep": Events()}

    class Seen(list[Any]):
        def __getitem__(self, asset: Any) -> Events:
            return found[asset.name]

    monkeypatch.setattr("airflow.sdk.execution_time.context.InletEventsAccessors", Seen)
    return found


def event(head: dict[str, Any]) -> SimpleNamespace:
    return SimpleNamespace(extra={"head": head})


def test_the_newest_events_on_both_assets_are_witnesses(
    settings: TableSettings, events: dict[str, Events]
) -> None:
    older = SimpleNamespace(extra={"transactions": [1]})  # of an older version
    events["t"] += [event(ONE), older, event(TWO)]
    events["t:upkeep"].append(event(THREE))
    assert witness.of_events(settings) == (line(TWO), line(ONE), line(THREE))


def test_a_verify_takes_them_beside_those_of_its_form(
    settings: TableSettings,
    events: dict[str, Events],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.setenv("FIRNLINE_TABLES", str(tmp_path / "tables.yaml"))
    work = VerifyWork()
    events[settings.name].append(event(TWO))
    for conf in ({}, {"table": settings.name}):
        context = run_context(work, {"witness": [line(ONE)], **conf})
        context["dag"].dag_id = "verify" if conf else "verify__t"
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
